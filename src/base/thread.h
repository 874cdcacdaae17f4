/* thread.h -- what each thread has: an id, and its last failure and warning. */
#ifndef TARN_BASE_THREAD_H
#define TARN_BASE_THREAD_H

#include <tarn/status.h>
#include <pthread.h>
#include <stdint.h>

/* Return the system's id of the calling thread. Each thread queries it once. */
uint64_t tarn__thread_id(void);

/* Start a thread of the library with all signals blocked, so that the system delivers the
 * signals of the process to the program's own threads. Returns 0, or an error number. */
int tarn__thread_start(pthread_t *out, void *(*function)(void *data), void *data);

struct tarn__thread_messages {
    tarn_error error;
    char warning[480];
};

/* Return this thread's messages, allocated at the first use; NULL: no host memory. */
struct tarn__thread_messages *tarn__thread_messages_get(void);
/* Return the same, or NULL where there is none yet. */
const struct tarn__thread_messages *tarn__thread_messages_find(void);

#endif
