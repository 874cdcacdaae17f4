/* pair.h -- an owner and an importer: the actions of the tests of handles.
 *
 * The owner is a child that allocates, exports and frees on command. So is the importer,
 * if the test kills it. All sockets are in one directory of the test, which has to be
 * empty in the end.
 */
#ifndef TEST_IPC_PAIR_H
#define TEST_IPC_PAIR_H

#include "child.h"
#include "processes.h"
#include "test.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/* --- the simulator, or a GPU --- */

/* For tests of behaviour that differs on a GPU, or that a GPU cannot be made to show. */
static inline void skip_on_gpu(void)
{
    if (!has_sim())
        skip();
}

/* In children. */
static inline unsigned long long live_bytes(void)
{
    return has_sim() ? sim_live_bytes() : 0;
}

/* Wait until all memory is returned. The server's thread may be busy with a last block,
 * which is neither served nor leased any more. A driver's pool frees in the order of a
 * stream. */
static inline void wait_until_all_is_freed(void)
{
    while (live_bytes() > 0) {
        CHILD_STATUS(TARN_OK, tarn_stream_synchronize(0, TARN_STREAM_LEGACY));
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

/* --- the socket directory --- */

static char socket_directory[64];

static inline void socket_directory_begin(void)
{
    snprintf(socket_directory, sizeof socket_directory, "/tmp/tarn-ipc-XXXXXX");
    CHECK(mkdtemp(socket_directory) != NULL);
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", socket_directory, 1));
}

/* No socket is left: otherwise rmdir() fails. */
static inline void socket_directory_end(void)
{
    CHECK_EQUAL(0, rmdir(socket_directory));
}

/* --- patterns --- */

static inline unsigned char letter(size_t i, unsigned seed)
{
    return (unsigned char)(i * 7 + (i >> 8) * 13 + seed);
}

static inline void write_pattern(const tarn_pointer *pointer, unsigned seed)
{
    size_t bytes = tarn_pointer_bytes(pointer);
    unsigned char *host = malloc(bytes);

    CHILD_CHECK(host != NULL);
    for (size_t i = 0; i < bytes; i++)
        host[i] = letter(i, seed);
    CHILD_STATUS(TARN_OK, tarn_memcpy_async(tarn_pointer_device(pointer),
                                            tarn_pointer_address(pointer),
                                            (uintptr_t)host, bytes, TARN_STREAM_NONE));
    free(host);
}

/* Count the bytes that differ from the pattern. */
static inline size_t wrong_bytes(const tarn_pointer *pointer, unsigned seed)
{
    size_t bytes = tarn_pointer_bytes(pointer), wrong = 0;
    unsigned char *host = calloc(1, bytes);

    CHILD_CHECK(host != NULL);
    CHILD_STATUS(TARN_OK, tarn_memcpy_async(tarn_pointer_device(pointer), (uintptr_t)host,
                                            tarn_pointer_address(pointer), bytes,
                                            TARN_STREAM_NONE));
    for (size_t i = 0; i < bytes; i++)
        wrong += host[i] != letter(i, seed);
    free(host);
    return wrong;
}

/* --- the owner --- */

enum source {
    FROM_CUDA,
    FROM_EXPORTABLE,
    FROM_ASYNC,
    POOL_OVER_CUDA,
    POOL_OVER_EXPORTABLE,
    POOL_OVER_ASYNC,
    SOURCES
};

enum verb {
    ALLOCATE, /* `bytes` into slot `place` */
    EXPORT,   /* a handle of `bytes` at `offset` there, of kind `kind` */
    WRITE,    /* pattern `seed` */
    VERIFY,   /* answers with the number of bytes that differ from pattern `seed` */
    FREE,
    COUNTS /* answers with tarn_ipc_counts */
};

struct order {
    enum verb verb;
    int place;
    size_t bytes, offset;
    tarn_ipc_kind kind;
    unsigned seed;
};

struct answer {
    tarn_status status;
    tarn_ipc_handle handle;
    size_t wrong;
    tarn_ipc_counts counts;
    size_t leases; /* listed */
    tarn_ipc_lease lease;
};

enum { PLACES = 64 };

static inline tarn_status make_upstream(enum source source, tarn_resource **out)
{
    tarn_async_options options = {.size = sizeof options, .exportable = true};

    if (source == FROM_CUDA || source == POOL_OVER_CUDA)
        return tarn_cuda_create(0, out);
    if (source == FROM_ASYNC || source == POOL_OVER_ASYNC)
        return tarn_async_create(0, &options, out);
    return tarn_exportable_create(0, NULL, out);
}

static inline tarn_resource *make_source(enum source source)
{
    tarn_resource *upstream, *pool;

    CHILD_STATUS(TARN_OK, make_upstream(source, &upstream));
    if (source < POOL_OVER_CUDA)
        return upstream;
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, upstream, NULL, &pool));
    CHILD_STATUS(TARN_OK, tarn_resource_release(upstream));
    return pool;
}

static inline tarn_status export_view(tarn_pointer *pointer, const struct order *order,
                                      tarn_ipc_handle *out)
{
    tarn_pointer *view;
    tarn_status status = tarn_pointer_view(pointer, order->offset, order->bytes, &view);

    if (status != TARN_OK)
        return status;
    status = tarn_ipc_export(view, order->kind, out);
    tarn_pointer_release(view);
    return status;
}

static inline void obey(tarn_resource *resource, tarn_pointer *places[PLACES],
                        const struct order *order, struct answer *answer)
{
    tarn_pointer **place = &places[order->place];

    if (order->verb == ALLOCATE)
        answer->status =
            tarn_pointer_allocate(resource, order->bytes, TARN_STREAM_NONE, place);
    else if (order->verb == EXPORT)
        answer->status = export_view(*place, order, &answer->handle);
    else if (order->verb == WRITE)
        write_pattern(*place, order->seed);
    else if (order->verb == VERIFY)
        answer->wrong = wrong_bytes(*place, order->seed);
    else if (order->verb == FREE) {
        tarn_pointer_release(*place);
        *place = NULL;
    } else {
        tarn_ipc_get_counts(&answer->counts);
        answer->status = tarn_ipc_leases(&answer->lease, 1, &answer->leases);
    }
}

/* Run until the connection ends; then free everything, and check that nothing is left. */
static inline void own_from(int line, enum source source)
{
    tarn_resource *resource = make_source(source);
    tarn_pointer *places[PLACES] = {NULL};
    struct order order;
    tarn_ipc_counts counts;

    while (receive_message(line, &order, sizeof order)) {
        struct answer answer = {.status = TARN_OK};
        obey(resource, places, &order, &answer);
        if (!send_message(line, &answer, sizeof answer))
            break;
    }
    for (int i = 0; i < PLACES; i++)
        tarn_pointer_release(places[i]);
    tarn_ipc_get_counts(&counts);
    while (counts.leases > 0 || counts.served > 0) { /* others may still be closing */
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        tarn_ipc_get_counts(&counts);
    }
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.segments == 0);
    wait_until_all_is_freed();
}

static inline void own_cuda(int line)
{
    own_from(line, FROM_CUDA);
}

static inline void own_exportable(int line)
{
    own_from(line, FROM_EXPORTABLE);
}

static inline void own_pool_over_cuda(int line)
{
    own_from(line, POOL_OVER_CUDA);
}

static inline void own_pool_over_exportable(int line)
{
    own_from(line, POOL_OVER_EXPORTABLE);
}

static inline void own_async(int line)
{
    own_from(line, FROM_ASYNC);
}

static inline void own_pool_over_async(int line)
{
    own_from(line, POOL_OVER_ASYNC);
}

static void (*const owners[SOURCES])(int) = {
    own_cuda,           own_exportable,           own_async,
    own_pool_over_cuda, own_pool_over_exportable, own_pool_over_async};

/* --- commands to the owner, for children and for the test --- */

static inline struct answer tell(int line, struct order order)
{
    struct answer answer;

    must_send(line, &order, sizeof order);
    must_receive(line, &answer, sizeof answer);
    return answer;
}

static inline void allocate(int line, int place, size_t bytes, unsigned seed)
{
    struct answer answer =
        tell(line, (struct order){.verb = ALLOCATE, .place = place, .bytes = bytes});

    CHILD_CHECK(answer.status == TARN_OK);
    tell(line, (struct order){.verb = WRITE, .place = place, .seed = seed});
}

static inline tarn_ipc_handle export_block(int line, int place, size_t offset,
                                           size_t bytes, tarn_ipc_kind kind)
{
    struct answer answer = tell(line, (struct order){.verb = EXPORT,
                                                     .place = place,
                                                     .offset = offset,
                                                     .bytes = bytes,
                                                     .kind = kind});

    CHILD_CHECK(answer.status == TARN_OK);
    return answer.handle;
}

static inline size_t verify(int line, int place, unsigned seed)
{
    return tell(line, (struct order){.verb = VERIFY, .place = place, .seed = seed}).wrong;
}

static inline void free_block(int line, int place)
{
    tell(line, (struct order){.verb = FREE, .place = place});
}

static inline tarn_ipc_counts counts_of(int line)
{
    return tell(line, (struct order){.verb = COUNTS}).counts;
}

/* Export a whole block as both kinds of handles. */
static inline void export_in_both_kinds(int line, int place, size_t bytes,
                                        tarn_ipc_handle handles[2])
{
    handles[0] = export_block(line, place, 0, bytes, TARN_IPC_PLAIN);
    handles[1] = export_block(line, place, 0, bytes, TARN_IPC_SERVED);
}

/* Wait until the owner has noted the end of all importers. */
static inline void wait_for_no_connections(int line)
{
    while (counts_of(line).connections > 0)
        nanosleep(&(struct timespec){0, 500000}, NULL);
}

/* After an importer was killed the owner has what it had in the end: so many descriptors, and
 * the pattern 1 in its first block. It may accept a connection whose importer has ended. */
static inline void check_owner_is_as_before(int line, size_t descriptors)
{
    tarn_ipc_counts counts = counts_of(line);

    for (int i = 0;
         i < 20000 && (counts.connections > 0 || counts.descriptors != descriptors);
         i++) {
        nanosleep(&(struct timespec){0, 500000}, NULL);
        counts = counts_of(line);
    }
    CHECK_EQUAL(0, counts.connections);
    CHECK_EQUAL(descriptors, counts.descriptors);
    CHECK_EQUAL(0, verify(line, 0, 1));
}

/* An owner that exports removes the files of owners that were killed. */
static inline void remove_stale_files(size_t bytes)
{
    struct process owner = process_start(own_exportable);

    allocate(owner.line, 0, bytes, 1);
    export_block(owner.line, 0, 0, bytes, TARN_IPC_PLAIN);
    process_end(&owner);
}

/* --- the importer --- */

/* The end of an importer: no memory of others is open, and no descriptor is left. */
static inline void check_nothing_open(void)
{
    tarn_ipc_counts counts;

    tarn_ipc_get_counts(&counts);
    CHILD_CHECK(counts.mapped == 0);
    CHILD_CHECK(counts.descriptors == 0);
    CHILD_CHECK(tarn_pointer_deferred_count() == 0);
    CHILD_CHECK(live_bytes() == 0);
}

/* --- both, with a connection through the test --- */

static inline void relay(struct process *owner, struct process *importer)
{
    struct order order;

    while (receive_message(importer->line, &order, sizeof order)) {
        struct answer answer = tell(owner->line, order);
        must_send(importer->line, &answer, sizeof answer);
    }
}

static inline void with_owner(enum source source, void (*import)(int line))
{
    socket_directory_begin();
    struct process owner = process_start(owners[source]);
    struct process importer = process_start(import);
    relay(&owner, &importer);
    process_end(&importer);
    process_end(&owner);
    socket_directory_end();
}

static inline void with_each_owner(void (*import)(int line))
{
    for (int source = 0; source < SOURCES; source++)
        with_owner((enum source)source, import);
}

#endif
