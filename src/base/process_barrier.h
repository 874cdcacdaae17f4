/* process_barrier.h -- a memory barrier on all threads of the process at once.
 *
 * Two threads exclude each other with one flag each, as in Dekker's algorithm: each sets
 * its own flag and then reads the other's. Both need a full memory barrier in between.
 * Where one of them does this often and the other rarely, the rare one makes a barrier on
 * all threads (membarrier(2)). Then the frequent one needs none. A full barrier costs it
 * about 20 cycles, a barrier on all threads about a microsecond.
 *
 *     often: tarn__process_barrier_set_flag(&mine); read theirs
 *     rare:  set mine (seq_cst); tarn__process_barrier(); read theirs
 *
 * Where the kernel offers no such barrier, the frequent thread makes its own.
 */
#ifndef TARN_PROCESS_BARRIER_H
#define TARN_PROCESS_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

/* The kernel offers the barrier. Set once, before any use. */
extern bool tarn__process_barrier_is_on __attribute__((visibility("hidden")));

/* Ask the kernel for the barrier. Later calls do nothing. A thread calls this before it
 * shares a flag with others. */
void tarn__process_barrier_open(void);

/* Make a full memory barrier on all threads of the process, if the kernel offers that.
 * Otherwise make one on the calling thread; the frequent thread then makes its own. */
void tarn__process_barrier(void);

/* Set the flag of the frequent thread, which then reads the other one with
 * memory_order_seq_cst. With membarrier only the compiler keeps the two in order here, and
 * the rare thread's barrier does the rest. */
static inline void tarn__process_barrier_set_flag(atomic_bool *flag)
{
    if (tarn__process_barrier_is_on) {
        atomic_store_explicit(flag, true, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_store_explicit(flag, true, memory_order_seq_cst);
    }
}

#endif
