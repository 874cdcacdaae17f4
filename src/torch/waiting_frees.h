/* waiting_frees.h -- frees that wait for recorded streams. */
#ifndef TARN_TORCH_WAITING_FREES_H
#define TARN_TORCH_WAITING_FREES_H

#include "torch/recorded_streams.h"

/* A block that PyTorch has freed. */
struct tarn__torch_block {
    tarn_resource *resource; /* borrowed: it has a live block */
    tarn_device_ptr address;
    size_t bytes;
    int device;
    tarn_stream stream; /* of the allocation */
};

/* Return a block to its resource once its recorded streams have done the work that they
 * have queued now. Without such work, or without streams, return it now. */
void tarn__waiting_frees_free(const struct tarn__torch_block *block,
                              const struct tarn__torch_record *record);
/* Return blocks whose streams are done. Costs nothing if none waits. */
void tarn__waiting_frees_poll(void);
/* Wait for all streams, and return all blocks. Returns false if none was waiting.
 * `in_capture`: a stream of PyTorch may be capturing. */
bool tarn__waiting_frees_finish(bool in_capture);
/* Return a block in the order of `stream`. If the resource rejects it, that is a warning.
 * After another failure later calls try again. */
void tarn__waiting_frees_return(const struct tarn__torch_block *block,
                                tarn_stream stream);

#endif
