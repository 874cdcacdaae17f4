/* hook.h -- functions that a user sets, and may remove while other threads run them.
 *
 * A hook is called with no lock held, on any number of threads at once, and may do
 * anything. So a call is counted while it runs. A thread that removes the function waits
 * until no other thread runs it; then the function's data may be freed. A thread does not
 * wait for its own call.
 *
 *     struct tarn__hook_call call;
 *     if (tarn__hook_begin(&hook, &call)) {
 *         ((handler *)call.function)(call.data, ...);
 *         tarn__hook_end(&call);
 *     }
 *
 * The function has to return: after a longjmp() out of it its call would never end.
 */
#ifndef TARN_BASE_HOOK_H
#define TARN_BASE_HOOK_H

#include <stdbool.h>

typedef void tarn__any_function(void);

/* A hook; all zeros: no function is set. */
struct tarn__hook {
    tarn__any_function *function;
    void *data;
    unsigned running; /* calls under way, on all threads */
    unsigned forks;   /* forks that the process came from when `running` was counted */
};

/* A call, on the stack of its caller. */
struct tarn__hook_call {
    struct tarn__hook *hook;
    tarn__any_function *function;
    void *data;
    struct tarn__hook_call *outer; /* the enclosing call of this thread, or NULL */
};

/* Begin a call of the function. Returns false if none is set. */
bool tarn__hook_begin(struct tarn__hook *hook, struct tarn__hook_call *call);
void tarn__hook_end(struct tarn__hook_call *call);

/* Set another function, or none (NULL), once no other thread runs the previous one.
 * Meanwhile none is set. */
void tarn__hook_set(struct tarn__hook *hook, tarn__any_function *function, void *data);

/* Return the function, for a call that no removal waits for. */
struct tarn__hook tarn__hook_get(const struct tarn__hook *hook);

/* --- for hooks in a list, which this lock guards as well; a thread that holds it takes
 * no other lock --- */

void tarn__hook_lock(void);
void tarn__hook_unlock(void);
/* Begin a call of the function. `lock` held. */
void tarn__hook_begin_locked(struct tarn__hook *hook, struct tarn__hook_call *call);
/* End a call. `lock` held. */
void tarn__hook_end_locked(struct tarn__hook_call *call);
/* Return true if this thread runs the hook. */
bool tarn__hook_is_mine(const struct tarn__hook *hook);
/* Wait until no other thread runs it; the lock is released meanwhile. `lock` held. */
void tarn__hook_wait_locked(struct tarn__hook *hook);

#endif
