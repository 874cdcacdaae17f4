/* fabric_lease.c -- leases of importers that send messages, in the owner.
 *
 * No connection tells when an importer has died, so each lease has an end. A message may
 * come twice, late, or never, so all requests can be repeated: a number of the importer
 * identifies the lease. Only the importer has its secret, so it alone can renew or end it.
 *
 * The table is under the owner's lock. The release of a pointer is not: a leased block
 * may return with it.
 */
#define _GNU_SOURCE
#include "ipc/fabric_lease.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mutex_assert.h"
#include "ipc/export_table.h"
#include "ipc/owner.h"
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { BUCKETS = 1024, LEASES_MAX = 65536 };

struct lease {
    struct lease *next; /* in its bucket */
    unsigned char importer[TARN__IDENTITY_BYTES];
    uint64_t number; /* of the importer */
    uint64_t secret;
    uint64_t generation; /* with `slot`: the entry in the export table */
    uint32_t slot;
    int process;
    uint64_t since_ns, end_ns;
    tarn_pointer *pointer; /* with a reference of the export table */
    tarn_device_ptr address;
    size_t bytes;
};

static struct {
    struct lease *buckets[BUCKETS];
    size_t count;
    uint64_t first_end_ns;               /* no lease ends earlier */
} leases = {.first_end_ns = UINT64_MAX}; /* under tarn__owner_lock() */

/* Return the link to the lease of a request, or to NULL. `tarn__owner_mutex` held. */
static struct lease **find(const struct tarn__fabric_message *request)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    unsigned char key[TARN__IDENTITY_BYTES + sizeof request->number];
    memcpy(key, request->importer, TARN__IDENTITY_BYTES);
    memcpy(key + TARN__IDENTITY_BYTES, &request->number, sizeof request->number);
    struct lease **link = &leases.buckets[tarn__hash_bytes(key, sizeof key) % BUCKETS];

    while (*link &&
           ((*link)->number != request->number ||
            memcmp((*link)->importer, request->importer, TARN__IDENTITY_BYTES) != 0))
        link = &(*link)->next;
    return link;
}

/* Set the end of a lease. `tarn__owner_mutex` held. */
static void set_end(struct lease *lease, unsigned milliseconds)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    lease->end_ns = tarn__clock_now_ns() + (uint64_t)milliseconds * 1000000;
    if (lease->end_ns < leases.first_end_ns)
        leases.first_end_ns = lease->end_ns;
}

/* --- beginning --- */

static tarn_status make(const struct tarn__fabric_message *request, struct lease **out)
{
    struct tarn__export_memory memory;
    struct lease *lease = calloc(1, sizeof *lease);

    if (!lease || getrandom(&lease->secret, sizeof lease->secret, 0) !=
                      (ssize_t)sizeof lease->secret) {
        free(lease);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "fabric: no host memory for a lease");
    }
    tarn_status status = tarn__export_table_begin_lease(
        request->slot, request->generation, &memory, &lease->pointer);
    if (status != TARN_OK) {
        free(lease);
        return status;
    }
    lease->secret |= 1; /* not 0 */
    memcpy(lease->importer, request->importer, sizeof lease->importer);
    lease->number = request->number;
    lease->slot = request->slot;
    lease->generation = request->generation;
    lease->process = request->process;
    lease->since_ns = tarn__clock_now_ns();
    lease->address = tarn_pointer_address(lease->pointer);
    lease->bytes = tarn_pointer_bytes(lease->pointer);
    *out = lease;
    return TARN_OK;
}

static void drop(struct lease *lease)
{
    if (!lease)
        return;
    tarn__export_table_end_lease(lease->pointer);
    free(lease);
}

/* Enter a new lease, unless the importer has it already. False: there are too many, or
 * the number is that of a lease on another block. `made` is NULL afterwards if it was
 * entered. `tarn__owner_mutex` held. */
static bool enter(struct lease **made, const struct tarn__fabric_message *request,
                  struct tarn__fabric_message *reply)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    struct lease **link = find(request);

    if (!*link) {
        if (leases.count == LEASES_MAX)
            return false;
        *link = *made;
        *made = NULL;
        leases.count++;
    } else if ((*link)->slot != request->slot ||
               (*link)->generation != request->generation) {
        return false;
    }
    set_end(*link, request->milliseconds);
    reply->secret = (*link)->secret;
    return true;
}

tarn_status tarn__fabric_lease_begin(const struct tarn__fabric_message *request,
                                     struct tarn__fabric_message *reply)
{
    struct lease *made = NULL;
    tarn_status status = make(request, &made);

    if (status != TARN_OK)
        return status;
    tarn__owner_lock();
    bool is_in = enter(&made, request, reply);
    size_t count = leases.count;
    tarn__owner_unlock();
    drop(made);
    return is_in ? TARN_OK
                 : tarn_error_set(TARN_LIMIT_REACHED,
                                  "fabric: no further lease, there are %zu", count);
}

/* --- renewing and ending --- */

tarn_status tarn__fabric_lease_renew(const struct tarn__fabric_message *request)
{
    tarn__owner_lock();
    struct lease *lease = *find(request);
    if (lease && lease->secret != request->secret)
        lease = NULL;
    if (lease)
        set_end(lease, request->milliseconds);
    tarn__owner_unlock();
    return lease ? TARN_OK
                 : tarn_error_set(TARN_NOT_FOUND,
                                  "fabric: the lease has expired or has ended");
}

/* Take a lease out of the table. `tarn__owner_mutex` held. */
static struct lease *take(struct lease **link)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    struct lease *lease = *link;

    *link = lease->next;
    leases.count--;
    return lease;
}

void tarn__fabric_lease_end(const struct tarn__fabric_message *request)
{
    struct lease *ended = NULL;

    tarn__owner_lock();
    struct lease **link = find(request);
    if (*link && (*link)->secret == request->secret)
        ended = take(link);
    tarn__owner_unlock();
    drop(ended);
}

/* Take out all leases whose time is over, as a list, and note when the next one ends.
 * `tarn__owner_mutex` held. */
static struct lease *take_expired(uint64_t now)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    struct lease *expired = NULL;

    leases.first_end_ns = UINT64_MAX;
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct lease **link = &leases.buckets[i]; *link;) {
            if ((*link)->end_ns > now) {
                if ((*link)->end_ns < leases.first_end_ns)
                    leases.first_end_ns = (*link)->end_ns;
                link = &(*link)->next;
                continue;
            }
            struct lease *lease = take(link);
            lease->next = expired;
            expired = lease;
        }
    return expired;
}

void tarn__fabric_lease_sweep(void)
{
    uint64_t now = tarn__clock_now_ns();
    struct lease *expired = NULL;

    tarn__owner_lock();
    if (now >= leases.first_end_ns)
        expired = take_expired(now);
    tarn__owner_unlock();
    while (expired) {
        struct lease *lease = expired;
        expired = lease->next;
        drop(lease);
    }
}

/* --- reports --- */

size_t tarn__fabric_lease_list(tarn_ipc_lease *out, size_t capacity)
{
    tarn__assert_mutex_held(&tarn__owner_mutex.mutex);

    size_t count = 0;

    for (size_t i = 0; i < BUCKETS && count < capacity; i++)
        for (const struct lease *lease = leases.buckets[i]; lease && count < capacity;
             lease = lease->next)
            out[count++] = (tarn_ipc_lease){lease->process, lease->since_ns,
                                            lease->address, lease->bytes};
    return leases.count;
}
