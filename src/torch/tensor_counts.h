/* tensor_counts.h -- counts of PyTorch's allocations on each device. */
#ifndef TARN_TORCH_TENSOR_COUNTS_H
#define TARN_TORCH_TENSOR_COUNTS_H

#include <tarn/torch.h>

/* Count an allocation; a free by PyTorch; and that the resource has the block again. The
 * device is valid. */
void tarn__tensor_counts_allocation(int device, size_t bytes);
void tarn__tensor_counts_free(int device, size_t bytes);
void tarn__tensor_counts_return(int device, size_t bytes);
void tarn__tensor_counts_retry(int device);
void tarn__tensor_counts_out_of_memory(int device);

/* Copy the counts of a device, and reset its peaks or its sums. */
void tarn__tensor_counts_get(int device, tarn_torch_statistics *out);
void tarn__tensor_counts_reset_peaks(int device);
void tarn__tensor_counts_reset_totals(int device);

#endif
