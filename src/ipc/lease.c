/* lease.c -- leases that this process has on blocks of others: an open connection each.
 *
 * A block that is opened twice has one lease. The second opening checks the connection.
 * If the owner has gone, the opening is rejected, and open memory stays as it is.
 */
#include "ipc/lease.h"
#include "base/mutex_assert.h"
#include "base/hash.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024 };

struct tarn__lease {
    struct tarn__lease *next; /* in its bucket */
    struct tarn__handle_encoding encoding;
    int device;
    int connection;
    size_t references;
    struct tarn__origin origin; /* of the mapping that each holder of the lease has,
                                 * too */
};

static struct {
    pthread_mutex_t lock;
    struct tarn__lease *buckets[BUCKETS]; /* by handle */
} leases = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct tarn__lease **bucket_of(const struct tarn__handle_encoding *encoding)
{
    return &leases.buckets[tarn__hash_bytes(encoding, sizeof *encoding) % BUCKETS];
}

/* Find a lease. `lock` held. */
static struct tarn__lease *find(const struct tarn__handle_encoding *encoding, int device)
{
    tarn__assert_mutex_held(&leases.lock);

    struct tarn__lease *lease = *bucket_of(encoding);

    while (lease && (lease->device != device ||
                     memcmp(&lease->encoding, encoding, sizeof *encoding) != 0))
        lease = lease->next;
    return lease;
}

/* Retain the mapping of a lease. No mapping: the lease's last holder is about to release
 * it, too. `lock` held. */
static struct tarn__mapping *retain(struct tarn__lease *lease)
{
    tarn__assert_mutex_held(&leases.lock);

    struct tarn__mapping *mapping = tarn__mapping_find(&lease->origin, lease->device);

    if (mapping)
        lease->references++;
    return mapping;
}

tarn_status tarn__lease_find(const struct tarn__handle_encoding *encoding, int device,
                             struct tarn__mapping **mapping_out,
                             struct tarn__lease **lease_out)
{
    bool is_gone = false;

    pthread_mutex_lock(&leases.lock);
    struct tarn__lease *lease = find(encoding, device);
    if (lease)
        is_gone = tarn__client_owner_is_gone(lease->connection);
    if (lease && !is_gone && (*mapping_out = retain(lease)))
        *lease_out = lease;
    pthread_mutex_unlock(&leases.lock);
    if (is_gone)
        return tarn_error_set(TARN_NOT_FOUND,
                              "ipc: process %d, the owner of the memory, has ended; "
                              "memory opened before stays valid",
                              encoding->process);
    return TARN_OK;
}

tarn_status tarn__lease_make(const struct tarn__handle_encoding *encoding, int device,
                             int connection, const struct tarn__origin *origin,
                             struct tarn__lease **out)
{
    struct tarn__lease *lease = malloc(sizeof *lease), **bucket = bucket_of(encoding);

    if (!lease) {
        tarn__descriptor_close(connection);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "ipc: no host memory for a lease");
    }
    *lease = (struct tarn__lease){.encoding = *encoding,
                                  .device = device,
                                  .connection = connection,
                                  .references = 1,
                                  .origin = *origin};
    pthread_mutex_lock(&leases.lock);
    lease->next = *bucket;
    *bucket = lease;
    pthread_mutex_unlock(&leases.lock);
    *out = lease;
    return TARN_OK;
}

void tarn__lease_release(struct tarn__lease *lease)
{
    if (!lease)
        return;
    pthread_mutex_lock(&leases.lock);
    bool is_last = --lease->references == 0;
    if (is_last) {
        struct tarn__lease **link = bucket_of(&lease->encoding);
        while (*link != lease)
            link = &(*link)->next;
        *link = lease->next;
    }
    pthread_mutex_unlock(&leases.lock);
    if (!is_last)
        return;
    tarn__descriptor_close(lease->connection);
    free(lease);
}
