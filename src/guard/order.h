/* order.h -- what orders the work on a block: a stream, or nothing. */
#ifndef TARN_GUARD_ORDER_H
#define TARN_GUARD_ORDER_H

#include "driver/driver.h"
#include <tarn/resource.h>

enum tarn__order {
    TARN__ORDER_STREAM,   /* work goes to the stream */
    TARN__ORDER_NONE,     /* no stream orders the block */
    TARN__ORDER_CAPTURED, /* the stream captures, or cannot be asked */
};

/* Find the stream that orders a call with `stream`. A resource that does not order memory by
 * stream ignores the stream, which may be none. In a scope. */
enum tarn__order tarn__order_find(const tarn_resource *resource,
                                  const struct tarn__scope *scope, tarn_stream stream,
                                  CUstream_ *out);

#define TARN__ORDER_NO_STREAM UINT64_MAX /* in place of the id of a stream */

/* What is known of the stream that orders a call. */
struct tarn__order_known {
    int device;
    uint64_t stream_id; /* or TARN__ORDER_NO_STREAM */
    uint64_t context_generation;
};

/* Find out the same without a scope, by two queries. Returns false if that is not possible:
 * the stream is not registered, or it captures. */
bool tarn__order_find_quickly(const tarn_resource *resource, tarn_stream stream,
                              struct tarn__order_known *out);

#endif
