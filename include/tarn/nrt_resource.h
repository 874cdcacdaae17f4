/* nrt_resource.h -- a memory resource as an allocator of the runtime for counted memory.
 *
 * Pinned memory for what compiled code allocates, or one budget for all host memory of a
 * program: any resource whose memory the host can touch serves.
 */
#ifndef TARN_NRT_RESOURCE_H
#define TARN_NRT_RESOURCE_H

#include <tarn/nrt.h>
#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** Make an allocator over `resource`, which it retains, for tarn_runtime_set_allocator(),
 *  for one block (tarn_meminfo_options.allocator), or for anybody else who knows the type.
 *  It names no stream. Memory that the host cannot reach is TARN_INVALID_ARGUMENT: one
 *  block is tried. The caller keeps what the blocks come from, so release it when all of
 *  them are back, else TARN_STILL_IN_USE; an instance that it was given keeps small blocks
 *  until tarn_runtime_trim(). NULL is TARN_OK. */
TARN_API tarn_status tarn_resource_allocator_create(tarn_resource *resource,
                                                    NRT_ExternalAllocator **out);
TARN_API tarn_status tarn_resource_allocator_release(NRT_ExternalAllocator *allocator);

TARN_END_DECLS
#endif
