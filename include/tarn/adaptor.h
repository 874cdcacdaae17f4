/* adaptor.h -- resources around a resource. They stack in any order, up to TARN_RESOURCE_DEPTH_MAX of
 * them, and keep their upstream alive; blocks go back through the adaptor they came from. */
#ifndef TARN_ADAPTOR_H
#define TARN_ADAPTOR_H

#include <tarn/resource.h>
#include <tarn/trace.h>

TARN_BEGIN_DECLS

/** A resource that keeps its upstream within `limit_bytes`. Each block is charged rounded
 * up to 256 bytes (as RMM's limiting_resource_adaptor). Over it: TARN_OUT_OF_MEMORY. */
TARN_API tarn_status tarn_limiter_create(tarn_resource *upstream, size_t limit_bytes,
                                         tarn_resource **out);
/** Bytes charged now; TARN_INVALID_ARGUMENT if `limiter` is none. */
TARN_API tarn_status tarn_limiter_used_bytes(tarn_resource *limiter, size_t *out);
TARN_API tarn_status tarn_limiter_limit_bytes(tarn_resource *limiter, size_t *out);

/** A resource that writes an event for each allocation, failed allocation and free to
 *  `writer`, which it retains. In the NBEP 7 format an event asks the driver for the free
 *  memory where the call may have changed it, or the last answer is older than a
 *  millisecond. A log that cannot be written does not fail the call: the writer's
 *  flush and its last release say so. */
TARN_API tarn_status tarn_logger_create(tarn_resource *upstream,
                                        tarn_trace_writer *writer, tarn_resource **out);

/** What a counter saw. As RMM's statistics_resource_adaptor: bytes as asked for. */
typedef struct tarn_counts {
    int64_t current_bytes, current_count;
    int64_t peak_bytes, peak_count;
    int64_t total_bytes, total_count;
} tarn_counts;

/** A resource that counts. Requests for 0 bytes and failures are not counted. */
TARN_API tarn_status tarn_counter_create(tarn_resource *upstream, tarn_resource **out);
/** The counts since the creation, or since the last push on its stack. */
TARN_API tarn_status tarn_counter_read(tarn_resource *counter, tarn_counts *out);
/** Begin a new set of counts on top; `*out` (may be NULL) is the one before. */
TARN_API tarn_status tarn_counter_push(tarn_resource *counter, tarn_counts *out);
/** End the topmost set and merge it into the one beneath; the lowest cannot be popped:
 *  TARN_INVALID_ARGUMENT. */
TARN_API tarn_status tarn_counter_pop(tarn_resource *counter, tarn_counts *out);

/** The upstream of one of the adaptors above, retained; TARN_NOT_SUPPORTED for others. */
TARN_API tarn_status tarn_adaptor_upstream(tarn_resource *adaptor, tarn_resource **out);

TARN_END_DECLS
#endif
