/* link.c -- the driver's linker. Linking needs a compiler, so the simulator only links a
 * single input: it returns the input unchanged. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include <stdlib.h>
#include <string.h>

struct linker {
    struct linker *next; /* in the list of all linkers */
    void *image;         /* a copy of the only input */
    size_t bytes;
    unsigned inputs;
};

static struct linker *linkers;

static struct linker *find(CUlinkState handle)
{
    struct linker *linker = linkers;

    while (linker && (void *)linker != (void *)handle)
        linker = linker->next;
    return linker;
}

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values,
                         CUlinkState *out)
{
    struct linker *linker;

    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || (count > 0 && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    linker = calloc(1, sizeof *linker);
    if (!linker)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lock();
    linker->next = linkers;
    linkers = linker;
    *out = (CUlinkState)(void *)linker;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void *data,
                          size_t bytes, const char *name, unsigned int count,
                          CUjit_option *options, void **values)
{
    ENTER(CALL_PLAIN);
    (void)type, (void)name, (void)count, (void)options, (void)values;
    if (!data || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct linker *linker = find(handle);
    if (!linker)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    if (linker->inputs++ == 0) {
        linker->image = calloc(1, bytes + 1); /* PTX may come without its 0 */
        linker->bytes = bytes;
        if (linker->image)
            memcpy(linker->image, data, bytes);
    }
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char *path,
                          unsigned int count, CUjit_option *options, void **values)
{
    ENTER(CALL_PLAIN);
    (void)handle, (void)type, (void)path, (void)count, (void)options, (void)values;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuLinkComplete(CUlinkState handle, void **image, size_t *bytes)
{
    ENTER(CALL_PLAIN);
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct linker *linker = find(handle);
    if (!linker)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    if (linker->inputs != 1 || !linker->image)
        return sim_lock_leave(CUDA_ERROR_NOT_SUPPORTED);
    *image = linker->image;
    if (bytes)
        *bytes = linker->bytes;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuLinkDestroy(CUlinkState handle)
{
    struct linker **at = &linkers;

    ENTER(CALL_PLAIN);
    sim_lock();
    struct linker *linker = find(handle);
    if (!linker)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    while (*at != linker)
        at = &(*at)->next;
    *at = linker->next;
    free(linker->image);
    free(linker);
    return sim_lock_leave(CUDA_SUCCESS);
}
