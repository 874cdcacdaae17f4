/* quiet.c -- waiting until nobody uses memory that is about to be unmapped.
 *
 * cuMemUnmap does not wait, so it pulls memory from under running work. cuCtxSynchronize
 * waits, but loses every capture in the context. Allocating and freeing a little covers
 * the same work and does no harm in relaxed mode (reference/driver.md, section 4).
 */
#include "ipc/owner.h"

enum { A_LITTLE = 256 };

CUresult_ tarn__wait_for_quiet(const struct tarn__calls *calls)
{
    CUdeviceptr_ little = 0;
    CUresult_ result = calls->mem_alloc(&little, A_LITTLE);

    if (result == CUDA_ERROR_OUT_OF_MEMORY_)
        return calls->ctx_synchronize();
    if (result != CUDA_SUCCESS_)
        return result;
    result = calls->mem_free(little);
    if (result != CUDA_SUCCESS_)
        result = calls->mem_free(little); /* else it would be lost */
    return result;
}
