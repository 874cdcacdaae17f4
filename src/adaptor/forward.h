/* forward.h -- the common part of all adaptors: an upstream, and queries forwarded to
 * it. */
#ifndef TARN_ADAPTOR_FORWARD_H
#define TARN_ADAPTOR_FORWARD_H

#include <tarn/adaptor.h>

/* The first member of every adaptor. */
struct tarn__adaptor {
    tarn_resource *upstream; /* retained; where the memory comes from */
};

/* Create an adaptor of `self`, whose upstream is not set yet. On failure `self` stays the
 * caller's and nothing is retained. */
tarn_status tarn__forward_create(const tarn_resource_ops *ops, struct tarn__adaptor *self,
                                 tarn_resource *upstream, tarn_resource **out);

/* Release the upstream; the first step of every adaptor's destroy. */
void tarn__forward_end(struct tarn__adaptor *self);
/* The destroy of an adaptor that owns nothing but its upstream. */
void tarn__forward_destroy(void *self);

/* Operations that forward to the upstream. */
tarn_status tarn__forward_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                     size_t alignment, tarn_stream stream);
tarn_status tarn__forward_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                      size_t *total_out);
bool tarn__forward_supports_streams(const void *self);
bool tarn__forward_deallocate_synchronizes(const void *self);
bool tarn__forward_supports_no_stream(const void *self);
tarn_status tarn__forward_trim(void *self, size_t keep_bytes, size_t *released_out);
tarn_status tarn__forward_requested_bytes(void *self, tarn_device_ptr block, size_t *out);
void tarn__forward_empty_request(void *self, bool is_free, tarn_stream stream);

/* Return the pool that a resource is, or that is beneath adaptors of this module; NULL: there
 * is none. Not retained. */
tarn_resource *tarn__forward_find_pool(tarn_resource *resource);

/* The members of an adaptor's table that are the same for all adaptors. A logger has an
 * `empty_request_` and a `trim_` of its own; the others forward them. */
#define TARN__FORWARD_QUERIES(empty_request_, trim_)                                   \
    .memory_info = tarn__forward_memory_info,                                          \
    .supports_streams = tarn__forward_supports_streams,                                \
    .deallocate_synchronizes = tarn__forward_deallocate_synchronizes, .trim = (trim_), \
    .requested_bytes = tarn__forward_requested_bytes,                                  \
    .supports_no_stream = tarn__forward_supports_no_stream,                            \
    .empty_request = (empty_request_)

/* The tables, by which forward.c recognizes an adaptor. */
extern const tarn_resource_ops tarn__limiter_ops, tarn__counter_ops, tarn__logger_ops,
    tarn__prefetcher_ops, tarn__failure_callback_ops, tarn__tracker_ops, tarn__guard_ops;

#endif
