/* process_barrier.c -- a memory barrier on all threads of the process, by
 * membarrier(2). */
#define _GNU_SOURCE
#include "base/process_barrier.h"
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ThreadSanitizer does not know membarrier(2). */
#ifdef __SANITIZE_THREAD__
enum { KNOWN = 0 };
#else
enum { KNOWN = 1 };
#endif

bool tarn__process_barrier_is_on;

static bool call(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

static void ask(void)
{
    tarn__process_barrier_is_on =
        KNOWN && call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

void tarn__process_barrier_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, ask);
}

void tarn__process_barrier(void)
{
    if (!tarn__process_barrier_is_on) {
        atomic_thread_fence(memory_order_seq_cst);
        return;
    }
    /* The fast command can lack memory for a moment. The slow one needs none. */
    while (!call(MEMBARRIER_CMD_PRIVATE_EXPEDITED) && !call(MEMBARRIER_CMD_GLOBAL))
        ;
}
