/* Test blocks of driver pools: imported once, and distinguished when addresses are
 * reused.
 *
 * The pools may belong to any component, and the importer frees before the owner. The
 * tests beside this one cover the properties that this memory shares with other memory.
 */
#define _GNU_SOURCE
#include "pair.h"
#include "capturing.h"
#include "driver_calls.h"
#include <sys/socket.h>

static tarn_resource *exportable_async(void)
{
    tarn_resource *resource;

    CHILD_STATUS(TARN_OK, make_upstream(FROM_ASYNC, &resource));
    return resource;
}

/* The simulator's faults count calls by name: check whether the second one was made. */
static void fail_second(const char *call)
{
    char options[80];

    snprintf(options, sizeof options, "fail=call:%s:2", call);
    sim_configure(options);
}

/* --- once --- */

enum { BLOCKS = 6, VIEWS = 3 };

static void open_all(int line, tarn_pointer *opened[BLOCKS * VIEWS])
{
    for (int i = 0; i < BLOCKS * VIEWS; i++) {
        tarn_ipc_handle handle = export_block(line, i % BLOCKS, (size_t)i * 256, 4096,
                                              (tarn_ipc_kind)(i / BLOCKS % 2));
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened[i]));
    }
}

static void import_once(int line)
{
    tarn_pointer *opened[BLOCKS * VIEWS];
    tarn_ipc_counts counts;

    CHILD_CHECK(live_bytes() == 0);
    for (int i = 0; i < BLOCKS; i++)
        allocate(line, i, MIB, (unsigned)i);
    if (has_sim())
        fail_second("cuMemPoolImportFromShareableHandle");
    open_all(line, opened);
    CHILD_CHECK(!has_sim() || sim_faults() == 0);
    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.mapped == BLOCKS);
    for (int i = 0; i < BLOCKS * VIEWS; i++)
        CHILD_CHECK(
            wrong_bytes(opened[i], letter((size_t)i * 256, (unsigned)(i % BLOCKS))) == 0);
    if (has_sim())
        fail_second("cuMemPoolDestroy");
    for (int i = 0; i < BLOCKS * VIEWS; i++)
        tarn_pointer_release(opened[i]);
    CHILD_CHECK(!has_sim() || sim_faults() == 0);
    check_nothing_open();
    open_all(line, opened); /* and once more, after the end of the first */
    for (int i = BLOCKS * VIEWS; i-- > 0;)
        tarn_pointer_release(opened[i]);
    check_nothing_open();
}

TEST(a_pool_is_imported_once_for_all_its_blocks_and_dropped_after_the_last)
{
    with_owner(FROM_ASYNC, import_once);
}

static void keep_a_pool(int line)
{
    tarn_pointer *opened;

    CHILD_CHECK(live_bytes() == 0);
    allocate(line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(line, 0, 0, MIB, TARN_IPC_PLAIN);
    for (int i = 0; i < 3; i++) {
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
        CHILD_CHECK(wrong_bytes(opened, 1) == 0);
        sim_configure(i < 2 ? "fail=call:cuMemPoolDestroy" : NULL);
        tarn_pointer_release(opened);
        check_nothing_open(); /* only open blocks count */
        if (i == 0)
            fail_second("cuMemPoolImportFromShareableHandle");
    }
    sim_configure(NULL);
}

TEST(a_pool_that_the_driver_keeps_is_used_again)
{
    skip_on_gpu();
    with_owner(FROM_ASYNC, keep_a_pool);
}

/* --- reused addresses --- */

/* Send a handle of each of two blocks of pools that have the same address in turn. */
static void own_pool_after_pool(int line)
{
    for (unsigned i = 0; i < 2; i++) {
        tarn_resource *resource = exportable_async();
        tarn_pointer *pointer;
        tarn_ipc_handle handle;
        char mark;
        CHILD_STATUS(TARN_OK,
                     tarn_pointer_allocate(resource, MIB, TARN_STREAM_NONE, &pointer));
        write_pattern(pointer, i);
        CHILD_STATUS(TARN_OK, tarn_ipc_export(pointer, TARN_IPC_PLAIN, &handle));
        must_send(line, &handle, sizeof handle);
        must_receive(line, &mark, 1);
        tarn_pointer_release(pointer);
        CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    }
}

static void open_pool_after_pool(int line)
{
    tarn_ipc_handle handles[2];
    tarn_pointer *opened[2], *none;

    for (unsigned i = 0; i < 2; i++) {
        must_receive(line, &handles[i], sizeof handles[i]);
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handles[i], NULL, &opened[i]));
        CHILD_CHECK(wrong_bytes(opened[i], i) == 0);
        if (i == 0)
            must_send(line, "x", 1); /* now its pool ends */
    }
    tarn_pointer_release(opened[0]);
    CHILD_STATUS(TARN_NOT_FOUND, tarn_ipc_open(&handles[0], NULL, &none));
    CHILD_MESSAGE("freed");
    CHILD_CHECK(wrong_bytes(opened[1], 1) == 0);
    tarn_pointer_release(opened[1]);
    must_send(line, "x", 1);
    check_nothing_open();
}

/* Owner and importer, with a connection through the test: handles one way, marks the
 * other. */
static void pair_of(void (*own)(int line), void (*import)(int line))
{
    tarn_ipc_handle handle;
    char mark;

    socket_directory_begin();
    struct process owner = process_start(own);
    struct process importer = process_start(import);
    while (receive_message(owner.line, &handle, sizeof handle)) {
        must_send(importer.line, &handle, sizeof handle);
        if (!receive_message(importer.line, &mark, 1))
            break;
        must_send(owner.line, &mark, 1);
    }
    process_end(&importer);
    process_end(&owner);
    socket_directory_end();
}

TEST(a_pool_differs_from_an_earlier_one_with_the_same_handle)
{
    pair_of(own_pool_after_pool, open_pool_after_pool);
}

/* The driver decides the address of the second block, and whether it can be opened. */
static void free_what_is_open(int line)
{
    tarn_pointer *first, *second = NULL;

    allocate(line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(line, 0, 0, MIB, TARN_IPC_PLAIN);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &first));
    free_block(line, 0);
    allocate(line, 1, MIB, 2);
    tarn_ipc_handle later = export_block(line, 1, 0, MIB, TARN_IPC_PLAIN);
    if (tarn_ipc_open(&later, NULL, &second) != TARN_OK) {
        CHILD_CHECK(tarn_error_last()->status == TARN_NOT_FOUND);
        CHILD_MESSAGE("still open in this process");
        CHILD_CHECK(second == NULL);
    } else {
        CHILD_CHECK(tarn_pointer_address(second) != tarn_pointer_address(first));
        CHILD_CHECK(wrong_bytes(second, 2) == 0);
        tarn_pointer_release(second);
    }
    tarn_pointer_release(first);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&later, NULL, &second));
    CHILD_CHECK(wrong_bytes(second, 2) == 0);
    tarn_pointer_release(second);
    check_nothing_open();
}

TEST(new_memory_at_the_address_of_a_freed_open_block_is_not_that_block)
{
    with_owner(FROM_ASYNC, free_what_is_open);
}

enum { HURRIED = 300 };

/* Free while the importer sends requests, so that its server sees blocks end during a
 * request. */
static void own_in_a_hurry(int line)
{
    tarn_resource *resource = exportable_async();
    tarn_pointer *kept;

    CHILD_STATUS(TARN_OK, tarn_pointer_allocate(resource, 4096, TARN_STREAM_NONE, &kept));
    for (int i = 0; i < HURRIED; i++) {
        tarn_ipc_handle handle;
        tarn_pointer *pointer;
        CHILD_STATUS(TARN_OK,
                     tarn_pointer_allocate(resource, 4096, TARN_STREAM_NONE, &pointer));
        CHILD_STATUS(TARN_OK, tarn_ipc_export(pointer, TARN_IPC_PLAIN, &handle));
        must_send(line, &handle, sizeof handle);
        tarn_pointer_release(pointer);
    }
    char mark;
    CHILD_CHECK(shutdown(line, SHUT_WR) == 0);
    receive_message(line, &mark, 1);
    tarn_pointer_release(kept);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    wait_until_all_is_freed();
}

static void open_in_a_hurry(int line)
{
    tarn_ipc_handle handle;

    while (receive_message(line, &handle, sizeof handle)) {
        tarn_pointer *opened = NULL;
        tarn_status status = tarn_ipc_open(&handle, NULL, &opened);
        CHILD_CHECK(status == TARN_OK || status == TARN_NOT_FOUND);
        CHILD_CHECK((status == TARN_OK) == (opened != NULL));
        tarn_pointer_release(opened);
    }
    check_nothing_open();
}

TEST(a_block_that_is_freed_during_a_request_is_found_or_not)
{
    tarn_ipc_handle handle;

    skip_on_gpu(); /* CUDA requires the importer to be first, and no other order */
    socket_directory_begin();
    struct process owner = process_start(own_in_a_hurry);
    struct process importer = process_start(open_in_a_hurry);
    while (receive_message(owner.line, &handle, sizeof handle))
        must_send(importer.line, &handle, sizeof handle);
    process_end(&importer);
    process_end(&owner);
    socket_directory_end();
}

/* --- pools of the program --- */

/* As in cuda.h. */
struct pool_properties {
    int allocation_type, handle_types, location_type, location_id;
    void *security;
    size_t most_bytes;
    unsigned char rest[56];
};

static struct {
    int (*create)(void **out, const struct pool_properties *);
    int (*destroy)(void *pool);
    int (*allocate)(tarn_device_ptr *out, size_t bytes, void *pool, void *stream);
    int (*free)(tarn_device_ptr, void *stream);
    int (*wait)(void);
    int (*retain)(void **out, int device);
    int (*set_current)(void *context);
} cu;

static void find_calls(void)
{
    void *context;

    find_call("cuMemPoolCreate", &cu.create);
    find_call("cuMemPoolDestroy", &cu.destroy);
    find_call("cuMemAllocFromPoolAsync", &cu.allocate);
    find_call("cuMemFreeAsync", &cu.free);
    find_call("cuCtxSynchronize", &cu.wait);
    find_call("cuDevicePrimaryCtxRetain", &cu.retain);
    find_call("cuCtxSetCurrent", &cu.set_current);
    CHILD_CHECK(cu.retain(&context, 0) == 0 && cu.set_current(context) == 0);
}

static void return_memory(void *data, tarn_device_ptr address, size_t bytes)
{
    (void)data, (void)bytes;
    CHILD_CHECK(cu.set_current(data) == 0);
    CHILD_CHECK(cu.free(address, NULL) == 0);
}

/* A pointer over memory of a pool that the program created. */
static tarn_pointer *pointer_by_the_driver(void **pool_out)
{
    struct pool_properties properties = {
        .allocation_type = 1, .handle_types = 1, .location_type = 1};
    tarn_pointer_options options = {
        .size = sizeof options, .bytes = MIB, .finalizer = return_memory};
    tarn_pointer *pointer;

    find_calls();
    CHILD_CHECK(cu.retain(&options.finalizer_data, 0) == 0);
    CHILD_CHECK(cu.create(pool_out, &properties) == 0);
    CHILD_CHECK(cu.allocate(&options.address, MIB, *pool_out, NULL) == 0);
    CHILD_CHECK(cu.wait() == 0);
    CHILD_STATUS(TARN_OK, tarn_pointer_create(&options, &pointer));
    return pointer;
}

/* A view at an offset in such memory. */
static void own_by_the_driver(int line)
{
    void *pool;
    tarn_pointer *pointer = pointer_by_the_driver(&pool), *view;
    tarn_ipc_counts counts;
    char mark;

    write_pattern(pointer, 0);
    CHILD_STATUS(TARN_OK, tarn_pointer_view(pointer, 256, 4096, &view));
    for (int kind = 0; kind < 2; kind++) {
        tarn_ipc_handle handle;
        CHILD_STATUS(TARN_OK, tarn_ipc_export(view, (tarn_ipc_kind)kind, &handle));
        CHILD_CHECK(handle.offset == 256);
        must_send(line, &handle, sizeof handle);
        must_receive(line, &mark, 1);
    }
    tarn_pointer_release(view);
    tarn_pointer_release(pointer);
    do
        tarn_ipc_get_counts(&counts);
    while (counts.served > 0 || counts.connections > 0);
    CHILD_CHECK(cu.wait() == 0 && cu.destroy(pool) == 0);
    wait_until_all_is_freed();
}

static void open_two(int line)
{
    for (int i = 0; i < 2; i++) {
        tarn_ipc_handle handle;
        tarn_pointer *opened;
        must_receive(line, &handle, sizeof handle);
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
        CHILD_CHECK(wrong_bytes(opened, letter(256, 0)) == 0);
        tarn_pointer_release(opened);
        must_send(line, "x", 1);
    }
    check_nothing_open();
}

TEST(a_pool_that_the_program_made_by_itself_is_exported_too)
{
    pair_of(own_by_the_driver, open_two);
}

/* The driver rejects a block of a pool that was never exported, and here once more after the
 * pool was exported. */
static void own_what_the_driver_rejects(int line)
{
    void *pool;
    tarn_pointer *pointer = pointer_by_the_driver(&pool);
    tarn_ipc_handle handle;
    tarn_ipc_counts counts;

    (void)line;
    fail_second("cuMemPoolExportPointer");
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_ipc_export(pointer, TARN_IPC_PLAIN, &handle));
    CHILD_MESSAGE("cuMemPoolExportPointer");
    CHILD_CHECK(sim_faults() == 1);
    sim_configure(NULL);
    tarn_pointer_release(pointer);
    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.descriptors == 0);
    CHILD_CHECK(cu.wait() == 0 && cu.destroy(pool) == 0);
    wait_until_all_is_freed();
}

TEST(a_block_that_the_driver_rejects_after_its_pool_was_exported_has_no_handle)
{
    skip_on_gpu();
    socket_directory_begin();
    struct process owner = process_start(own_what_the_driver_rejects);
    process_end(&owner);
    socket_directory_end();
}

/* --- the owner's side --- */

/* The owner releases everything that it has, and the lease keeps the block. */
static void own_what_is_leased(int line)
{
    tarn_resource *resource = exportable_async();
    tarn_pointer *pointer;
    tarn_ipc_handle handle;
    tarn_ipc_counts counts;
    char mark;

    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, MIB, TARN_STREAM_NONE, &pointer));
    write_pattern(pointer, 1);
    CHILD_STATUS(TARN_OK, tarn_ipc_export(pointer, TARN_IPC_SERVED, &handle));
    must_send(line, &handle, sizeof handle);
    must_receive(line, &mark, 1);
    tarn_pointer_release(pointer);
    CHILD_CHECK(tarn_resource_live_blocks(resource) == 1);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    must_send(line, &handle, sizeof handle);
    must_receive(line, &mark, 1);
    do
        tarn_ipc_get_counts(&counts);
    while (counts.leases > 0);
    wait_until_all_is_freed();
}

static void lease_it(int line)
{
    tarn_ipc_handle handle;
    tarn_pointer *opened;

    must_receive(line, &handle, sizeof handle);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
    must_send(line, "x", 1);
    must_receive(line, &handle, sizeof handle);
    CHILD_CHECK(wrong_bytes(opened, 1) == 0);
    tarn_pointer_release(opened);
    must_send(line, "x", 1);
    check_nothing_open();
}

TEST(a_leased_block_keeps_its_pool)
{
    pair_of(own_what_is_leased, lease_it);
}

static tarn_pointer *captured;

static tarn_status export_both(void)
{
    tarn_ipc_handle handle;
    tarn_status status = tarn_ipc_export(captured, TARN_IPC_PLAIN, &handle);

    return status == TARN_OK ? tarn_ipc_export(captured, TARN_IPC_SERVED, &handle)
                             : status;
}

static void export_while_a_stream_captures(int line)
{
    tarn_resource *resource = exportable_async();

    (void)line;
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, 4096, TARN_STREAM_NONE, &captured));
    capture_survives(export_both);
    tarn_pointer_release(captured);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
}

TEST(exporting_ends_no_capture)
{
    socket_directory_begin();
    struct process owner = process_start(export_while_a_stream_captures);
    process_end(&owner);
    socket_directory_end();
}

/* --- another device of the importer --- */

static int access_of(tarn_device_ptr address, int device)
{
    int (*attribute)(void *out, int which, tarn_device_ptr);
    int (*access)(int *out, void *pool, const int location[2]);
    int location[2] = {1, device}, flags = 77;
    void *pool = NULL;

    find_call("cuPointerGetAttribute", &attribute);
    find_call("cuMemPoolGetAccess", &access);
    CHILD_CHECK(attribute(&pool, 17, address) == 0);
    CHILD_CHECK(access(&flags, pool, location) == 0);
    return flags;
}

static void open_for_the_other_device(int line)
{
    tarn_ipc_open_options options = {.size = sizeof options, .device_plus_1 = 2};
    tarn_pointer *first, *other, *here;

    allocate(line, 0, MIB, 1);
    allocate(line, 1, MIB, 2);
    for (int kind = 0; kind < 2; kind++) {
        tarn_ipc_handle one = export_block(line, 0, 0, MIB, (tarn_ipc_kind)kind);
        tarn_ipc_handle two = export_block(line, 1, 0, MIB, (tarn_ipc_kind)kind);
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&one, NULL, &first));
        CHILD_CHECK(access_of(tarn_pointer_address(first), 1) == 0);
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&two, &options, &other));
        CHILD_CHECK(access_of(tarn_pointer_address(other), 1) == 3);
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&two, NULL, &here));
        CHILD_CHECK(tarn_pointer_address(here) == tarn_pointer_address(other));
        tarn_pointer_release(first);
        tarn_pointer_release(other);
        CHILD_CHECK(wrong_bytes(here, 2) == 0); /* it was not freed with the other one */
        tarn_pointer_release(here);
        check_nothing_open();
    }
}

TEST(another_device_gets_access_and_shares_the_import)
{
    skip_on_gpu();
    with_owner(FROM_ASYNC, open_for_the_other_device);
}

/* --- an importer whose context ends --- */

static void open_and_reset(int line)
{
    tarn_pointer *opened;

    CHILD_CHECK(live_bytes() == 0);
    for (int kind = 0; kind < 2; kind++) {
        allocate(line, kind, MIB, 1);
        tarn_ipc_handle handle = export_block(line, kind, 0, MIB, (tarn_ipc_kind)kind);
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
        reset_the_device();
        tarn_pointer_release(opened);
        check_nothing_open();
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
        CHILD_CHECK(wrong_bytes(opened, 1) == 0);
        tarn_pointer_release(opened);
        check_nothing_open();
    }
}

TEST(an_importer_whose_context_was_reset_closes_and_opens_again)
{
    with_owner(FROM_ASYNC, open_and_reset);
}
