/* hooks.h -- what lower folders call in upper ones.
 *
 * sim/init.c fills the table with the functions of the same names: `work_tick` is
 * sim_work_tick() of work/work.h. Their headers describe them. All are called under the
 * lock, except capture_enter.
 */
#ifndef TARN_SIM_HOOKS_H
#define TARN_SIM_HOOKS_H

#include "sim/core/cuda.h"
#include <stdatomic.h>
#include <stdbool.h>

struct sim_box;
struct sim_captured;
struct sim_context;
struct sim_fill;
struct sim_host_function;
struct sim_kernel;
struct sim_pool;
struct sim_stream;

struct sim_hooks {
    /* races/ */
    void (*races_start)(bool on);

    /* work/ */
    void (*work_tick)(uint64_t number);
    void (*work_wait_device)(CUdevice device);
    void (*work_wait_all)(void);
    CUresult (*stream_begin_context)(struct sim_context *context);
    void (*stream_end_context)(struct sim_context *context);

    /* memory/ */
    struct sim_pool *(*pool_create_default)(CUdevice device);
    void (*pool_trim_all_to_threshold)(CUdevice device);
    void (*memory_free_context)(const struct sim_context *context,
                                uint64_t context_generation);
    void (*unknown_start)(void);

    /* graph/: the rules of captures */
    CUresult (*capture_enter)(const char *call);
    CUresult (*capture_stream)(const char *call, struct sim_stream *stream);
    CUresult (*capture_context)(const struct sim_context *context);
    void (*capture_forget_stream)(struct sim_stream *stream);
    void (*capture_forget_context)(const struct sim_context *context);

    /* graph/: events in captures */
    CUresult (*capture_record)(struct sim_stream *stream, struct sim_captured *captured);
    CUresult (*capture_wait)(struct sim_stream *stream,
                             const struct sim_captured *captured);
    CUresult (*capture_isolate)(struct sim_stream *stream);
    CUresult (*capture_event_error)(const struct sim_captured *captured);
    void (*capture_clear)(struct sim_captured *captured);

    /* graph/: work that a capture records */
    CUresult (*capture_add_event)(struct sim_stream *stream, CUevent event, bool records);
    CUresult (*capture_add_host_function)(struct sim_stream *stream,
                                          const struct sim_host_function *host);
    CUresult (*capture_add_copy)(struct sim_stream *stream, const struct sim_box *box);
    CUresult (*capture_add_fill)(struct sim_stream *stream, const struct sim_fill *fill);
    CUresult (*capture_add_kernel)(struct sim_stream *stream,
                                   const struct sim_kernel *kernel);
    CUresult (*capture_add_allocation)(struct sim_stream *stream, CUdevice device,
                                       size_t bytes, CUdeviceptr *out);
    CUresult (*capture_add_free)(struct sim_stream *stream, CUdeviceptr address);
};

extern const struct sim_hooks sim_hooks;

/* The number of captures. graph/capture.c changes it. */
extern atomic_uint sim_hooks_captures;

/* Return true if there are captures. Read without the lock: a concurrent change by
 * another thread may be ordered before or after. */
static inline bool sim_hooks_any_captures(void)
{
    return atomic_load_explicit(&sim_hooks_captures, memory_order_acquire) != 0;
}

#endif
