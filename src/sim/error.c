/* error.c -- names and words of results. */
#include "sim/api.h"

CUresult cuGetErrorName(CUresult error, const char **name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    switch (error) {
#define X(constant, number, words) \
    case number:                   \
        *name = #constant;         \
        return CUDA_SUCCESS;
        SIM_ERRORS(X)
#undef X
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    switch (error) {
#define X(constant, number, words) \
    case number:                   \
        *text = words;             \
        return CUDA_SUCCESS;
        SIM_ERRORS(X)
#undef X
    }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
