/* manager.c -- a fuzz target: the table of a foreign manager, and what its operations answer.
 *
 *     fuzz-manager [-max_total_time=10] [FOLDER]
 *
 * The first bytes make the table: its name and version, operations that it lacks, the size that
 * it states. The others are the calls of a program, and the answers (foreign.h). A table that
 * lacks something required is rejected. A call that fails leaves its outputs untouched. Every
 * pointer of the manager is finalized once.
 */
#include "foreign.h"
#include <tarn/tarn.h>

enum { CALLS = 40 };

static const size_t untouched = 0x4d4d4d4d4d4d4d4d;
static char nowhere; /* its address is no pointer of Tarn */

static unsigned pointers_made, pointers_ended, owners_ended;

static void end_pointer(void *data, tarn_device_ptr address, size_t bytes)
{
    (void)data, (void)address, (void)bytes;
    pointers_ended++;
}

static void end_owner(void *owner)
{
    ++*(unsigned *)owner;
}

static tarn_status man_create(void *config, int device, void *context, void **self_out)
{
    tarn_status status = next_status();

    (void)device;
    must(context != NULL, "no context");
    if (status == TARN_OK || next(2))
        *self_out = config;
    return status;
}

static void man_destroy(void *self)
{
    ++*(unsigned *)self;
}

static tarn_status man_plain(void *self)
{
    (void)self;
    return next_status();
}

/* Answer with a pointer: mostly what was requested. */
static tarn_status man_point(tarn_pointer_options options, tarn_pointer **out)
{
    tarn_status status = next_status();

    if (status != TARN_OK || next(8) == 1) { /* or success without a pointer */
        if (status != TARN_OK && next(2))
            *out = (tarn_pointer *)(void *)&nowhere; /* nobody may use it */
        return status;
    }
    options.size = sizeof options;
    options.finalizer = end_pointer;
    unsigned wrong = next(16);
    options.kind = (tarn_pointer_kind)(wrong == 1 ? next(5) : options.kind);
    options.bytes = wrong == 2 ? next_number() : options.bytes;
    options.device = wrong == 3 ? (int)next(4) - 2 : options.device;
    options.address = wrong == 4 ? next_number() : options.address;
    options.host = wrong == 5 ? NULL : options.host;
    status = tarn_pointer_create(&options, out);
    pointers_made += status == TARN_OK;
    return status;
}

static tarn_status man_memalloc(void *self, size_t bytes, tarn_stream stream,
                                tarn_pointer **out)
{
    (void)self, (void)stream;
    must(bytes > 0 && out, "an unchecked memalloc");
    return man_point((tarn_pointer_options){.bytes = bytes, .address = 1 << 20}, out);
}

static tarn_pointer_kind kind_of(unsigned flags)
{
    return flags & TARN_HOST_MAPPED ? TARN_POINTER_MAPPED : TARN_POINTER_PINNED;
}

static tarn_status man_memhostalloc(void *self, size_t bytes, unsigned flags,
                                    tarn_pointer **out)
{
    must(bytes > 0 && flags < 8 && out, "an unchecked memhostalloc");
    return man_point(
        (tarn_pointer_options){
            .kind = kind_of(flags), .bytes = bytes, .address = 1 << 20, .host = self},
        out);
}

static tarn_status man_mempin(void *self, void *host, size_t bytes, unsigned flags,
                              void *owner, void (*owner_release)(void *),
                              tarn_pointer **out)
{
    (void)self;
    must(host && bytes > 0 && out, "an unchecked mempin");
    return man_point((tarn_pointer_options){.kind = kind_of(flags),
                                            .bytes = bytes,
                                            .address = 1 << 20,
                                            .host = host,
                                            .owner = owner,
                                            .owner_release = owner_release},
                     out);
}

static tarn_status man_memallocmanaged(void *self, size_t bytes, bool attach_global,
                                       tarn_pointer **out)
{
    (void)self, (void)attach_global;
    return man_point((tarn_pointer_options){.kind = TARN_POINTER_MANAGED,
                                            .bytes = bytes,
                                            .address = 1 << 20},
                     out);
}

static tarn_status man_get_ipc_handle(void *self, const tarn_pointer *pointer,
                                      tarn_ipc_handle *out)
{
    (void)self;
    memset(out, (int)next(2), sizeof *out);
    out->bytes = next(4) ? tarn_pointer_bytes(pointer) : next_number();
    out->offset = next(4) ? 0 : next_number();
    out->device = next(4) ? 0 : (int)next(256);
    return next_status();
}

static tarn_status man_get_memory_info(void *self, size_t *free_out, size_t *total_out)
{
    (void)self;
    *free_out = next_number();
    *total_out = next_number();
    return next_status();
}

static void man_context_lost(void *self)
{
    (void)self;
}

static tarn_manager_ops make_manager_table(const char *name)
{
    tarn_manager_ops ops = {.name = name,
                            .interface_version = TARN_MANAGER_INTERFACE_VERSION};
    unsigned lacks = next(256), lacks_too = next(256);

    if (next(8) == 1)
        ops.interface_version = (int)next_number();
    ops.create = lacks & 1 ? NULL : man_create;
    ops.destroy = lacks & 2 ? NULL : man_destroy;
    ops.reset = lacks & 4 ? NULL : man_plain;
    ops.initialize = lacks & 8 ? NULL : man_plain;
    ops.memalloc = lacks & 16 ? NULL : man_memalloc;
    ops.memhostalloc = lacks & 32 ? NULL : man_memhostalloc;
    ops.mempin = lacks & 64 ? NULL : man_mempin;
    ops.memallocmanaged = lacks & 128 ? NULL : man_memallocmanaged;
    ops.get_ipc_handle = lacks_too & 1 ? NULL : man_get_ipc_handle;
    ops.get_memory_info = lacks_too & 2 ? NULL : man_get_memory_info;
    ops.defer_cleanup_begin = lacks_too & 4 ? NULL : man_plain;
    ops.defer_cleanup_end = lacks_too & 8 ? NULL : man_plain;
    ops.context_lost = lacks_too & 16 ? NULL : man_context_lost;
    return ops;
}

static bool manager_fits(const tarn_manager_ops *ops, size_t size)
{
    return size >= offsetof(tarn_manager_ops, memallocmanaged) && name_fits(ops->name) &&
           ops->interface_version == TARN_MANAGER_INTERFACE_VERSION && ops->create &&
           ops->destroy && ops->reset && ops->initialize && ops->memalloc &&
           ops->memhostalloc && ops->mempin;
}

/* An operation that fails leaves its output, and the owner to its caller. */
static void use_pointer(tarn_manager *manager, tarn_status status, tarn_pointer *pointer)
{
    tarn_pointer *const none = (tarn_pointer *)(void *)&nowhere;
    tarn_ipc_handle handle = {.bytes = untouched};

    must(succeeded(status) == (pointer != none), "a pointer that does not fit");
    must(status == TARN_OK || owners_ended == 0, "a failure took the owner");
    if (status != TARN_OK)
        return;
    if (!succeeded(tarn_manager_get_ipc_handle(manager, pointer, &handle)))
        must(handle.bytes == untouched, "get_ipc_handle changed its output");
    tarn_pointer_release(pointer);
    must(owners_ended <= 1, "an owner was released twice");
}

static void allocate_from(tarn_manager *manager, unsigned operation)
{
    static char host[256];
    size_t bytes = next_number();
    unsigned flags = next(10);
    tarn_pointer *pointer = (tarn_pointer *)(void *)&nowhere;
    tarn_status status;

    owners_ended = 0;
    if (operation == 0)
        status = tarn_manager_memalloc(manager, bytes, TARN_STREAM_NONE, &pointer);
    else if (operation == 1)
        status = tarn_manager_memhostalloc(manager, bytes, flags, &pointer);
    else if (operation == 2)
        status = tarn_manager_mempin(manager, host, bytes, flags, &owners_ended,
                                     end_owner, &pointer);
    else
        status = tarn_manager_memallocmanaged(manager, bytes, flags & 1, &pointer);
    use_pointer(manager, status, pointer);
}

static void call_manager(tarn_manager *manager)
{
    size_t one = untouched, other = untouched;
    unsigned operation = next(9);

    if (operation < 4)
        allocate_from(manager, operation);
    else if (operation == 4)
        succeeded(tarn_manager_reset(manager));
    else if (operation == 5)
        succeeded(tarn_manager_initialize(manager));
    else if (operation == 6)
        succeeded(tarn_manager_defer_cleanup_begin(manager));
    else if (operation == 7)
        succeeded(tarn_manager_defer_cleanup_end(manager));
    else if (!succeeded(tarn_manager_get_memory_info(manager, &one, &other)))
        must(one == untouched && other == untouched, "memory_info changed its outputs");
    else
        must(one <= other, "more is free than there is");
}

static void try_manager(void)
{
    char *name = next_name();
    tarn_manager_ops ops = make_manager_table(name);
    size_t size = next_size(sizeof ops);
    void *table = copy_table(&ops, sizeof ops, size);
    unsigned destroyed = 0;
    tarn_manager *const none = (tarn_manager *)(void *)&ops, *manager = none;

    pointers_made = pointers_ended = 0;
    bool made = succeeded(tarn_manager_create(table, &destroyed, 0, &manager));
    free(table); /* the manager has a copy */
    must(made == (manager != none), "an output that does not fit");
    must(!made || manager_fits(&ops, size), "a table was taken that lacks something");
    must(made || script.answered || !manager_fits(&ops, size),
         "a table is judged wrongly");
    for (unsigned calls = 0; made && script.at < script.end && calls < CALLS; calls++)
        call_manager(manager);
    if (made)
        tarn_manager_release(manager);
    must(destroyed == made, "a manager was not destroyed once");
    must(pointers_made == pointers_ended, "a pointer was not finalized once");
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    begin(data, count);
    try_manager();
    return 0;
}
