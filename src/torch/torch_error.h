/* torch_error.h -- C++ exceptions of PyTorch, from C. */
#ifndef TARN_TORCH_TORCH_ERROR_H
#define TARN_TORCH_TORCH_ERROR_H

#include <tarn/torch.h>

/* Throw the exception for a failure: c10::OutOfMemoryError or c10::Error, or else
 * std::runtime_error. Tarn's last error gives the message. `bytes` is the request; 0: the
 * call was no allocation. No lock may be held. */
_Noreturn void tarn__torch_error_throw(tarn_status status, size_t bytes, int device);

#endif
