/* oom_callback.c -- out-of-memory callbacks: called before an allocation fails.
 *
 * A callback may do anything: use the pool, add callbacks, remove others or itself. The
 * pool therefore looks each one up again, by its number, before each call. A removal
 * takes the callback out of the list and waits until no other thread runs it. A callback
 * that removes itself is freed when its call ends.
 */
#include "pool/oom_callback.h"
#include "base/hook.h"
#include "pool/pool.h"
#include <stdlib.h>

/* Registered at once, and calls for one request. */
enum { CALLBACKS_MAX = 8, CALLS_MAX = 16 };

struct tarn__oom_callback {
    struct tarn__hook hook;          /* a tarn_pool_oom_callback */
    struct tarn__oom_callback *next; /* in the order of their numbers */
    uint64_t number;                 /* unique in a pool; increases */
    /* it is in no list; its last call frees it when it ends */
    bool goes_with_its_call;
};

static _Thread_local bool inside; /* this thread runs a callback, of any pool */

void tarn__oom_callbacks_free(struct tarn__oom_callbacks *all)
{
    while (all->first) {
        struct tarn__oom_callback *one = all->first;
        all->first = one->next;
        free(one);
    }
}

/* --- calling --- */

static unsigned behind(const struct tarn__oom_callback *one)
{
    unsigned count = 0;

    while ((one = one->next) != NULL)
        count++;
    return count;
}

/* Choose the next callback. It is that of `progress`, if it still exists and may be
 * called once more, so that each one after it has a call left. Otherwise it is the next
 * one. Locked. */
static struct tarn__oom_callback *choose(const struct tarn__oom_callbacks *all,
                                         struct tarn__oom_progress *progress)
{
    struct tarn__oom_callback *one = all->first;

    while (one && one->number < progress->number)
        one = one->next;
    if (one && progress->attempt > 0 && one->number == progress->number &&
        progress->calls + 1 + behind(one) > CALLS_MAX)
        one = one->next;
    if (one && one->number != progress->number) {
        progress->number = one->number;
        progress->attempt = 0;
    }
    return progress->calls < CALLS_MAX ? one : NULL;
}

/* Begin a call. Returns false if no callback is left. */
static bool begin_call(struct tarn__oom_callbacks *all,
                       struct tarn__oom_progress *progress, struct tarn__hook_call *call)
{
    tarn__hook_lock();
    struct tarn__oom_callback *one = choose(all, progress);
    if (one) {
        tarn__hook_begin_locked(&one->hook, call);
        progress->calls++;
    }
    tarn__hook_unlock();
    return one != NULL;
}

static void end_call(struct tarn__hook_call *call)
{
    struct tarn__oom_callback *one = (struct tarn__oom_callback *)(void *)call->hook;

    tarn__hook_lock();
    tarn__hook_end_locked(call);
    bool is_last = one->goes_with_its_call;
    tarn__hook_unlock();
    if (is_last)
        free(one);
}

bool tarn__oom_callbacks_call(struct tarn__pool *pool, uint64_t bytes,
                              struct tarn__oom_progress *progress)
{
    struct tarn__hook_call call;
    bool freed = false;

    /* A callback may allocate, and that allocation may fail. */
    while (!freed && !inside && !tarn__driver_gone() &&
           begin_call(&pool->oom_callbacks, progress, &call)) {
        inside = true;
        freed = ((tarn_pool_oom_callback)call.function)(call.data, pool->resource, bytes,
                                                        progress->attempt++);
        inside = false;
        end_call(&call);
        if (!freed) {
            progress->number++;
            progress->attempt = 0;
        }
    }
    return freed;
}

/* --- coming and going --- */

/* Enter it as the last one. Returns false if the list is full. */
static bool add_hook(struct tarn__oom_callbacks *all, struct tarn__oom_callback *made)
{
    struct tarn__oom_callback **link = &all->first;
    unsigned count = 0;

    tarn__hook_lock();
    for (; *link; link = &(*link)->next)
        count++;
    if (count < CALLBACKS_MAX) {
        made->number = ++all->last_number;
        *link = made;
    }
    tarn__hook_unlock();
    return count < CALLBACKS_MAX;
}

tarn_status tarn_pool_add_oom_callback(tarn_resource *resource,
                                       tarn_pool_oom_callback call, void *data)
{
    struct tarn__pool *pool;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    if (status == TARN_OK && !call)
        status = tarn_error_set(TARN_INVALID_ARGUMENT,
                                "pool: add_oom_callback: the callback is NULL");
    if (status == TARN_OK && tarn__driver_gone()) /* a lock may be held forever */
        status = tarn_error_set(
            TARN_DRIVER_FAILURE,
            "pool: add_oom_callback: this process is exiting or is a forked child");
    if (status != TARN_OK)
        return status;
    struct tarn__oom_callback *made = malloc(sizeof *made);
    if (!made)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "pool: no host memory for a callback of %zu bytes",
                              sizeof *made);
    *made = (struct tarn__oom_callback){.hook = {(tarn__any_function *)call, data, 0, 0}};
    if (add_hook(&pool->oom_callbacks, made))
        return TARN_OK;
    free(made);
    return tarn_error_set(TARN_LIMIT_REACHED,
                          "pool: the maximum of %d out-of-memory callbacks is reached",
                          CALLBACKS_MAX);
}

/* Return the link to it, or NULL. Of several equal ones, it is the one that this thread
 * runs. Otherwise two callbacks that remove themselves on two threads would wait for each
 * other. Locked. */
static struct tarn__oom_callback **find(struct tarn__oom_callbacks *all,
                                        tarn__any_function *function, const void *data)
{
    struct tarn__oom_callback **found = NULL;

    for (struct tarn__oom_callback **link = &all->first; *link; link = &(*link)->next)
        if ((*link)->hook.function == function && (*link)->hook.data == data &&
            (!found || tarn__hook_is_mine(&(*link)->hook)))
            found = link;
    return found;
}

/* Remove it from the list. Returns false if there is none. */
static bool remove_hook(struct tarn__oom_callbacks *all, tarn__any_function *function,
                        const void *data)
{
    struct tarn__oom_callback *one = NULL;
    bool is_idle = false;

    tarn__hook_lock();
    struct tarn__oom_callback **link = find(all, function, data);
    if (link) {
        one = *link;
        *link = one->next;
        tarn__hook_wait_locked(&one->hook);
        is_idle = !tarn__hook_is_mine(&one->hook);
        one->goes_with_its_call = !is_idle;
    }
    tarn__hook_unlock();
    if (is_idle)
        free(one);
    return one != NULL;
}

tarn_status tarn_pool_remove_oom_callback(tarn_resource *resource,
                                          tarn_pool_oom_callback call, void *data)
{
    struct tarn__pool *pool;
    tarn_status status = tarn__pool_of(resource, "pool", &pool);

    /* then no callback is called any more */
    if (status != TARN_OK || tarn__driver_gone())
        return status;
    return remove_hook(&pool->oom_callbacks, (tarn__any_function *)call, data)
               ? TARN_OK
               : tarn_error_set(TARN_NOT_FOUND,
                                "pool: this out-of-memory callback is not registered");
}
