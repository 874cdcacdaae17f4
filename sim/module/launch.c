/* launch.c -- kernel launches. Kernels do not run; the first launch of a process prints
 * that on stderr. */
#include "sim/module/launch.h"
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/hooks.h"
#include "sim/memory/block.h"
#include "sim/memory/unknown.h"
#include "sim/races/races.h"
#include "sim/work/work.h"
#include "sim/work/stream_lookup.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static void print_once(const char *kernel)
{
    static atomic_flag is_printed = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&is_printed))
        fprintf(stderr,
                "tarn simulator: kernels cannot run: launching %.60s fails with "
                "CUDA_ERROR_NOT_SUPPORTED, as every launch will\n",
                kernel);
}

CUresult sim_launch_refuse(const struct sim_kernel *kernel)
{
    print_once(sim_kernel_name(kernel));
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_launch_check(const struct sim_kernel *kernel)
{
    return sim_options.ignores_launches ? CUDA_SUCCESS : sim_launch_refuse(kernel);
}

/* --- ignored launches --- */

/* The value number `index` among the aligned words of the arguments. False: behind them. */
static bool word_at(const struct sim_arguments *arguments, size_t index, uintptr_t *out)
{
    if (!arguments || (index + 1) * sizeof *out > arguments->bytes)
        return false;
    memcpy(out, arguments->values + index * sizeof *out, sizeof *out);
    return true;
}

/* It may write as well, but whether it does is unknown: two kernels may well share their
 * input. */
static void touch_arguments(const void *data, struct sim_timeline *timeline)
{
    const struct sim_kernel *kernel = data;
    uintptr_t address;

    for (size_t i = 0; word_at(kernel->arguments, i, &address); i++) {
        const struct sim_block *block = sim_block_find(address);
        if (block)
            sim_races_touch(timeline, block->range.start, block->range.bytes, false);
    }
}

static void finish_launch(void *data)
{
    sim_kernel_release(data);
}

struct sim_op *sim_launch_op(const struct sim_kernel *kernel)
{
    struct sim_op *op = sim_op_new(sizeof *kernel, NULL, finish_launch);
    uintptr_t address;

    if (!op)
        return NULL;
    *(struct sim_kernel *)(void *)op->data = *kernel;
    sim_kernel_retain(kernel);
    op->touch = touch_arguments;
    op->failed = finish_launch;
    for (size_t i = 0; word_at(kernel->arguments, i, &address); i++)
        sim_unknown_mark(address);
    return op;
}

static CUresult ignore(struct sim_stream *stream, const struct sim_kernel *kernel)
{
    struct sim_op *op = sim_launch_op(kernel);

    return op ? sim_work_queue(stream, op) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult run(struct sim_stream *stream, const struct sim_kernel *kernel)
{
    CUresult result;

    if (stream->member)
        return sim_hooks.capture_add_kernel(stream, kernel);
    result = sim_launch_check(kernel);
    return result == CUDA_SUCCESS ? ignore(stream, kernel) : result;
}

/* A launch fails as the real driver's does for arguments that the real driver rejects. In
 * a capture it becomes a node, and the launch of the graph fails. */
static CUresult launch(const char *call, struct sim_kernel kernel, void **parameters,
                       void **extra, CUstream stream_handle)
{
    struct sim_stream *stream;
    CUresult result;

    sim_lock();
    result = sim_kernel_read(&kernel, parameters, extra);
    if (result != CUDA_SUCCESS)
        return sim_lock_leave(result);
    result = sim_stream_lookup(call, stream_handle, &stream);
    if (result == CUDA_SUCCESS)
        result = run(stream, &kernel);
    sim_kernel_release(&kernel);
    return sim_lock_leave(result);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream,
                        void **parameters, void **extra)
{
    const struct sim_kernel kernel = {.function = function,
                                      .grid = {grid_x, grid_y, grid_z},
                                      .block = {block_x, block_y, block_z},
                                      .shared = shared};

    ENTER(CALL_CONTEXT);
    return launch(__func__, kernel, parameters, extra, stream);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **extra)
{
    ENTER(CALL_CONTEXT);
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_kernel kernel = {
        .function = function,
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared = config->sharedMemBytes,
    };
    return launch(__func__, kernel, parameters, extra, config->hStream);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x,
                                   unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared,
                                   CUstream stream, void **parameters)
{
    const struct sim_kernel kernel = {.function = function,
                                      .grid = {grid_x, grid_y, grid_z},
                                      .block = {block_x, block_y, block_z},
                                      .shared = shared};

    ENTER(CALL_CONTEXT);
    return launch(__func__, kernel, parameters, NULL, stream);
}
