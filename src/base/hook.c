/* hook.c -- functions that a user sets: their calls are counted, and a removal waits for
 * them.
 *
 * Setting and calling are rare, so that one lock serves all hooks. It is not held over a
 * fork: a thread may hold other locks when it comes here. A child resets it. The child
 * has one thread, so only the calls on that thread's stack remain of those under way.
 */
#include "base/hook.h"
#include "base/cancellation.h"
#include "base/mutex_assert.h"
#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER; /* signalled when a call ends */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned forks; /* number of forks that this process came from */

static _Thread_local struct tarn__hook_call *innermost;

static void begin_anew(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    forks++;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, begin_anew);
}

void tarn__hook_lock(void)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
}

void tarn__hook_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static unsigned own_calls(const struct tarn__hook *hook)
{
    unsigned count = 0;

    for (const struct tarn__hook_call *i = innermost; i; i = i->outer)
        count += i->hook == hook;
    return count;
}

/* Return the count of calls under way, which is correct in a forked child, too. */
static unsigned *running(struct tarn__hook *hook)
{
    if (hook->forks != forks) {
        hook->forks = forks;
        hook->running = own_calls(hook);
    }
    return &hook->running;
}

void tarn__hook_begin_locked(struct tarn__hook *hook, struct tarn__hook_call *call)
{
    tarn__assert_mutex_held(&lock);

    ++*running(hook);
    *call = (struct tarn__hook_call){hook, hook->function, hook->data, innermost};
    innermost = call;
}

void tarn__hook_end_locked(struct tarn__hook_call *call)
{
    tarn__assert_mutex_held(&lock);

    --*running(call->hook);
    innermost = call->outer;
    pthread_cond_broadcast(&ended);
}

bool tarn__hook_is_mine(const struct tarn__hook *hook)
{
    return own_calls(hook) > 0;
}

void tarn__hook_wait_locked(struct tarn__hook *hook)
{
    tarn__assert_mutex_held(&lock);

    TARN__NOT_CANCELLED;
    while (*running(hook) > own_calls(hook))
        pthread_cond_wait(&ended, &lock);
}

bool tarn__hook_begin(struct tarn__hook *hook, struct tarn__hook_call *call)
{
    tarn__hook_lock();
    bool is_set = hook->function != NULL;
    if (is_set)
        tarn__hook_begin_locked(hook, call);
    tarn__hook_unlock();
    return is_set;
}

void tarn__hook_end(struct tarn__hook_call *call)
{
    tarn__hook_lock();
    tarn__hook_end_locked(call);
    tarn__hook_unlock();
}

void tarn__hook_set(struct tarn__hook *hook, tarn__any_function *function, void *data)
{
    tarn__hook_lock();
    hook->function = NULL;
    tarn__hook_wait_locked(hook);
    if (function) { /* else another thread may have set one during the wait */
        hook->data = data;
        hook->function = function;
    }
    tarn__hook_unlock();
}

struct tarn__hook tarn__hook_get(const struct tarn__hook *hook)
{
    tarn__hook_lock();
    struct tarn__hook got = *hook;
    tarn__hook_unlock();
    return got;
}
