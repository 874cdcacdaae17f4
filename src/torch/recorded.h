/* recorded.h -- the streams that use a block, as torch.Tensor.record_stream() says. */
#ifndef TARN_TORCH_RECORDED_H
#define TARN_TORCH_RECORDED_H

#include <tarn/resource.h>

/* What is recorded about one live block. */
struct tarn__torch_record {
    bool is_captured; /* a capturing stream allocated it */
    size_t count, capacity;
    tarn_stream *streams;
};

/* Record that a stream uses a block. TARN_OUT_OF_MEMORY: host memory. */
tarn_status tarn__torch_recorded_add(tarn_device_ptr block, tarn_stream stream);
/* Record that a capturing stream allocated a block. */
tarn_status tarn__torch_recorded_captured(tarn_device_ptr block);
/* Remove and return the record of a block; tarn__torch_recorded_end() ends it. Returns
 * false if it has none. */
bool tarn__torch_recorded_take(tarn_device_ptr block, struct tarn__torch_record *out);
/* Free what a taken record has. */
void tarn__torch_recorded_end(struct tarn__torch_record *record);

#endif
