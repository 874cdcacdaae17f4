/* error.c -- names and texts of results. */
#include "sim/core/api.h"
#include "sim/core/misuse.h"
#include "sim/core/phase.h"

/* A missing output makes the real driver crash. */
static CUresult check(const char *call, const char *const *out)
{
    if (sim_phase_is_exiting())
        return CUDA_ERROR_DEINITIALIZED;
    if (!out)
        sim_misuse_abort(call, "the output is NULL; a real driver crashes here");
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    CUresult result = check(__func__, name);

    if (result != CUDA_SUCCESS)
        return result;
    switch (error) {
#define X(constant, number, message) \
    case number:                     \
        *name = #constant;           \
        return CUDA_SUCCESS;
        SIM_ERRORS(X)
#undef X
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    CUresult result = check(__func__, text);

    if (result != CUDA_SUCCESS)
        return result;
    switch (error) {
#define X(constant, number, message) \
    case number:                     \
        *text = message;             \
        return CUDA_SUCCESS;
        SIM_ERRORS(X)
#undef X
    }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
