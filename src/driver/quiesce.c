/* quiesce.c -- wait until no work uses memory that is about to be returned.
 *
 * cuMemUnmap and free() do not wait, so they would remove memory from under running work.
 * cuCtxSynchronize waits, but invalidates every capture in the context. Allocating and
 * freeing a little memory waits for the same work, and in relaxed mode it invalidates no
 * capture.
 */
#include "driver/quiesce.h"

enum { A_LITTLE = 256 };

CUresult_ tarn__quiesce_device(const struct tarn__calls *calls)
{
    CUdeviceptr_ little = 0;
    CUresult_ result = calls->mem_alloc(&little, A_LITTLE);

    if (result == CUDA_ERROR_OUT_OF_MEMORY_)
        return calls->ctx_synchronize();
    if (result != CUDA_SUCCESS_)
        return result;
    result = calls->mem_free(little);
    if (result != CUDA_SUCCESS_)
        result = calls->mem_free(little); /* else this memory would leak */
    return result;
}
