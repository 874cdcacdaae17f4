/* hook.h -- functions that a user sets, and may take away while other threads run them.
 *
 * A hook is called with no lock held, on any number of threads at once, and may do anything.
 * So a call is counted while it runs, and who takes the function away waits until no other
 * thread runs it: its data may be freed then. A thread does not wait for its own call.
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

/* One that may be set; all zeros is none. */
struct tarn__hook {
    tarn__any_function *function;
    void *data;
    unsigned running; /* calls under way, on all threads */
    unsigned forks;   /* that the process came from when they were counted */
};

/* A call, on the stack of its caller. */
struct tarn__hook_call {
    struct tarn__hook *hook;
    tarn__any_function *function;
    void *data;
    struct tarn__hook_call *outer; /* that this thread is in, or NULL */
};

/* Begin a call of what is set. False: nothing is. */
bool tarn__hook_begin(struct tarn__hook *hook, struct tarn__hook_call *call);
void tarn__hook_end(struct tarn__hook_call *call);

/* Set another function, or none (NULL), once no other thread runs the one before. Meanwhile
 * none is set. */
void tarn__hook_set(struct tarn__hook *hook, tarn__any_function *function, void *data);

/* What is set, for a call that nobody waits for. */
struct tarn__hook tarn__hook_get(const struct tarn__hook *hook);

/* --- for hooks that are kept in a list, which this lock guards as well; no other lock is
 * taken behind it --- */

void tarn__hooks_lock(void);
void tarn__hooks_unlock(void);
void tarn__hook_begin_locked(struct tarn__hook *hook, struct tarn__hook_call *call);
void tarn__hook_end_locked(struct tarn__hook_call *call);
/* Does this thread run it? */
bool tarn__hook_is_mine(const struct tarn__hook *hook);
/* Wait until no other thread runs it; the lock is given up meanwhile. */
void tarn__hook_wait_locked(struct tarn__hook *hook);

#endif
