/* Test opening for another device: directly where peer access exists, else through a copy
 * that the importer owns. */
#define _GNU_SOURCE
#include "pair.h"
#include "capturing.h"

static void (*importer_body)(const tarn_ipc_handle *handle, int line);

static void import(int line)
{
    tarn_ipc_handle handle;

    must_receive(line, &handle, sizeof handle);
    importer_body(&handle, line);
    check_nothing_open();
}

static void for_each_handle(void (*body)(const tarn_ipc_handle *handle, int line))
{
    importer_body = body;
    for (int source = 0; source < SOURCES; source++)
        for (int kind = 0; kind < 2; kind++) {
            char mark;
            socket_directory_begin();
            struct process owner = process_start(owners[source]);
            struct process importer = process_start(import);
            allocate(owner.line, 0, MIB, 1);
            tarn_ipc_handle handle =
                export_block(owner.line, 0, 4096, MIB / 2, (tarn_ipc_kind)kind);
            must_send(importer.line, &handle, sizeof handle);
            if (receive_message(importer.line, &mark, 1)) { /* it has a copy */
                tell(owner.line, (struct order){.verb = WRITE, .place = 0, .seed = 9});
                must_send(importer.line, &mark, 1);
            }
            process_end(&importer);
            process_end(&owner);
            socket_directory_end();
        }
}

static const unsigned seed_of_part = 1 + 4096 * 7 + (4096 >> 8) * 13;

static tarn_ipc_open_options options_for(int device, bool always_copy)
{
    return (tarn_ipc_open_options){.size = sizeof(tarn_ipc_open_options),
                                   .device_plus_1 = device + 1,
                                   .always_copy = always_copy};
}

static void open_from_the_other_device(const tarn_ipc_handle *handle, int line)
{
    tarn_ipc_open_options options = options_for(1, false);
    tarn_pointer *here, *there;
    tarn_ipc_counts counts;

    (void)line;
    CHILD_STATUS(TARN_OK, tarn_ipc_open(handle, &options, &there));
    CHILD_STATUS(TARN_OK, tarn_ipc_open(handle, NULL, &here));
    CHILD_CHECK(tarn_pointer_device(there) == 1);
    CHILD_CHECK(tarn_pointer_device(here) == 0);
    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.mapped == 2); /* once for each device */
    CHILD_CHECK(wrong_bytes(there, seed_of_part) == 0);
    write_pattern(there, 77);
    CHILD_CHECK(wrong_bytes(here, 77) == 0); /* it is the same memory */
    tarn_pointer_release(here);
    tarn_pointer_release(there);
}

TEST(a_device_that_reaches_the_memory_gets_it_directly)
{
    skip_on_gpu();
    for_each_handle(open_from_the_other_device);
}

static void copy_to(const tarn_ipc_handle *handle, int line, int device, bool always)
{
    tarn_ipc_open_options options = options_for(device, always);
    tarn_ipc_counts counts;
    tarn_pointer *copy;
    char mark = 'x';

    CHILD_STATUS(TARN_OK, tarn_ipc_open(handle, &options, &copy));
    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.mapped == 0); /* the handle is closed again */
    CHILD_CHECK(counts.descriptors == 0);
    CHILD_CHECK(tarn_pointer_device(copy) == device);
    CHILD_CHECK(wrong_bytes(copy, seed_of_part) == 0);
    must_send(line, &mark, 1); /* the owner writes other bytes now */
    must_receive(line, &mark, 1);
    CHILD_CHECK(wrong_bytes(copy, seed_of_part) == 0);
    tarn_pointer_release(copy);
}

static void copy_to_the_other_device(const tarn_ipc_handle *handle, int line)
{
    sim_configure("peers=off");
    copy_to(handle, line, 1, false);
}

TEST(a_device_that_does_not_reach_the_memory_gets_a_copy_of_its_own)
{
    skip_on_gpu();
    for_each_handle(copy_to_the_other_device);
}

static void copy_on_the_same_device(const tarn_ipc_handle *handle, int line)
{
    copy_to(handle, line, 0, true);
}

TEST(a_copy_can_be_requested)
{
    for_each_handle(copy_on_the_same_device);
}

/* The host copies a few MiB at a time, and the last part is smaller. */
static void copy_in_parts(int line)
{
    enum { OFFSET = 4096, BYTES = 9 * MIB + 100 };
    tarn_ipc_open_options options = options_for(0, true);
    tarn_pointer *copy;

    allocate(line, 0, OFFSET + BYTES, 1);
    tarn_ipc_handle handle = export_block(line, 0, OFFSET, BYTES, TARN_IPC_PLAIN);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, &options, &copy));
    CHILD_CHECK(tarn_pointer_bytes(copy) == BYTES);
    CHILD_CHECK(wrong_bytes(copy, seed_of_part) == 0);
    tarn_pointer_release(copy);
    check_nothing_open();
}

TEST(a_large_block_is_copied_to_its_last_byte_and_no_further)
{
    with_each_owner(copy_in_parts);
}

static tarn_status give_up(void *data, size_t bytes, bool *again_out)
{
    (void)data, (void)bytes, (void)again_out;
    return TARN_OK;
}

static void note_end(void *ended)
{
    *(bool *)ended = true;
}

static void copy_into_a_resource(const tarn_ipc_handle *handle, int line)
{
    tarn_ipc_open_options options = options_for(0, true);
    tarn_resource *cuda, *resource;
    tarn_pointer *copy;
    bool ended = false;

    (void)line;
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    CHILD_STATUS(TARN_OK, tarn_failure_callback_create(cuda, give_up, &ended, note_end,
                                                       &resource));
    CHILD_STATUS(TARN_OK, tarn_device_set_resource(0, resource, NULL));
    CHILD_STATUS(TARN_OK, tarn_ipc_open(handle, &options, &copy));
    CHILD_CHECK(tarn_resource_live_blocks(resource) == 1);
    tarn_pointer_release(copy);
    CHILD_CHECK(tarn_resource_live_blocks(resource) == 0);
    CHILD_STATUS(TARN_OK, tarn_device_set_resource(0, NULL, NULL));
    CHILD_CHECK(!ended);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    CHILD_CHECK(ended);
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
}

TEST(a_copy_is_memory_of_the_devices_resource_and_keeps_it_until_its_release)
{
    for_each_handle(copy_into_a_resource);
}

static void copy_without_memory(const tarn_ipc_handle *handle, int line)
{
    tarn_ipc_open_options options = options_for(1, true);
    tarn_pointer *untouched = (tarn_pointer *)(uintptr_t)77, *copy = untouched;

    (void)line;
    sim_configure("fail=call:cuMemAlloc:1");
    CHILD_STATUS(TARN_OUT_OF_MEMORY, tarn_ipc_open(handle, &options, &copy));
    CHILD_CHECK(copy == untouched);
    sim_configure("fail=call:cuMemcpyAsync:2"); /* the second half of the copy */
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_ipc_open(handle, &options, &copy));
    CHILD_MESSAGE("cuMemcpyAsync");
    CHILD_CHECK(copy == untouched);
    sim_configure(NULL);
}

TEST(a_copy_that_fails_leaves_nothing)
{
    skip_on_gpu();
    for_each_handle(copy_without_memory);
}

static void open_for_no_device(const tarn_ipc_handle *handle, int line)
{
    tarn_ipc_open_options options = options_for(99, false);
    tarn_pointer *out;

    (void)line;
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_ipc_open(handle, &options, &out));
    CHILD_MESSAGE("device 99 does not exist");
    options.size = 4;
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_ipc_open(handle, &options, &out));
    CHILD_MESSAGE("at least");
    struct {
        tarn_ipc_open_options known;
        uint64_t later;
    } longer = {options_for(0, false), 1};
    longer.known.size = sizeof longer;
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_ipc_open(handle, &longer.known, &out));
    CHILD_MESSAGE("that this libtarn knows");
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_ipc_open(NULL, NULL, &out));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_ipc_open(handle, NULL, NULL));
}

TEST(invalid_arguments_are_rejected)
{
    for_each_handle(open_for_no_device);
}

/* --- captures --- */

static const tarn_ipc_handle *captured;

static tarn_status open_and_close(void)
{
    tarn_ipc_open_options copy = options_for(0, true);
    tarn_pointer *opened;
    tarn_status status = tarn_ipc_open(captured, NULL, &opened);

    if (status != TARN_OK)
        return status;
    tarn_pointer_release(opened);
    status = tarn_ipc_open(captured, &copy, &opened);
    if (status == TARN_OK)
        tarn_pointer_release(opened);
    return status;
}

static void open_while_a_stream_captures(const tarn_ipc_handle *handle, int line)
{
    (void)line;
    captured = handle;
    capture_survives(open_and_close);
}

TEST(opening_and_closing_end_no_capture)
{
    for_each_handle(open_while_a_stream_captures);
}
