/* connections.c -- the server's connections: their peers, requests and leases.
 *
 * A peer runs as our own user and may still be broken or malicious. The server waits for
 * no peer: a connection has four seconds to send its request, and its answer is sent or
 * dropped. One process may have a quarter of the places, so that it cannot take those of
 * others.
 *
 * A connection that has requested a served block is a lease: it stays open. Its end,
 * however it came, is the end of the lease. Any further message on it ends it, too.
 */
#define _GNU_SOURCE
#include "ipc/connections.h"
#include "base/mutex_assert.h"
#include "base/clock.h"
#include "driver/driver.h"
#include "ipc/descriptor.h"
#include "ipc/export_table.h"
#include "ipc/fabric_lease.h"
#include "ipc/owner.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SILENT_NS UINT64_C(4000000000) /* an importer sends its request at once */
enum { ACCEPTED_AT_ONCE = 64 };

struct connection {
    int file;
    int process;          /* the peer's process id, as the system reports it */
    uint64_t since_ns;    /* when it connected; of a lease: when that began */
    tarn_pointer *leased; /* with a reference; NULL: no request yet */
    tarn_device_ptr
        address; /* of `leased`, for reports: that pointer may end before the lease */
    size_t bytes;
};

static struct {
    unsigned char server[TARN__SERVER_BYTES]; /* the name that handles carry */
    struct connection *all;                   /* capacity: `most` */
    size_t count, most;
    atomic_uint_least64_t requests, rejected;
} connections;

bool tarn__connections_make(size_t most, const unsigned char server[TARN__SERVER_BYTES])
{
    struct connection *all = calloc(most, sizeof *all);

    if (!all)
        return false;
    tarn__owner_lock();
    free(connections.all);
    memcpy(connections.server, server, sizeof connections.server);
    connections.all = all;
    connections.most = most;
    connections.count = 0;
    tarn__owner_unlock();
    return true;
}

void tarn__connections_forget(void)
{
    connections.count = 0;
}

void tarn__connections_counts(size_t *connections_out, uint64_t *requests_out,
                              uint64_t *rejected_out)
{
    tarn__owner_lock();
    *connections_out = connections.count;
    tarn__owner_unlock();
    *requests_out = atomic_load(&connections.requests);
    *rejected_out = atomic_load(&connections.rejected);
}

/* --- leases for reports --- */

/* Return the number of leases, and store the first `capacity` of them.
 * `tarn__owner_mutex` held. */
static size_t list_leases(tarn_ipc_lease *out, size_t capacity)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    size_t count = 0;

    for (size_t i = 0; i < connections.count; i++) {
        const struct connection *one = &connections.all[i];
        if (!one->leased)
            continue;
        if (count < capacity)
            out[count] =
                (tarn_ipc_lease){one->process, one->since_ns, one->address, one->bytes};
        count++;
    }
    return count;
}

tarn_status tarn_ipc_leases(tarn_ipc_lease *out, size_t capacity, size_t *count_out)
{
    if (capacity > 0 && !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "ipc: leases: capacity is %zu, but out is NULL", capacity);
    if (!tarn__driver_gone()) /* no other call of a forked child releases memory */
        tarn__fabric_lease_sweep();
    tarn__owner_lock();
    size_t count = list_leases(out, capacity);
    size_t listed = count < capacity ? count : capacity;
    if (!tarn__driver_gone()) /* they are its parent's */
        count += tarn__fabric_lease_list(out ? out + listed : NULL, capacity - listed);
    tarn__owner_unlock();
    if (count_out)
        *count_out = count;
    return TARN_OK;
}

/* --- coming and going --- */

static size_t count_of(int process)
{
    size_t count = 0;

    for (size_t i = 0; i < connections.count; i++)
        count += connections.all[i].process == process;
    return count;
}

/* Add a connection of that process. False: the process has too many, or all have. */
static bool take_in(int file, int process)
{
    if (connections.count == connections.most ||
        count_of(process) >= (connections.most + 3) / 4)
        return false;
    tarn__owner_lock();
    connections.all[connections.count++] =
        (struct connection){file, process, tarn__clock_now_ns(), NULL, 0, 0};
    tarn__owner_unlock();
    return true;
}

bool tarn__connections_accept(int listener)
{
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int process = 0;

        tarn__descriptor_lock();
        int file = tarn__descriptor_record(
            accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
        int why = errno;
        tarn__descriptor_unlock();
        if (file < 0)
            return why != EMFILE && why != ENFILE && why != ENOMEM && why != ENOBUFS;
        if (tarn__wire_peer(file, &process) && take_in(file, process))
            continue;
        atomic_fetch_add(&connections.rejected, 1);
        tarn__descriptor_close(file);
    }
    return true; /* the remaining free ones follow those in use */
}

/* A lease is reported until its block is returned, if it is returned now. The last
 * connection takes the place of the dropped one. */
static void drop(size_t index)
{
    struct connection gone = connections.all[index];

    tarn__descriptor_close(gone.file);
    if (gone.leased)
        tarn__export_table_end_lease(gone.leased);
    tarn__owner_lock();
    connections.all[index] = connections.all[--connections.count];
    tarn__owner_unlock();
}

/* --- answering --- */

static void reply_failure(struct tarn__wire_reply *reply, tarn_status status)
{
    reply->status = (uint32_t)status;
    snprintf(reply->message, sizeof reply->message, "%.135s", tarn_error_last()->message);
    atomic_fetch_add(&connections.rejected, 1);
}

static tarn_status check_request(const struct tarn__wire_request *request,
                                 struct tarn__handle_encoding *out)
{
    if (request->magic != TARN__WIRE_MAGIC)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "ipc: the request is malformed");
    tarn_status status =
        tarn__handle_encoding_decode((const unsigned char *)&request->encoding, out);
    if (status == TARN_OK &&
        memcmp(out->server, connections.server, sizeof connections.server) != 0)
        status =
            tarn_error_set(TARN_NOT_FOUND, "ipc: the handle belongs to another server");
    return status;
}

static tarn_status answer_segment(const struct tarn__segment_name *segment,
                                  struct tarn__wire_reply *reply, int *file_out)
{
    size_t bytes = 0;
    tarn_status status =
        tarn__segment_open(segment->slot, segment->generation, &bytes, file_out);

    reply->slot = segment->slot;
    reply->generation = segment->generation;
    reply->bytes = bytes;
    return status;
}

static tarn_status answer_driver_pool(const struct tarn__driver_pool_block *driver_pool,
                                      struct tarn__wire_reply *reply, int *file_out)
{
    struct tarn__driver_pool_offer offer = {.pool = 0};
    tarn_status status = tarn__driver_pool_open(driver_pool, &offer, file_out);

    reply->slot = (uint32_t)driver_pool->device;
    reply->generation = driver_pool->number;
    reply->base = driver_pool->base;
    reply->pool = offer.pool;
    memcpy(reply->pointer, offer.pointer, sizeof reply->pointer);
    return status;
}

/* Put the kind of memory into the reply, and its descriptor where it has one. */
static tarn_status answer_memory(const struct tarn__export_memory *memory,
                                 struct tarn__wire_reply *reply, int *file_out)
{
    reply->backing = memory->backing;
    if (memory->backing == TARN__BACKING_SEGMENT)
        return answer_segment(&memory->segment, reply, file_out);
    if (memory->backing == TARN__BACKING_DRIVER_POOL)
        return answer_driver_pool(&memory->driver_pool, reply, file_out);
    memcpy(reply->pointer, memory->cuda_handle, sizeof reply->pointer);
    return TARN_OK;
}

/* The memory that a plain handle names. */
static struct tarn__export_memory memory_of(const struct tarn__handle_encoding *encoding)
{
    if (tarn__wire_backing_of(encoding) == TARN__BACKING_SEGMENT)
        return (struct tarn__export_memory){
            .backing = TARN__BACKING_SEGMENT,
            .segment = {.slot = encoding->slot, .generation = encoding->generation}};
    return (struct tarn__export_memory){.backing = TARN__BACKING_DRIVER_POOL,
                                        .driver_pool = {.device = (int)encoding->slot,
                                                        .number = encoding->generation,
                                                        .base = encoding->base}};
}

static tarn_status answer(const struct tarn__wire_request *request,
                          struct tarn__wire_reply *reply, int *file_out,
                          tarn_pointer **leased_out)
{
    struct tarn__export_memory memory;
    struct tarn__handle_encoding encoding;
    tarn_status status = check_request(request, &encoding);

    if (status == TARN_OK && encoding.kind == TARN_IPC_SERVED)
        status = tarn__export_table_begin_lease(encoding.slot, encoding.generation,
                                                &memory, leased_out);
    else if (status == TARN_OK)
        memory = memory_of(&encoding);
    return status == TARN_OK ? answer_memory(&memory, reply, file_out) : status;
}

/* Record the lease before the peer knows of it; withdraw it if the answer could not be
 * sent. */
static void hold(struct connection *connection, tarn_pointer *leased)
{
    tarn__owner_lock();
    connection->leased = leased;
    connection->address = leased ? tarn_pointer_address(leased) : 0;
    connection->bytes = leased ? tarn_pointer_bytes(leased) : 0;
    connection->since_ns = tarn__clock_now_ns();
    tarn__owner_unlock();
}

/* Answer a request. True: the connection is a lease now. */
static bool serve_request(struct connection *connection,
                          const struct tarn__wire_request *request)
{
    struct tarn__wire_reply reply = {.magic = TARN__WIRE_MAGIC};
    tarn_pointer *leased = NULL;
    int file = -1;
    tarn_status status = tarn__driver_gone() ? tarn_error_set(TARN_DRIVER_FAILURE,
                                                              "ipc: the owner is exiting")
                                             : answer(request, &reply, &file, &leased);

    if (status != TARN_OK)
        reply_failure(&reply, status);
    atomic_fetch_add(&connections.requests, 1);
    if (status == TARN_OK)
        hold(connection, leased);
    else if (leased)
        tarn__export_table_end_lease(leased);
    bool sent = tarn__wire_send(connection->file, &reply, sizeof reply, file);
    tarn__descriptor_close(file);
    return sent && connection->leased;
}

/* True: the connection stays. */
static bool serve(struct connection *connection)
{
    struct tarn__wire_request request;
    enum tarn__wire_result came =
        tarn__wire_receive(connection->file, &request, sizeof request, NULL);

    if (came == TARN__WIRE_NOTHING)
        return true;
    if (came == TARN__WIRE_WHOLE && !connection->leased)
        return serve_request(connection, &request);
    if (came != TARN__WIRE_END)
        atomic_fetch_add(&connections.rejected, 1);
    return false;
}

/* --- the thread's round --- */

size_t tarn__connections_poll(struct pollfd *polls)
{
    for (size_t i = 0; i < connections.count; i++)
        polls[i] = (struct pollfd){.fd = connections.all[i].file, .events = POLLIN};
    return connections.count;
}

static bool is_overdue(const struct connection *connection, uint64_t now)
{
    return !connection->leased && now - connection->since_ns >= SILENT_NS;
}

/* From the last to the first: the place of a dropped connection goes to one served
 * already. */
void tarn__connections_serve(const struct pollfd *polls, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        struct connection *one = &connections.all[i];
        bool stays = polls[i].revents == 0 || serve(one);
        if (stays && is_overdue(one, tarn__clock_now_ns())) {
            atomic_fetch_add(&connections.rejected, 1);
            stays = false;
        }
        if (!stays)
            drop(i);
    }
}

int tarn__connections_due(void)
{
    uint64_t now = tarn__clock_now_ns(), first = UINT64_MAX;

    for (size_t i = 0; i < connections.count; i++) {
        const struct connection *one = &connections.all[i];
        if (!one->leased && one->since_ns + SILENT_NS < first)
            first = one->since_ns + SILENT_NS;
    }
    if (first == UINT64_MAX)
        return -1;
    return first <= now ? 0 : (int)((first - now) / 1000000 + 1);
}
