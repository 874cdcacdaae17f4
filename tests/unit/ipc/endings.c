/* Test the end of a leased block: the calls of its owner's code then, on the server's
 * thread. */
#define _GNU_SOURCE
#include "pair.h"
#include <pthread.h>

/* The block of the test: memory of the test that `owner_release` frees. */
static struct {
    tarn_resource *resource;
    tarn_device_ptr block;
    tarn_pointer *pointer, *second_pointer;
    pthread_t thread; /* the process of the test */
    atomic_int released;
    atomic_int warnings;
} lent;

static void hear_warning(void *data, const char *message)
{
    (void)data;
    (void)message;
    atomic_fetch_add(&lent.warnings, 1);
}

/* Calls that take each of the locks on the owner's side, and a block without a lease. */
static void return_memory(void *owner)
{
    tarn_ipc_counts counts;
    tarn_ipc_handle handle;
    tarn_pointer *other;
    size_t leases;

    CHILD_CHECK(owner == &lent);
    CHILD_CHECK(!pthread_equal(lent.thread, pthread_self()));
    tarn_ipc_get_counts(&counts);
    CHILD_STATUS(TARN_OK, tarn_ipc_leases(NULL, 0, &leases));
    CHILD_STATUS(TARN_OK, tarn_pointer_allocate(lent.resource, 64 << 10, TARN_STREAM_NONE,
                                                &other));
    CHILD_STATUS(TARN_OK, tarn_ipc_export(other, TARN_IPC_SERVED, &handle));
    CHILD_CHECK(tarn_ipc_open(&handle, NULL, &other) != TARN_OK); /* the test's own */
    tarn_pointer_release(other);
    CHILD_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_ipc_export(lent.pointer, TARN_IPC_SERVED, &handle));
    tarn_pointer_release(lent.second_pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(lent.resource, lent.block, 64 << 10, 0,
                                                   TARN_STREAM_NONE));
    atomic_fetch_add(&lent.released, 1);
}

static tarn_ipc_handle lend(void)
{
    tarn_pointer_options options = {.size = sizeof options,
                                    .bytes = 64 << 10,
                                    .owner = &lent,
                                    .owner_release = return_memory};
    tarn_ipc_handle handle;

    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &lent.resource));
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(lent.resource, 64 << 10, 0,
                                                 TARN_STREAM_NONE, &lent.block));
    CHILD_STATUS(TARN_OK, tarn_pointer_allocate(lent.resource, 64 << 10, TARN_STREAM_NONE,
                                                &lent.second_pointer));
    options.address = lent.block;
    CHILD_STATUS(TARN_OK, tarn_pointer_create(&options, &lent.pointer));
    CHILD_STATUS(TARN_OK, tarn_ipc_export(lent.pointer, TARN_IPC_SERVED, &handle));
    return handle;
}

static void own(int line)
{
    char done;

    lent.thread = pthread_self();
    tarn_set_warning_handler(hear_warning, NULL);
    tarn_ipc_handle handle = lend();
    must_send(line, &handle, sizeof handle);
    must_receive(line, &done, 1); /* it is open there */
    tarn_pointer_release(lent.pointer);
    CHILD_CHECK(atomic_load(&lent.released) == 0);
    must_send(line, &done, 1); /* it may be closed there */
    while (atomic_load(&lent.released) == 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHILD_CHECK(!receive_message(line, &done, 1));
    CHILD_CHECK(atomic_load(&lent.released) == 1);
    CHILD_CHECK(atomic_load(&lent.warnings) == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(lent.resource));
    wait_until_all_is_freed();
}

static void import(int line)
{
    tarn_ipc_handle handle;
    tarn_pointer *pointer;
    char done = 0;

    must_receive(line, &handle, sizeof handle);
    CHILD_STATUS(TARN_OK, tarn_ipc_open(&handle, NULL, &pointer));
    must_send(line, &done, 1);
    must_receive(line, &done, 1);
    tarn_pointer_release(pointer);
    check_nothing_open();
}

/* Another process opens the owner's block, the owner frees it, and the other process
 * closes it. */
static void with_lease(void (*owning)(int line))
{
    tarn_ipc_handle handle;
    char done;

    socket_directory_begin();
    struct process owner = process_start(owning);
    struct process importer = process_start(import);
    must_receive(owner.line, &handle, sizeof handle);
    must_send(importer.line, &handle, sizeof handle);
    must_receive(importer.line, &done, 1);
    must_send(owner.line, &done, 1);
    must_receive(owner.line, &done, 1);
    must_send(importer.line, &done, 1);
    process_end(&importer);
    process_end(&owner);
    socket_directory_end();
}

TEST(owner_of_a_leased_block_may_call_tarn_when_the_last_lease_ends)
{
    with_lease(own);
}

/* --- a free that fails on the server's thread --- */

static atomic_int failures_left = 1, warnings;

static void count_warning(void *data, const char *message)
{
    (void)data;
    CHILD_CHECK(strstr(message, "failed, later calls try again: refusing: not yet"));
    atomic_fetch_add(&warnings, 1);
}

struct refusing {
    tarn_resource *cuda;
};

static tarn_status refusing_allocate(void *self, size_t bytes, size_t alignment,
                                     tarn_stream stream, tarn_device_ptr *out)
{
    return tarn_resource_allocate(((struct refusing *)self)->cuda, bytes, alignment,
                                  stream, out);
}

static tarn_status refusing_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                       size_t alignment, tarn_stream stream)
{
    if (atomic_fetch_sub(&failures_left, 1) > 0)
        return tarn_error_set(TARN_PLUGIN_FAILURE, "refusing: not yet");
    return tarn_resource_deallocate(((struct refusing *)self)->cuda, block, bytes,
                                    alignment, stream);
}

static void refusing_destroy(void *self)
{
    CHILD_STATUS(TARN_OK, tarn_resource_release(((struct refusing *)self)->cuda));
}

static void own_refusing(int line)
{
    static const tarn_resource_ops ops = {.size = sizeof ops,
                                          .name = "refusing",
                                          .allocate = refusing_allocate,
                                          .deallocate = refusing_deallocate,
                                          .destroy = refusing_destroy};
    static struct refusing refusing;
    tarn_resource *resource;
    tarn_pointer *pointer;
    tarn_ipc_handle handle;
    char done;

    tarn_set_warning_handler(count_warning, NULL);
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &refusing.cuda));
    CHILD_STATUS(TARN_OK, tarn_resource_create(&ops, &refusing, 0, &resource));
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, 64 << 10, TARN_STREAM_NONE, &pointer));
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    CHILD_STATUS(TARN_OK, tarn_ipc_export(pointer, TARN_IPC_SERVED, &handle));
    must_send(line, &handle, sizeof handle);
    must_receive(line, &done, 1);
    CHILD_STATUS(TARN_OK, tarn_pointer_release_checked(pointer)); /* it is leased */
    must_send(line, &done, 1);
    while (tarn_pointer_deferred_count() == 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHILD_CHECK(!receive_message(line, &done, 1));
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    CHILD_CHECK(atomic_load(&warnings) == 1);
    wait_until_all_is_freed();
}

TEST(free_that_fails_when_the_last_lease_ends_is_a_warning)
{
    with_lease(own_refusing);
}
