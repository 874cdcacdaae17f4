/* user_object.c -- the client's objects that live as long as the graphs that use them.
 *
 * The client's function must not run under the lock, nor in the call that releases the
 * last reference: cuda.core's function takes a lock that the caller may hold. So it runs
 * on a thread that exists as long as there is something to destroy.
 */
#define _GNU_SOURCE
#include "sim/graph/user_object.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/graph/graph.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum { NO_DESTRUCTOR_SYNC = 1, MOVE = 1 };

struct sim_user_object {
    /* in the list of live objects, or of those to destroy */
    struct sim_user_object *next;
    CUhostFn destroy;
    void *data;
    uint64_t references; /* the client's and those of graphs */
};

struct sim_user_use {
    struct sim_user_use *next; /* in the graph's list */
    struct sim_user_object *object;
    uint64_t references;
};

static struct sim_user_object *objects, *destroy_queue;
static bool is_destroying;

static void *destroy_queued(void *unused)
{
    (void)unused;
    sim_lock();
    while (destroy_queue) {
        struct sim_user_object *object = destroy_queue;
        destroy_queue = object->next;
        sim_lock_release();
        object->destroy(object->data);
        free(object);
        sim_lock();
    }
    is_destroying = false;
    sim_lock_release();
    return NULL;
}

/* If the thread cannot be created, the next attempt destroys these objects too. */
static void start_destroying(void)
{
    sigset_t all, old;
    pthread_t thread;

    if (is_destroying)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    is_destroying = pthread_create(&thread, NULL, destroy_queued, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (is_destroying)
        pthread_detach(thread);
}

static void release_references(struct sim_user_object *object, uint64_t count)
{
    struct sim_user_object **link = &objects;

    object->references -= count;
    if (object->references > 0)
        return;
    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
    object->next = destroy_queue;
    destroy_queue = object;
    start_destroying();
}

static struct sim_user_object *find(CUuserObject handle)
{
    struct sim_user_object *object = objects;

    while (object && (void *)object != (void *)handle)
        object = object->next;
    return object;
}

static bool is_count(unsigned count)
{
    return count > 0 && count <= INT_MAX;
}

/* --- of graphs --- */

static struct sim_user_use **find_use(struct sim_graph *graph,
                                      const struct sim_user_object *object)
{
    struct sim_user_use **link = &graph->uses;

    while (*link && (*link)->object != object)
        link = &(*link)->next;
    return link;
}

/* Give the references to the graph; false: no host memory. */
static bool use(struct sim_graph *graph, struct sim_user_object *object, uint64_t count)
{
    struct sim_user_use *use = *find_use(graph, object);

    if (!use) {
        use = calloc(1, sizeof *use);
        if (!use)
            return false;
        use->object = object;
        use->next = graph->uses;
        graph->uses = use;
    }
    use->references += count;
    return true;
}

bool sim_user_objects_copy(struct sim_graph *to, const struct sim_graph *from)
{
    for (const struct sim_user_use *each = from->uses; each; each = each->next) {
        if (!use(to, each->object, each->references))
            return false;
        each->object->references += each->references;
    }
    return true;
}

void sim_user_objects_drop(struct sim_graph *graph)
{
    struct sim_user_use *each;

    while ((each = graph->uses)) {
        graph->uses = each->next;
        release_references(each->object, each->references);
        free(each);
    }
}

/* --- the calls --- */

CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy,
                            unsigned int count, unsigned int flags)
{
    struct sim_user_object *object;

    ENTER(CALL_ALLOCATES);
    if (!out || !destroy || count == 0 || flags != NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    object = malloc(sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    *object = (struct sim_user_object){objects, destroy, data, count};
    objects = object;
    *out = (CUuserObject)(void *)object;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_user_object *object = find(handle);
    if (!object || !is_count(count))
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    object->references += count;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count)
{
    ENTER(CALL_PLAIN);
    sim_lock();
    struct sim_user_object *object = find(handle);
    if (!object || !is_count(count) || count > object->references)
        return sim_lock_leave(CUDA_ERROR_INVALID_VALUE);
    release_references(object, count);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult sim_user_object_retain(struct sim_graph *graph, CUuserObject handle,
                                unsigned count, unsigned flags)
{
    struct sim_user_object *object = find(handle);

    if (!graph || !object || !is_count(count) || flags & ~(unsigned)MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!use(graph, object, count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!(flags & MOVE))
        object->references += count;
    return CUDA_SUCCESS;
}

CUresult sim_user_object_release(struct sim_graph *graph, CUuserObject handle,
                                 unsigned count)
{
    struct sim_user_object *object = find(handle);
    struct sim_user_use **link = graph && object ? find_use(graph, object) : NULL;

    if (!link || !*link || !is_count(count) || count > (*link)->references)
        return CUDA_ERROR_INVALID_VALUE;
    (*link)->references -= count;
    if ((*link)->references == 0) {
        struct sim_user_use *removed = *link;
        *link = removed->next;
        free(removed);
    }
    release_references(object, count);
    return CUDA_SUCCESS;
}
