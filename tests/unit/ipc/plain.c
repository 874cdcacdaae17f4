/* Test plain handles: the same bytes in two processes, one mapping per allocation, and
 * rejected handles. */
#define _GNU_SOURCE
#include "pair.h"
#include "driver_calls.h"
#include "host_bytes.h"
#include "ipc/handle_encoding.h"

/* --- valid handles --- */

static void read_and_write(int line)
{
    tarn_pointer *opened = NULL;

    allocate(line, 0, MIB, 3);
    tarn_ipc_handle handle = export_block(line, 0, 0, MIB, TARN_IPC_PLAIN);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
    CHILD_CHECK(tarn_pointer_bytes(opened) == MIB);
    CHILD_CHECK(tarn_pointer_device(opened) == 0);
    CHILD_CHECK(wrong_bytes(opened, 3) == 0);
    write_pattern(opened, 4);
    CHILD_CHECK(verify(line, 0, 4) == 0);
    tarn_pointer_release(opened);
    free_block(line, 0);
    check_nothing_open();
}

TEST(memory_is_the_same_in_both_processes)
{
    with_each_owner(read_and_write);
}

static void open_parts(int line)
{
    enum { PARTS = 8, PART = MIB / PARTS };
    tarn_pointer *parts[PARTS];
    tarn_ipc_counts counts;

    allocate(line, 0, MIB, 0);
    for (size_t i = 0; i < PARTS; i++) {
        tarn_ipc_handle handle = export_block(line, 0, i * PART, PART, TARN_IPC_PLAIN);
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &parts[i]));
        CHILD_CHECK(tarn_pointer_address(parts[i]) ==
                    tarn_pointer_address(parts[0]) + i * PART);
        write_pattern(parts[i], (unsigned)(letter(i * PART, 0)));
    }
    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.mapped == 1);
    for (size_t i = 0; i < PARTS; i++)
        CHILD_CHECK(wrong_bytes(parts[i], letter(i * PART, 0)) == 0);
    for (size_t i = 0; i < PARTS; i++)
        tarn_pointer_release(parts[i]);
    check_nothing_open();
}

TEST(an_allocation_is_mapped_once_for_all_its_blocks)
{
    with_each_owner(open_parts);
}

static void open_again_without_the_owner(int line)
{
    tarn_pointer *first, *second, *view;

    allocate(line, 0, MIB, 5);
    tarn_ipc_handle handle = export_block(line, 0, 0, MIB, TARN_IPC_PLAIN);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &first));
    unsigned long long before = has_sim() ? sim_calls() : 0;
    uint64_t requests_before = counts_of(line).requests;
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &second));
    CHILD_CHECK(!has_sim() ||
                sim_calls() - before <= 2); /* the context's reference, and no more */
    CHILD_CHECK(counts_of(line).requests == requests_before);
    CHILD_STATUS(TARN_OK, tarn_pointer_view(second, 4096, 100, &view));
    tarn_pointer_release(first);
    tarn_pointer_release(second);
    CHILD_CHECK(wrong_bytes(view, letter(4096, 5)) == 0); /* a view keeps it open */
    tarn_pointer_release(view);
    check_nothing_open();
}

TEST(a_second_open_calls_neither_the_owner_nor_the_driver)
{
    with_each_owner(open_again_without_the_owner);
}

/* The uuid in the handle decides. */
static void open_where_devices_have_other_numbers(int line)
{
    tarn_pointer *opened;

    CHILD_CHECK(setenv("CUDA_VISIBLE_DEVICES", "1,0", 1) == 0);
    allocate(line, 0, MIB, 5);
    for (int kind = 0; kind < 2; kind++) {
        tarn_ipc_handle handle = export_block(line, 0, 0, MIB, (tarn_ipc_kind)kind);
        CHILD_CHECK(handle.device == 0);
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
        CHILD_CHECK(tarn_pointer_device(opened) == 1);
        CHILD_CHECK(wrong_bytes(opened, 5) == 0);
        tarn_pointer_release(opened);
    }
    check_nothing_open();
}

TEST(a_block_is_opened_on_its_device_whatever_number_that_has_in_the_process)
{
    skip_on_gpu();
    with_each_owner(open_where_devices_have_other_numbers);
}

static void open_with_another_number(int line)
{
    tarn_pointer *opened;

    allocate(line, 0, MIB, 5);
    tarn_ipc_handle handle = export_block(line, 0, 0, MIB, TARN_IPC_PLAIN);
    for (int number = -1; number < 100; number += 20) {
        handle.device = number;
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
        CHILD_CHECK(tarn_pointer_device(opened) == 0);
        tarn_pointer_release(opened);
    }
    handle.uuid[3] ^= 1; /* this process has no such device */
    for (int number = -1; number < 100; number += 20) {
        handle.device = number;
        CHILD_STATUS(TARN_NOT_FOUND, tarn_ipc_open(&handle, NULL, &opened));
        CHILD_MESSAGE("does not have the device");
    }
    check_nothing_open();
}

TEST(the_uuid_in_a_handle_tells_the_device_and_its_number_does_not)
{
    with_owner(FROM_EXPORTABLE, open_with_another_number);
}

static void open_each_of_several(int line)
{
    enum { BLOCKS = 4 };
    tarn_ipc_handle handles[BLOCKS];
    tarn_pointer *opened;

    for (int i = 0; i < BLOCKS; i++) {
        allocate(line, i, MIB, (unsigned)i + 1);
        handles[i] = export_block(line, i, 0, MIB, TARN_IPC_PLAIN);
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handles[i], NULL, &opened));
        CHILD_CHECK(wrong_bytes(opened, (unsigned)i + 1) == 0);
        tarn_pointer_release(opened);
    }
    check_nothing_open();
}

TEST(each_handle_of_several_blocks_opens_its_own)
{
    with_each_owner(open_each_of_several);
}

/* Work that is not done when the call after it returns. */
static void be_slow(void *done)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    atomic_store((atomic_bool *)done, true);
}

static void queue_slow_work(tarn_stream stream, atomic_bool *done)
{
    int (*retain)(void **out, int device);
    int (*set_current)(void *context);
    int (*launch)(void *stream, void (*function)(void *), void *data);
    void *context;

    find_call("cuDevicePrimaryCtxRetain", &retain);
    find_call("cuCtxSetCurrent", &set_current);
    find_call("cuLaunchHostFunc", &launch);
    CHILD_CHECK(retain(&context, 0) == 0 && set_current(context) == 0);
    CHILD_CHECK(launch(stream, be_slow, done) == 0);
    CHILD_CHECK(set_current(NULL) == 0);
}

static void close_while_work_is_queued(int line)
{
    tarn_stream stream;
    tarn_pointer *opened;

    allocate(line, 0, MIB, 5);
    for (int kind = 0; kind < 2; kind++) {
        tarn_ipc_handle handle = export_block(line, 0, 0, MIB, (tarn_ipc_kind)kind);
        atomic_bool done = false;
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &opened));
        CHILD_STATUS(TARN_OK, tarn_stream_create(0, true, &stream));
        queue_slow_work(stream, &done);
        tarn_pointer_release(opened);
        CHILD_CHECK(atomic_load(&done));
        CHILD_STATUS(TARN_OK, tarn_stream_destroy(0, stream));
    }
    check_nothing_open();
}

TEST(the_last_release_waits_for_work_that_may_use_the_memory)
{
    with_each_owner(close_while_work_is_queued);
}

/* --- rejected handles --- */

/* The output is unchanged, and the message gives the reason. */
static void check_rejected(const tarn_ipc_handle *handle, tarn_status wanted,
                           const char *message)
{
    tarn_pointer *untouched = (tarn_pointer *)(uintptr_t)77, *out = untouched;

    CHILD_STATUS(wanted, tarn_ipc_open(handle, NULL, &out));
    CHILD_MESSAGE(message);
    CHILD_CHECK(out == untouched);
}

static void open_out_of_bounds(int line)
{
    tarn_pointer *whole;

    allocate(line, 0, 2 * MIB, 0);
    tarn_ipc_handle handle = export_block(line, 0, 0, 2 * MIB, TARN_IPC_PLAIN);
    tarn_ipc_handle bad = handle;
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &whole));
    bad.bytes = SIZE_MAX;
    check_rejected(&bad, TARN_INVALID_ARGUMENT, "exceed the allocation");
    bad.bytes = SIZE_MAX - 1;
    bad.offset = 2; /* the sum wraps to 0 */
    check_rejected(&bad, TARN_INVALID_ARGUMENT, "exceed the allocation");
    bad.bytes = 1;
    bad.offset = SIZE_MAX;
    check_rejected(&bad, TARN_INVALID_ARGUMENT, "exceed the allocation");
    bad.bytes = 0;
    check_rejected(&bad, TARN_INVALID_ARGUMENT, "0 bytes");
    tarn_pointer_release(whole);
    bad = handle;
    bad.offset = (size_t)1 << 40;
    check_rejected(&bad, TARN_INVALID_ARGUMENT,
                   "exceed the allocation"); /* and it is closed again */
    check_nothing_open();
}

TEST(a_block_beyond_its_allocation_is_rejected)
{
    with_each_owner(open_out_of_bounds);
}

static void open_garbage(int line)
{
    allocate(line, 0, MIB, 0);
    const tarn_ipc_handle good = export_block(line, 0, 0, MIB, TARN_IPC_PLAIN);
    tarn_ipc_handle bad = good;
    bool is_encoded = tarn__handle_encoding_has_magic(good.reserved);

    for (size_t i = 0; i < sizeof bad.reserved; i++) {
        bad = good;
        bad.reserved[i] ^= 0x10;
        tarn_pointer *out = NULL;
        tarn_status status = tarn_ipc_open(&bad, NULL, &out);
        /* The simulator's handles have bytes without a meaning. */
        CHILD_CHECK(status != TARN_OK || !is_encoded);
        tarn_pointer_release(out);
    }
    memset(bad.reserved, 0, sizeof bad.reserved);
    check_rejected(&bad, TARN_NOT_FOUND, "is invalid");
    bad = good;
    memset(bad.reserved + 20, 0, 44); /* like a message that was cut off */
    check_rejected(&bad, is_encoded ? TARN_INVALID_ARGUMENT : TARN_NOT_FOUND,
                   "is invalid");
    bad = good;
    bad.uuid[3] ^= 1;
    check_rejected(&bad, TARN_NOT_FOUND, "device");
    check_nothing_open();
}

TEST(bytes_that_are_no_handle_are_rejected)
{
    skip_on_gpu(); /* a real driver may crash on its own handles' bytes */
    with_each_owner(open_garbage);
}

static void open_freed(int line)
{
    allocate(line, 0, MIB, 0);
    tarn_ipc_handle old = export_block(line, 0, 0, MIB, TARN_IPC_PLAIN);
    free_block(line, 0);
    check_rejected(&old, TARN_NOT_FOUND, "freed");
    allocate(line, 1, MIB, 9); /* perhaps at the same address, in the same slot */
    check_rejected(&old, TARN_NOT_FOUND, "freed");
    check_nothing_open();
}

TEST(freed_memory_is_rejected_though_its_address_is_reused)
{
    if (has_sim())
        with_owner(FROM_CUDA, open_freed);
    with_owner(FROM_EXPORTABLE, open_freed);
    with_owner(FROM_ASYNC, open_freed);
}

static void open_own(int line)
{
    static const enum source all[] = {FROM_CUDA, FROM_EXPORTABLE, FROM_ASYNC};

    (void)line;
    for (size_t i = 0; i < 3; i++)
        for (int kind = TARN_IPC_PLAIN; kind <= TARN_IPC_SERVED; kind++) {
            tarn_resource *resource = make_source(all[i]);
            tarn_ipc_handle handle;
            tarn_pointer *pointer;
            CHILD_STATUS(TARN_OK, tarn_pointer_allocate(resource, 100, TARN_STREAM_NONE,
                                                        &pointer));
            CHILD_STATUS(TARN_OK, tarn_ipc_export(pointer, (tarn_ipc_kind)kind, &handle));
            check_rejected(&handle, TARN_INVALID_ARGUMENT, "exported by this process");
            tarn_pointer_release(pointer);
            CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
        }
    wait_until_all_is_freed();
}

TEST(a_process_does_not_open_its_own_handles)
{
    socket_directory_begin();
    struct process own = process_start(open_own);
    process_end(&own);
    socket_directory_end();
}

static void open_of_others(int line)
{
    allocate(line, 0, MIB, 0);
    tarn_ipc_handle handle = export_block(line, 0, 0, MIB, TARN_IPC_PLAIN);
    struct tarn__handle_encoding encoding;

    memcpy(&encoding, handle.reserved, sizeof encoding);
    encoding.user++;
    tarn__handle_encoding_seal(&encoding);
    memcpy(handle.reserved, &encoding, sizeof encoding);
    check_rejected(&handle, TARN_INVALID_ARGUMENT, "belongs to user");
    encoding.user--;
    encoding.server[0] ^= 1; /* no process has this name */
    tarn__handle_encoding_seal(&encoding);
    memcpy(handle.reserved, &encoding, sizeof encoding);
    check_rejected(&handle, TARN_NOT_FOUND, "has ended");
    encoding.server[0] ^= 1;
    encoding.generation += 1000;
    tarn__handle_encoding_seal(&encoding);
    memcpy(handle.reserved, &encoding, sizeof encoding);
    check_rejected(&handle, TARN_NOT_FOUND, "freed");
    encoding.slot = UINT32_MAX;
    tarn__handle_encoding_seal(&encoding);
    memcpy(handle.reserved, &encoding, sizeof encoding);
    check_rejected(&handle, TARN_NOT_FOUND, "freed");
    check_nothing_open();
}

TEST(handles_of_other_users_servers_and_generations_are_rejected)
{
    with_owner(FROM_EXPORTABLE, open_of_others);
}

/* --- repeated exports --- */

static tarn_pointer *exported;
static tarn_ipc_handle first_handle;

static void export_often(void)
{
    enum { TIMES = 3000 };
    tarn_ipc_handle handle;

    for (int i = 0; i < TIMES; i++) {
        CHILD_STATUS(TARN_OK, tarn_ipc_export(exported, TARN_IPC_SERVED, &handle));
        CHILD_CHECK(
            memcmp(first_handle.reserved, handle.reserved, sizeof handle.reserved) == 0);
    }
}

static void export_again(int line)
{
    tarn_resource *resource = make_source(FROM_EXPORTABLE);

    (void)line;
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, 100, TARN_STREAM_NONE, &exported));
    CHILD_STATUS(TARN_OK, tarn_ipc_export(exported, TARN_IPC_SERVED, &first_handle));
    CHILD_CHECK(host_growth(export_often) < HOST_GROWTH_NOISE);
    tarn_pointer_release(exported);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    wait_until_all_is_freed();
}

TEST(a_block_that_is_exported_again_has_the_same_handle_and_takes_no_more_host_memory)
{
    socket_directory_begin();
    struct process own = process_start(export_again);
    process_end(&own);
    socket_directory_end();
}

/* --- memory without a handle --- */

static void cannot(tarn_resource *resource)
{
    for (int kind = TARN_IPC_PLAIN; kind <= TARN_IPC_SERVED; kind++) {
        tarn_ipc_handle handle = {.bytes = 77};
        tarn_pointer *pointer;
        CHILD_STATUS(TARN_OK,
                     tarn_pointer_allocate(resource, 4096, TARN_STREAM_NONE, &pointer));
        CHILD_STATUS(TARN_NOT_SUPPORTED,
                     tarn_ipc_export(pointer, (tarn_ipc_kind)kind, &handle));
        CHILD_MESSAGE("the exportable resource");
        CHILD_CHECK(handle.bytes == 77);
        tarn_pointer_release(pointer);
    }
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
}

static void export_others(int line)
{
    tarn_async_options on_the_default = {.size = sizeof on_the_default,
                                         .use_default_pool = true};
    tarn_resource *resource;

    (void)line;
    CHILD_STATUS(TARN_OK, tarn_async_create(0, NULL, &resource));
    cannot(resource);
    CHILD_STATUS(TARN_OK, tarn_async_create(0, &on_the_default, &resource));
    cannot(resource);
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, NULL, &resource));
    cannot(resource);
    CHILD_STATUS(TARN_OK, tarn_managed_create(0, &resource));
    cannot(resource);
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_ipc_export(NULL, TARN_IPC_PLAIN, NULL));
}

TEST(memory_that_is_not_exportable_has_no_handle_and_the_message_names_memory_that_is)
{
    socket_directory_begin();
    struct process own = process_start(export_others);
    process_end(&own);
    socket_directory_end();
}
