/* nrt_resource.h -- a memory resource as an allocator of the runtime for counted memory.
 *
 * Any resource whose memory the host can reach can serve. Two uses are:
 *
 *   - pinned memory for the blocks that compiled code allocates;
 *   - one limit on all host memory of a program.
 */
#ifndef TARN_NRT_RESOURCE_H
#define TARN_NRT_RESOURCE_H

#include <tarn/nrt.h>
#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_runtime
 * @{ */

/** Creates an allocator that takes its memory from a resource.
 *
 * The allocator serves an instance (tarn_runtime_set_allocator()) or one block
 * (tarn_meminfo_options.allocator). It also serves other code that takes an
 * NRT_ExternalAllocator. Its `realloc` is NULL.
 *
 * The allocator allocates and deallocates with TARN_STREAM_NONE. This call allocates and
 * deallocates one block, to find out whether the host can reach the memory.
 * Thread-safety: any thread.
 *
 * @param resource The resource; retained.
 * @param[out] out The allocator; the caller owns it and keeps it until all blocks of it
 *   are freed.
 * @return The outcome:
 *   - TARN_OK: `*out` is set.
 *   - TARN_INVALID_ARGUMENT: a pointer is NULL, or the host cannot reach the memory.
 *   - TARN_OUT_OF_MEMORY: host memory is exhausted.
 *   - any other: the resource could not allocate or deallocate the block.
 * @since 0.1 */
TARN_API tarn_status tarn_resource_allocator_create(tarn_resource *resource,
                                                    NRT_ExternalAllocator **out);

/** Releases an allocator of tarn_resource_allocator_create() that has no live blocks.
 *
 * An instance that uses the allocator keeps chunks for small blocks until
 * tarn_runtime_trim().
 * Thread-safety: any thread, while no other thread uses the allocator.
 *
 * @param allocator The allocator; ownership is transferred on success. NULL does nothing.
 * @return The outcome:
 *   - TARN_OK: the allocator is released, or `allocator` was NULL.
 *   - TARN_STILL_IN_USE: blocks are live. The message has their number.
 *   - any other: tarn_resource_release() of the resource failed; the allocator remains.
 * @since 0.1 */
TARN_API tarn_status tarn_resource_allocator_release(NRT_ExternalAllocator *allocator);

/** @} */

TARN_END_DECLS
#endif
