/* recorded_streams.h -- the streams that use a block, as Tensor.record_stream() says. */
#ifndef TARN_TORCH_RECORDED_STREAMS_H
#define TARN_TORCH_RECORDED_STREAMS_H

#include <tarn/resource.h>

/* What is recorded about one live block. */
struct tarn__torch_record {
    bool is_captured; /* a capturing stream allocated it */
    size_t count, capacity;
    tarn_stream *streams;
};

/* Record that a stream uses a block. TARN_OUT_OF_MEMORY: host memory. */
tarn_status tarn__recorded_streams_add(tarn_device_ptr block, tarn_stream stream);
/* Record that a capturing stream allocated a block. */
tarn_status tarn__recorded_streams_captured(tarn_device_ptr block);
/* Remove and return the record of a block; tarn__recorded_streams_end() ends it. Returns
 * false if it has none. */
bool tarn__recorded_streams_take(tarn_device_ptr block, struct tarn__torch_record *out);
/* Free what a taken record has. */
void tarn__recorded_streams_end(struct tarn__torch_record *record);

#endif
