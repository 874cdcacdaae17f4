/* module.c -- modules, libraries and linking: two APIs for the same images. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/module/image.h"
#include <stdlib.h>
#include <string.h>

/* CUjit_option: sizes of the logs, which are input and output. */
enum { JIT_INFO_BYTES = 4, JIT_ERROR_BYTES = 6 };

/* Nothing is compiled, so the logs are empty. */
static void empty_logs(unsigned count, const CUjit_option *options, void **values)
{
    for (unsigned i = 0; options && values && i < count; i++)
        if (options[i] == JIT_INFO_BYTES || options[i] == JIT_ERROR_BYTES)
            values[i] = NULL;
}

/* --- modules --- */

static CUresult load_module(CUmodule *out, const void *data)
{
    struct sim_image *image;
    CUresult result;

    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_image_load(data, false, &image);
    if (result == CUDA_SUCCESS)
        *out = (CUmodule)(void *)image;
    return sim_lock_leave(result);
}

CUresult cuModuleLoadData(CUmodule *out, const void *data)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    return load_module(out, data);
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *data, unsigned int count,
                            CUjit_option *options, void **values)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    empty_logs(count, options, values);
    return load_module(out, data);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *data)
{
    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    return load_module(out, data);
}

CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    struct sim_image *image;
    CUresult result;

    ENTER(CALL_CONTEXT | CALL_ALLOCATES);
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = sim_image_load_file(path, false, &image);
    if (result == CUDA_SUCCESS)
        *out = (CUmodule)(void *)image;
    return sim_lock_leave(result);
}

static CUresult unload(const void *handle, bool is_library)
{
    sim_lock();
    struct sim_image *image = sim_image_find(handle, is_library);
    if (!image)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    sim_image_unload(image);
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuModuleUnload(CUmodule module)
{
    ENTER(CALL_PLAIN);
    return unload(module, false);
}

static CUresult get_function(void **out, const void *handle, bool is_library,
                             const char *name)
{
    struct sim_function *function;
    CUresult result;

    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_image *image = sim_image_find(handle, is_library);
    if (!image)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    result = sim_image_function(image, name, &function);
    if (result == CUDA_SUCCESS)
        *out = function;
    return sim_lock_leave(result);
}

static CUresult get_variable(CUdeviceptr *address, size_t *bytes, const void *handle,
                             bool is_library, const char *name)
{
    if (!name || (!address && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_image *image = sim_image_find(handle, is_library);
    if (!image)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    return sim_lock_leave(sim_image_variable(image, name, address, bytes));
}

static CUresult count_functions(unsigned *out, const void *handle, bool is_library)
{
    unsigned count = 0;

    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_image *image = sim_image_find(handle, is_library);
    if (!image)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    for (struct sim_function *function = image->functions; function;
         function = function->next)
        count++;
    *out = count;
    return sim_lock_leave(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    ENTER(CALL_CONTEXT);
    return get_function((void **)(void *)out, module, false, name);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                              const char *name)
{
    ENTER(CALL_CONTEXT);
    return get_variable(address, bytes, module, false, name);
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    ENTER(CALL_PLAIN);
    return count_functions(count, module, false);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    ENTER(CALL_PLAIN);
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = 2; /* lazy */
    return CUDA_SUCCESS;
}

/* --- libraries: modules without a context --- */

CUresult cuLibraryLoadData(CUlibrary *out, const void *data, CUjit_option *jit_options,
                           void **jit_values, unsigned int jit_count, int *options,
                           void **values, unsigned int count)
{
    struct sim_image *image;
    CUresult result;

    ENTER(CALL_ALLOCATES);
    (void)options, (void)values, (void)count;
    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;
    empty_logs(jit_count, jit_options, jit_values);
    sim_lock();
    result = sim_image_load(data, true, &image);
    if (result == CUDA_SUCCESS)
        *out = (CUlibrary)(void *)image;
    return sim_lock_leave(result);
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path,
                               CUjit_option *jit_options, void **jit_values,
                               unsigned int jit_count, int *options, void **values,
                               unsigned int count)
{
    struct sim_image *image;
    CUresult result;

    ENTER(CALL_ALLOCATES);
    (void)options, (void)values, (void)count;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    empty_logs(jit_count, jit_options, jit_values);
    sim_lock();
    result = sim_image_load_file(path, true, &image);
    if (result == CUDA_SUCCESS)
        *out = (CUlibrary)(void *)image;
    return sim_lock_leave(result);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    ENTER(CALL_PLAIN);
    return unload(library, true);
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    ENTER(CALL_PLAIN);
    return get_function((void **)(void *)out, library, true, name);
}

/* A library's own module would be a second owner of the image. */
CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
{
    ENTER(CALL_CONTEXT);
    (void)out, (void)library;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    ENTER(CALL_PLAIN);
    return count_functions(count, library, true);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                            const char *name)
{
    ENTER(CALL_CONTEXT);
    return get_variable(address, bytes, library, true, name);
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                             const char *name)
{
    ENTER(CALL_PLAIN);
    (void)address, (void)bytes, (void)library, (void)name;
    return CUDA_ERROR_NOT_FOUND;
}
