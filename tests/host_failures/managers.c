/* Test managers and exported memory with each host allocation failing. */
#define _GNU_SOURCE
#include "scenario.h"
#include <stdlib.h>

static const tarn_manager_ops *ops;
static tarn_manager *manager;
static tarn_pointer *pointer;

static tarn_status create(void)
{
    return tarn_manager_create(ops, NULL, 0, &out.manager);
}

static void end_created(void)
{
    tarn_manager_release(out.manager);
}

static void begin_manager(void)
{
    CHECK_OK(tarn_manager_create(ops, NULL, 0, &manager));
}

static void end_manager(void)
{
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
    tarn_manager_release(manager);
}

static void end_pointer(void)
{
    tarn_pointer_release(out.tarn_pointer);
    end_manager();
}

static tarn_status initialize(void)
{
    return tarn_manager_initialize(manager);
}

static tarn_status allocate(void)
{
    return tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &out.tarn_pointer);
}

static tarn_status allocate_pinned(void)
{
    return tarn_manager_memhostalloc(manager, 1000, 0, &out.tarn_pointer);
}

static tarn_status allocate_managed(void)
{
    return tarn_manager_memallocmanaged(manager, 1000, true, &out.tarn_pointer);
}

static tarn_status pin(void)
{
    static char memory[8192];

    return tarn_manager_mempin(manager, memory, sizeof memory, 0, NULL, NULL,
                               &out.tarn_pointer);
}

static tarn_status defer(void)
{
    tarn_pointer *one = NULL;
    tarn_status status = tarn_manager_defer_cleanup_begin(manager);

    if (status != TARN_OK)
        return status;
    status = tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &one);
    tarn_pointer_release(one);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    return status;
}

TEST(managers_serve_or_not)
{
    /* Else `native` keeps what is freed. */
    CHECK_OK(tarn_manager_set_pending_deallocs_limits(0, 0));
    const tarn_manager_ops *all[] = {tarn_resource_manager_ops(),
                                     tarn_native_manager_ops(), tarn_pool_manager_ops()};
    static const struct scenario scenarios[] = {
        {"tarn_manager_create", NULL, create, end_created},
        {"tarn_manager_initialize", begin_manager, initialize, end_manager},
        {"tarn_manager_memalloc", begin_manager, allocate, end_pointer},
        {"tarn_manager_memhostalloc", begin_manager, allocate_pinned, end_pointer},
        {"tarn_manager_memallocmanaged", begin_manager, allocate_managed, end_pointer},
        {"tarn_manager_mempin", begin_manager, pin, end_pointer},
        {"tarn_manager_defer_cleanup", begin_manager, defer, end_manager},
    };

    for (size_t which = 0; which < 3; which++) {
        ops = all[which];
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
            scenario_run(&scenarios[i], scenarios[i].call == allocate);
    }
}

/* --- exported memory --- */

/* The server of the process starts with the first export, and has descriptors to the end. */
__attribute__((constructor)) static void start_server(void)
{
    static char folder[] = "/tmp/tarn-host-failures-XXXXXX";
    tarn_ipc_handle handle;
    tarn_pointer *first;
    tarn_resource *exportable;

    if (!mkdtemp(folder) || setenv("TARN_IPC_DIR", folder, 1) != 0)
        abort();
    if (tarn_exportable_create(0, NULL, &exportable) != TARN_OK ||
        tarn_pointer_allocate(exportable, 1000, TARN_STREAM_NONE, &first) != TARN_OK ||
        tarn_ipc_export(first, TARN_IPC_SERVED, &handle) != TARN_OK)
        return; /* the tests say why */
    tarn_pointer_release(first);
    tarn_resource_release(exportable);
}

static tarn_resource *resource;
static tarn_status (*make)(int device, tarn_resource **out);
static tarn_ipc_kind kind;

static void begin_export(void)
{
    CHECK_OK(make(0, &resource));
    CHECK_OK(tarn_pointer_allocate(resource, 1000, TARN_STREAM_NONE, &pointer));
}

static tarn_status export_memory(void)
{
    return tarn_ipc_export(pointer, kind, &out.handle);
}

static void end_export(void)
{
    tarn_pointer_release(pointer);
    CHECK_OK(tarn_resource_release(resource));
}

static tarn_status create_exportable(int device, tarn_resource **resource_out)
{
    return tarn_exportable_create(device, NULL, resource_out);
}

static void begin_exportable(void)
{
    CHECK_OK(create_exportable(0, &resource));
}

static tarn_status allocate_exportable(void)
{
    return tarn_resource_allocate(resource, 1000, 0, TARN_STREAM_NONE, &out.block);
}

static void end_exportable(void)
{
    CHECK_OK(tarn_resource_deallocate(resource, out.block, 1000, 0, TARN_STREAM_NONE));
    CHECK_OK(tarn_resource_release(resource));
}

TEST(exportable_memory_is_allocated_or_not)
{
    static const struct scenario scenario = {"tarn_resource_allocate of exportable",
                                             begin_exportable, allocate_exportable,
                                             end_exportable};

    scenario_run(&scenario, 4);
}

static tarn_ipc_handle handle;

static void begin_open(void)
{
    begin_export();
    CHECK_OK(tarn_ipc_export(pointer, kind, &handle));
}

static tarn_status list_leases(void)
{
    tarn_ipc_lease leases[4];
    size_t count = 77;
    tarn_status status = tarn_ipc_leases(leases, 4, &count);

    CHECK_EQUAL(status == TARN_OK ? 0 : 77, count);
    return status;
}

TEST(memory_is_exported_or_not)
{
    static const struct scenario scenarios[] = {
        {"tarn_ipc_export", begin_export, export_memory, end_export},
        {"tarn_ipc_leases", begin_open, list_leases, end_export},
    };

    if (!on_sim())
        skip();
    for (int which = 0; which < 4; which++) {
        make = which & 1 ? create_exportable : tarn_cuda_create;
        kind = (tarn_ipc_kind)(which / 2);
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
            scenario_run(&scenarios[i], 0);
    }
}
