/* Test that memory of another process is opened with each host allocation failing. */
#define _GNU_SOURCE
#include "../unit/ipc/pair.h"
#include "scenario.h"

static tarn_ipc_open_options options;
static tarn_ipc_handle handle;
static tarn_pointer *opened_before;
static const struct process *owner;

static void begin_open(void)
{
    options = (tarn_ipc_open_options){.size = sizeof options, .timeout_ms = 60000};
}

static void begin_copy(void)
{
    begin_open();
    options.always_copy = true;
}

static void begin_other_device(void)
{
    begin_open();
    options.device_plus_1 = 2;
}

static void begin_opened(void)
{
    begin_open();
    CHECK_OK(tarn_ipc_open(&handle, &options, &opened_before));
}

static tarn_status open_handle(void)
{
    return tarn_ipc_open(&handle, &options, &out.tarn_pointer);
}

/* Neither process has more than before, and the bytes are the owner's. */
static void end_open(void)
{
    tarn_ipc_counts counts;

    CHECK_EQUAL(0, wrong_bytes(out.tarn_pointer, 1));
    tarn_pointer_release(out.tarn_pointer);
    tarn_pointer_release(opened_before);
    opened_before = NULL;
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_ipc_get_counts(&counts);
    CHECK_EQUAL(0, counts.mapped);
    CHECK_EQUAL(0, counts.descriptors);
    wait_for_no_connections(owner->line);
    CHECK_EQUAL(0, counts_of(owner->line).leases);
}

static void open_memory_of(const struct process *process)
{
    static const struct scenario scenarios[] = {
        {"tarn_ipc_open", begin_open, open_handle, end_open},
        {"tarn_ipc_open of a copy", begin_copy, open_handle, end_open},
        {"tarn_ipc_open on another device", begin_other_device, open_handle, end_open},
        {"tarn_ipc_open of what is open", begin_opened, open_handle, end_open},
    };
    tarn_ipc_handle handles[2];

    owner = process;
    allocate(owner->line, 0, MIB, 1);
    export_in_both_kinds(owner->line, 0, MIB, handles);
    for (int kind = 0; kind < 2; kind++) {
        handle = handles[kind];
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
            scenario_run(&scenarios[i], 1);
    }
}

/* The owners are forked before this process uses Tarn. */
TEST(memory_of_another_process_is_opened_or_not)
{
    struct process processes[POOL_OVER_CUDA];

    skip_on_gpu();
    socket_directory_begin();
    for (int source = 0; source < POOL_OVER_CUDA; source++)
        processes[source] = process_start(owners[source]);
    for (int source = 0; source < POOL_OVER_CUDA; source++)
        open_memory_of(&processes[source]);
    for (int source = 0; source < POOL_OVER_CUDA; source++)
        process_end(&processes[source]);
    socket_directory_end();
}
