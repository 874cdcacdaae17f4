/* function.c -- kernel attributes and occupancy. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/module/image.h"

enum {
    BLOCKS_PER_PROCESSOR = 32,
    THREADS_PER_PROCESSOR = 2048,
    REGISTERS_PER_PROCESSOR = 65536,
    SHARED_PER_PROCESSOR = 233472,
    SHARED_OF_SYSTEM = 1024, /* of each block */
    PROCESSORS = 132,
};

static CUresult get_attribute(int *value, CUfunction_attribute attribute,
                              const void *handle)
{
    if (!value || attribute < 0 || attribute >= SIM_FUNCTION_ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_function *function = sim_image_find_function(handle);
    if (function)
        *value = function->attributes[attribute];
    return sim_lock_leave(function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult set_attribute(CUfunction_attribute attribute, int value,
                              const void *handle)
{
    if (attribute < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
        attribute >= SIM_FUNCTION_ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_function *function = sim_image_find_function(handle);
    if (function)
        function->attributes[attribute] = value;
    return sim_lock_leave(function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult get_name(const char **out, const void *handle)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_function *function = sim_image_find_function(handle);
    if (function)
        *out = function->name;
    return sim_lock_leave(function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult set_cache_config(const void *handle, int config)
{
    if (config < 0 || config > 3)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct sim_function *function = sim_image_find_function(handle);
    if (function)
        function->cache_config = config;
    return sim_lock_leave(function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult check(const void *handle)
{
    sim_lock();
    bool found = sim_image_find_function(handle) != NULL;
    return sim_lock_leave(found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                            CUfunction function)
{
    ENTER(CALL_PLAIN);
    return get_attribute(value, attribute, function);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                            int value)
{
    ENTER(CALL_PLAIN);
    return set_attribute(attribute, value, function);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    ENTER(CALL_PLAIN);
    return set_cache_config(function, config);
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
    ENTER(CALL_PLAIN);
    return config < 0 || config > 2 ? CUDA_ERROR_INVALID_VALUE : check(function);
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    ENTER(CALL_PLAIN);
    return get_name(name, function);
}

CUresult cuFuncGetModule(CUmodule *out, CUfunction handle)
{
    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_function *function = sim_image_find_function(handle);
    bool has = function && !function->image->is_library;
    if (has)
        *out = (CUmodule)(void *)function->image;
    return sim_lock_leave(has ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    ENTER(CALL_PLAIN);
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check(function);
    if (result == CUDA_SUCCESS)
        *state = 1;
    return result;
}

CUresult cuFuncLoad(CUfunction function)
{
    ENTER(CALL_PLAIN);
    return check(function);
}

static CUresult get_parameter(const void *handle, size_t number, size_t *offset,
                              size_t *bytes)
{
    struct sim_parameter parameter;

    if (!offset)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_function *function = sim_image_find_function(handle);
    CUresult result = function ? sim_image_parameter(function, number, &parameter)
                               : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        *offset = parameter.offset;
        if (bytes)
            *bytes = parameter.bytes;
    }
    return sim_lock_leave(result);
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset,
                            size_t *bytes)
{
    ENTER(CALL_PLAIN);
    return get_parameter(function, index, offset, bytes);
}

/* --- kernels of libraries --- */

CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
    ENTER(CALL_CONTEXT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check(kernel);
    if (result == CUDA_SUCCESS)
        *out = (CUfunction)(void *)kernel;
    return result;
}

CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel kernel)
{
    ENTER(CALL_PLAIN);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_function *function = sim_image_find_function(kernel);
    bool has = function && function->image->is_library;
    if (has)
        *out = (CUlibrary)(void *)function->image;
    return sim_lock_leave(has ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    ENTER(CALL_PLAIN);
    return get_name(name, kernel);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device)
{
    ENTER(CALL_PLAIN);
    (void)device;
    return get_attribute(value, attribute, kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device)
{
    ENTER(CALL_PLAIN);
    (void)device;
    return set_attribute(attribute, value, kernel);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    ENTER(CALL_PLAIN);
    (void)device;
    return set_cache_config(kernel, config);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset,
                              size_t *bytes)
{
    ENTER(CALL_PLAIN);
    return get_parameter(kernel, index, offset, bytes);
}

/* --- occupancy --- */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The number of blocks of `threads` threads that fit one multiprocessor. */
static int blocks_per_processor(const struct sim_function *function, int threads,
                                size_t shared)
{
    int registers = function->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] * threads;
    int blocks = least(BLOCKS_PER_PROCESSOR, THREADS_PER_PROCESSOR / threads);

    shared += (size_t)function->attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
    if (registers > 0)
        blocks = least(blocks, REGISTERS_PER_PROCESSOR / registers);
    if (shared > SHARED_PER_PROCESSOR)
        return 0;
    return shared > 0 ? least(blocks, (int)(SHARED_PER_PROCESSOR / shared)) : blocks;
}

static CUresult active_blocks(int *out, CUfunction handle, int threads, size_t shared)
{
    if (!out || threads <= 0 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_function *function = sim_image_find_function(handle);
    if (function)
        *out = blocks_per_processor(function, threads, shared);
    return sim_lock_leave(function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction function,
                                                     int threads, size_t shared)
{
    ENTER(CALL_CONTEXT);
    return active_blocks(out, function, threads, shared);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out,
                                                              CUfunction function,
                                                              int threads, size_t shared,
                                                              unsigned int flags)
{
    ENTER(CALL_CONTEXT);
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE
                     : active_blocks(out, function, threads, shared);
}

/* The largest block that fits, and the number of them that fills the device. The
 * client's function is called without the lock, because it may make driver calls. */
static CUresult potential_block(int *grid, int *block, CUfunction function,
                                CUoccupancyB2DSize shared_for, size_t shared, int limit)
{
    int blocks = 0, threads = limit > 0 ? least(limit, 1024) : 1024;

    if (!grid || !block || limit < 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (; threads > 0; threads = threads > 32 ? (threads - 1) / 32 * 32 : threads - 1) {
        CUresult result = active_blocks(&blocks, function, threads,
                                        shared_for ? shared_for(threads) : shared);
        if (result != CUDA_SUCCESS)
            return result;
        if (blocks > 0)
            break;
    }
    if (blocks == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *grid = blocks * PROCESSORS;
    *block = threads;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                          CUoccupancyB2DSize shared_for, size_t shared,
                                          int limit)
{
    ENTER(CALL_CONTEXT);
    return potential_block(grid, block, function, shared_for, shared, limit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block,
                                                   CUfunction function,
                                                   CUoccupancyB2DSize shared_for,
                                                   size_t shared, int limit,
                                                   unsigned int flags)
{
    ENTER(CALL_CONTEXT);
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE
                     : potential_block(grid, block, function, shared_for, shared, limit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *out, CUfunction handle,
                                                 int blocks, int threads)
{
    ENTER(CALL_CONTEXT);
    if (!out || blocks <= 0 || threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_function *function = sim_image_find_function(handle);
    if (!function)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    size_t own = (size_t)function->attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
    size_t most =
        (size_t)function->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
    size_t share = (size_t)SHARED_PER_PROCESSOR / (size_t)blocks;
    share = share > own + SHARED_OF_SYSTEM ? share - own - SHARED_OF_SYSTEM : 0;
    *out = share < most ? share : most;
    return sim_lock_leave(CUDA_SUCCESS);
}

/* --- clusters of blocks --- */

enum { ATTRIBUTE_CLUSTER = 4, PORTABLE_CLUSTER = 8, CLUSTER_MAX = 16 };

/* The number of blocks of the cluster that `config` asks for; 0: none, or no such size. */
static unsigned cluster_of(const CUlaunchConfig *config)
{
    uint64_t blocks;

    for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id != ATTRIBUTE_CLUSTER)
            continue;
        blocks = (uint64_t)attribute->value.words[0] * attribute->value.words[1];
        if (blocks > CLUSTER_MAX || attribute->value.words[2] > CLUSTER_MAX)
            return 0;
        blocks *= attribute->value.words[2];
        return blocks <= CLUSTER_MAX ? (unsigned)blocks : 0;
    }
    return 1;
}

static bool is_config(const CUlaunchConfig *config)
{
    uint64_t threads = config ? (uint64_t)config->blockDimX * config->blockDimY : 0;

    if (threads == 0 || threads > 1024 || config->blockDimZ == 0 ||
        config->blockDimZ > 1024 || threads * config->blockDimZ > 1024)
        return false;
    return config->gridDimX > 0 && config->gridDimY > 0 && config->gridDimZ > 0;
}

CUresult cuOccupancyMaxActiveClusters(int *out, CUfunction handle,
                                      const CUlaunchConfig *config)
{
    ENTER(CALL_CONTEXT);
    if (!out || !is_config(config) || cluster_of(config) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct sim_function *function = sim_image_find_function(handle);
    if (!function)
        return sim_lock_leave(CUDA_ERROR_INVALID_HANDLE);
    int threads = (int)(config->blockDimX * config->blockDimY * config->blockDimZ);
    *out = blocks_per_processor(function, threads, config->sharedMemBytes) * PROCESSORS /
           (int)cluster_of(config);
    return sim_lock_leave(CUDA_SUCCESS);
}

/* The size that every device of this capability has. */
CUresult cuOccupancyMaxPotentialClusterSize(int *out, CUfunction handle,
                                            const CUlaunchConfig *config)
{
    ENTER(CALL_CONTEXT);
    if (!out || !is_config(config))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    bool is_found = sim_image_find_function(handle) != NULL;
    if (is_found)
        *out = PORTABLE_CLUSTER;
    return sim_lock_leave(is_found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}
