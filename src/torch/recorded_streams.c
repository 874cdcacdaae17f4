/* recorded_streams.c -- the streams that use a block, as Tensor.record_stream() says.
 * Most blocks have no record. */
#include "torch/recorded_streams.h"
#include "base/map.h"
#include "base/mutex.h"
#include <stdatomic.h>
#include <stdlib.h>

TARN__STATIC_MUTEX(lock);
static struct tarn__map records; /* block -> struct tarn__torch_record */
static atomic_size_t record_count;

__attribute__((constructor)) static void make_records(void)
{
    tarn__map_init(&records, sizeof(struct tarn__torch_record));
}

/* Return the record of a block, a new one if it has none; NULL: no host memory. */
static struct tarn__torch_record *record_of(tarn_device_ptr block)
{
    struct tarn__torch_record *found = tarn__map_get(&records, block);

    if (found || !tarn__map_put(&records, block, &(struct tarn__torch_record){0}))
        return found;
    atomic_store(&record_count, records.count);
    return tarn__map_get(&records, block);
}

static bool add_stream(struct tarn__torch_record *record, tarn_stream stream)
{
    for (size_t i = 0; i < record->count; i++)
        if (record->streams[i] == stream)
            return true;
    if (record->count == record->capacity) {
        size_t capacity = record->capacity + 4;
        tarn_stream *streams =
            realloc(record->streams, capacity * sizeof *record->streams);
        if (!streams)
            return false;
        record->streams = streams;
        record->capacity = capacity;
    }
    record->streams[record->count++] = stream;
    return true;
}

static tarn_status no_host_memory(tarn_device_ptr block)
{
    return tarn_error_set(TARN_OUT_OF_MEMORY,
                          "torch: no host memory to record a stream of 0x%llx", block);
}

tarn_status tarn__recorded_streams_add(tarn_device_ptr block, tarn_stream stream)
{
    tarn__mutex_lock(&lock);
    struct tarn__torch_record *record = record_of(block);
    bool is_added = record && add_stream(record, stream);
    tarn__mutex_unlock(&lock);
    return is_added ? TARN_OK : no_host_memory(block);
}

tarn_status tarn__recorded_streams_captured(tarn_device_ptr block)
{
    tarn__mutex_lock(&lock);
    struct tarn__torch_record *record = record_of(block);
    if (record)
        record->is_captured = true;
    tarn__mutex_unlock(&lock);
    return record ? TARN_OK : no_host_memory(block);
}

bool tarn__recorded_streams_take(tarn_device_ptr block, struct tarn__torch_record *out)
{
    if (atomic_load(&record_count) == 0)
        return false;
    tarn__mutex_lock(&lock);
    bool is_there = tarn__map_take(&records, block, out);
    atomic_store(&record_count, records.count);
    if (records.count == 0) {
        tarn__map_free(&records);
        tarn__map_init(&records, sizeof(struct tarn__torch_record));
    }
    tarn__mutex_unlock(&lock);
    return is_there;
}

void tarn__recorded_streams_end(struct tarn__torch_record *record)
{
    free(record->streams);
}
