/* init.c -- fills the table of hooks: the functions of upper folders that lower folders
 * call. */
#include "sim/core/hooks.h"
#include "sim/graph/capture.h"
#include "sim/graph/capture_add.h"
#include "sim/memory/memory.h"
#include "sim/memory/pool.h"
#include "sim/memory/unknown.h"
#include "sim/races/races.h"
#include "sim/work/work.h"

const struct sim_hooks sim_hooks = {
    .races_start = sim_races_start,
    .work_tick = sim_work_tick,
    .work_wait_device = sim_work_wait_device,
    .work_wait_all = sim_work_wait_all,
    .stream_begin_context = sim_stream_begin_context,
    .stream_end_context = sim_stream_end_context,
    .pool_create_default = sim_pool_create_default,
    .pool_trim_all_to_threshold = sim_pool_trim_all_to_threshold,
    .memory_free_context = sim_memory_free_context,
    .unknown_start = sim_unknown_start,
    .capture_enter = sim_capture_enter,
    .capture_stream = sim_capture_stream,
    .capture_context = sim_capture_context,
    .capture_forget_stream = sim_capture_forget_stream,
    .capture_forget_context = sim_capture_forget_context,
    .capture_record = sim_capture_record,
    .capture_wait = sim_capture_wait,
    .capture_isolate = sim_capture_isolate,
    .capture_event_error = sim_capture_event_error,
    .capture_clear = sim_capture_clear,
    .capture_add_event = sim_capture_add_event,
    .capture_add_host_function = sim_capture_add_host_function,
    .capture_add_copy = sim_capture_add_copy,
    .capture_add_fill = sim_capture_add_fill,
    .capture_add_kernel = sim_capture_add_kernel,
    .capture_add_allocation = sim_capture_add_allocation,
    .capture_add_free = sim_capture_add_free,
};
