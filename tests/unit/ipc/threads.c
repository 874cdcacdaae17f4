/* Test many threads at once: they open, close, export and free, while the server works.
 */
#define _GNU_SOURCE
#include "pair.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 60, BLOCKS = 4 };

static tarn_ipc_handle handles[2 * BLOCKS];

static void *open_and_close(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned which = i % (2 * BLOCKS);
        tarn_pointer *opened;
        CHILD_STATUS(TARN_OK, tarn_ipc_open(&handles[which], NULL, &opened));
        if (i % 16 == 0)
            CHILD_CHECK(wrong_bytes(opened, which % BLOCKS) == 0);
        tarn_pointer_release(opened);
    }
    return NULL;
}

static void import_in_threads(int line)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < BLOCKS; i++) {
        allocate(line, i, 64 << 10, (unsigned)i);
        for (int kind = 0; kind < 2; kind++)
            handles[kind * BLOCKS + i] =
                export_block(line, i, 0, 64 << 10, (tarn_ipc_kind)kind);
    }
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, open_and_close, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_join(threads[i], NULL) == 0);
    check_nothing_open();
}

TEST(threads_of_an_importer_share_what_is_open)
{
    with_each_owner(import_in_threads);
}

/* --- an owner whose threads share pointers and release them --- */

static struct {
    enum source source;
    tarn_resource *resource;
    tarn_pointer *shared; /* each thread has a reference */
    int line;             /* to the importer; one thread writes */
} own;

/* Any of the threads, or the server's, may drop the last reference. */
static void *export_and_free(void *number)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        tarn_ipc_handle handle;
        tarn_pointer *pointer, *view;
        CHILD_STATUS(TARN_OK, tarn_pointer_allocate(own.resource, 4096, TARN_STREAM_NONE,
                                                    &pointer));
        CHILD_STATUS(TARN_OK, tarn_pointer_view(pointer, 100, 100, &view));
        CHILD_STATUS(TARN_OK, tarn_ipc_export(view, TARN_IPC_SERVED, &handle));
        CHILD_STATUS(TARN_OK, tarn_ipc_export(own.shared, TARN_IPC_SERVED, &handle));
        tarn_pointer_release(pointer);
        if (number == NULL)
            must_send(own.line, &handle, sizeof handle);
        tarn_pointer_release(view);
    }
    tarn_pointer_release(own.shared);
    return NULL;
}

static void own_in_threads(int line)
{
    pthread_t threads[THREADS];
    tarn_ipc_counts counts;

    own.line = line;
    own.resource = make_source(own.source);
    CHILD_STATUS(TARN_OK, tarn_pointer_allocate(own.resource, 4096, TARN_STREAM_NONE,
                                                &own.shared));
    write_pattern(own.shared, 1);
    for (size_t i = 0; i < THREADS; i++) {
        tarn_pointer_retain(own.shared);
        CHILD_CHECK(pthread_create(&threads[i], NULL, export_and_free, (void *)i) == 0);
    }
    tarn_pointer_release(own.shared);
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_join(threads[i], NULL) == 0);
    do
        tarn_ipc_get_counts(&counts);
    while (counts.leases > 0);
    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.served == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(own.resource));
    wait_until_all_is_freed();
}

/* The owner may have freed it by then. */
static void import_what_comes(int line)
{
    tarn_ipc_handle handle;

    while (receive_message(line, &handle, sizeof handle)) {
        tarn_pointer *opened;
        if (tarn_ipc_open(&handle, NULL, &opened) != TARN_OK)
            continue;
        CHILD_CHECK(wrong_bytes(opened, 1) == 0);
        tarn_pointer_release(opened);
    }
    check_nothing_open();
}

static void free_what_others_lease(enum source source)
{
    tarn_ipc_handle handle;

    own.source = source;
    socket_directory_begin();
    struct process owner = process_start(own_in_threads);
    struct process importer = process_start(import_what_comes);
    while (receive_message(owner.line, &handle, sizeof handle))
        must_send(importer.line, &handle, sizeof handle);
    process_end(&importer);
    process_end(&owner);
    socket_directory_end();
}

TEST(threads_of_an_owner_free_what_others_lease)
{
    free_what_others_lease(POOL_OVER_EXPORTABLE);
    free_what_others_lease(FROM_ASYNC);
    free_what_others_lease(POOL_OVER_ASYNC);
}
