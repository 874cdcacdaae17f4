/* thread.c -- the id of a thread, and memory for its last messages.
 *
 * A thread allocates the memory at its first message, and only the pointer is
 * thread-local. A library that is opened while the program runs gets its thread-local
 * storage from a small area that all such libraries share. It cannot be opened when that
 * area is used up (tests/nrt/late.c).
 */
#define _GNU_SOURCE
#include "base/thread.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local struct tarn__thread_messages *own; /* NULL: none yet */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its value is `own`, for end_thread() */
static bool key_made;

static void end_thread(void *value)
{
    own = NULL;
    free(value);
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, end_thread) == 0;
}

const struct tarn__thread_messages *tarn__thread_messages_find(void)
{
    return own;
}

struct tarn__thread_messages *tarn__thread_messages_get(void)
{
    if (own)
        return own;
    pthread_once(&once, make_key);
    struct tarn__thread_messages *fresh = key_made ? calloc(1, sizeof *fresh) : NULL;
    if (fresh && pthread_setspecific(key, fresh) != 0) {
        free(fresh);
        return NULL;
    }
    return own = fresh;
}

static _Thread_local uint64_t own_id; /* 0: not asked for yet */
static pthread_once_t forget_once = PTHREAD_ONCE_INIT;

/* The thread of a forked child has another id than the one that forked. */
static void forget_id(void)
{
    own_id = 0;
}

static void forget_id_in_children(void)
{
    pthread_atfork(NULL, NULL, forget_id);
}

uint64_t tarn__thread_id(void)
{
    if (own_id == 0) {
        pthread_once(&forget_once, forget_id_in_children);
        own_id = (uint64_t)syscall(SYS_gettid);
    }
    return own_id;
}

int tarn__thread_start(pthread_t *out, void *(*function)(void *data), void *data)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int why = pthread_create(out, NULL, function, data);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return why;
}
