/* host.c -- ordinary host memory as a resource, without any driver.
 *
 * It serves tests of adaptors, and programs that want one interface to all their memory.
 * There is one such resource in a process: host memory belongs to no device. It keeps
 * working in a forked child, as malloc does. The forking thread therefore holds the
 * table's locks over the fork: a lock that another thread held at that moment would be
 * held in the child forever.
 */
#include "resource/internal.h"
#include "resource/table.h"
#include "base/size.h"
#include <pthread.h>
#include <stdlib.h>

/* The blocks of the one resource, and of its successor. The table is empty whenever there
 * is no resource. */
static struct tarn__table blocks;

static void lock_blocks(void)
{
    tarn__table_lock(&blocks);
}

static void unlock_blocks(void)
{
    tarn__table_unlock(&blocks);
}

/* Runs when the library is loaded. */
__attribute__((constructor)) static void init_blocks(void)
{
    tarn__table_init(&blocks);
    pthread_atfork(lock_blocks, unlock_blocks, unlock_blocks);
}

static tarn_status host_allocate(void *self, size_t bytes, size_t alignment,
                                 tarn_stream stream, tarn_device_ptr *out)
{
    struct tarn__table *table = self;
    size_t rounded = 0;
    void *memory = NULL;

    (void)stream;
    struct tarn__record *record = tarn__table_record_new(bytes, alignment);
    /* aligned_alloc() requires whole multiples of the alignment. */
    if (record && tarn__size_round_up(bytes, alignment, &rounded))
        memory = aligned_alloc(alignment, rounded);
    if (!memory) {
        tarn__table_record_drop(record);
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "host: no memory for %zu bytes aligned to %zu", bytes,
                              alignment);
    }
    record->block = record->base = (uintptr_t)memory;
    tarn__table_put(table, record);
    *out = (uintptr_t)memory;
    return TARN_OK;
}

static tarn_status host_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                   size_t alignment, tarn_stream stream)
{
    struct tarn__record *record;
    tarn_status status =
        tarn__table_take(self, "host", block, bytes, alignment, 0, &record);

    (void)stream;
    if (status != TARN_OK)
        return status;
    free((void *)(uintptr_t)record->base);
    tarn__table_record_drop(record);
    return TARN_OK;
}

static void host_destroy(void *self)
{
    (void)self; /* no block is live, and the table stays for the next resource */
}

static tarn_status host_requested_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    return tarn__table_bytes(self, "host", block, out);
}

static size_t host_live_blocks(const void *self)
{
    return tarn__table_count(self);
}

static const tarn_resource_ops host_ops = {
    .size = sizeof host_ops,
    .name = "host",
    .allocate = host_allocate,
    .deallocate = host_deallocate,
    .destroy = host_destroy,
    .requested_bytes = host_requested_bytes,
    .live_blocks = host_live_blocks,
};

static tarn_status host_make(int device, tarn_resource **out)
{
    return tarn_resource_create(&host_ops, &blocks, device, out);
}

tarn_status tarn_host_create(tarn_resource **out)
{
    static tarn_resource *place;

    return tarn__resource_share(&place, TARN_DEVICE_NONE, host_make, out);
}
