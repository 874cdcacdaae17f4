/* ranges.h -- ranges in the timeline of a tool such as Nsight Systems, in NVTX's domain
 * `tarn`: what an allocation spent its time with.
 *
 * They are off unless TARN_NVTX is `ranges`. Then a range costs a call of the tool.
 */
#ifndef TARN_NVTX_RANGES_H
#define TARN_NVTX_RANGES_H

#include <stdbool.h>
#include <stdint.h>

/* Begin a range of the calling thread, inside those that it has begun. `name` is of static
 * storage; `bytes` is what it is about, 0: unknown. The result is for tarn__ranges_end(). The
 * pool's `lock` is not held. */
bool tarn__ranges_begin(const char *name, uint64_t bytes);
void tarn__ranges_end(bool has_begun);

#endif
