/* sites.h -- the longest hold of each lock of the pool, by operation and site.
 *
 * The library is compiled with TARN_TIME_LOCKS: src/pool/lock.h calls tarn__lock_taken()
 * and tarn__lock_released(), which sites.c defines. A hold is CPU time of the thread, so
 * other programs do not lengthen it.
 */
#ifndef BENCH_SITES_H
#define BENCH_SITES_H

#include <stdbool.h>
#include <stdint.h>

/* The two functions that lock.h declares. */
void tarn__lock_taken(uint64_t *taken_ns, void **code);
void tarn__lock_released(uint64_t taken_ns, void *code);

/* Begin a round of measurement. Each round does the same, so a hold counts as long as the
 * shortest of the rounds: an interrupt in one of them does not count. If rounds have
 * different numbers of holds at a site, the shortest maximum counts there. */
void bench_sites_begin(void);
/* From now on locks are taken for this operation: a string literal. */
void bench_sites_operation(const char *operation);
/* The operation whose holds are the machine's part. */
#define BENCH_SITES_NOTHING "(nothing)"
/* Print for each operation the longest hold, and all that take `least_us`. Returns true
 * if none is over `most_us` and over twice the machine's part. */
bool bench_sites_print(double least_us, double most_us);

#endif
