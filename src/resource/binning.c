/* binning.c -- a resource that sends each request to the resource for its size.
 *
 * Small blocks between large ones prevent large free ranges from coalescing; bins of
 * their own avoid that. A bin is any resource, most often a slab.
 *
 * A table records which resource each live block is from, so bins can be added while
 * blocks are live. The list of bins never changes in place but is replaced. Old lists are
 * kept, because another thread may be reading one.
 */
#include "resource/internal.h"
#include "resource/block_generation.h"
#include "resource/table.h"
#include "base/error.h"
#include "base/mutex.h"
#include "base/options.h"
#include "driver/driver.h"
#include <stdlib.h>
#include <string.h>

enum { BINS_MAX = 64, LOG2_MAX = 62 };

struct bin {
    size_t bytes;            /* the largest request for this bin */
    tarn_resource *resource; /* retained once, by the first list that has it */
};

struct bins {
    struct bins *before; /* the previous list */
    size_t count;
    struct bin all[BINS_MAX]; /* sorted by bytes */
};

struct binning {
    tarn_resource *upstream;     /* retained; for requests that fit into no bin */
    _Atomic(struct bins *) bins; /* never NULL */
    struct tarn__table blocks;   /* live blocks; `base` is the resource of each */
    struct tarn__mutex lock;     /* one thread adds a bin at a time; lock_for_fork() */
};

extern const tarn_resource_ops tarn__binning_ops;

/* Return the resource for a request. */
static tarn_resource *route(const struct binning *binning, size_t bytes)
{
    const struct bins *bins = atomic_load_explicit(&binning->bins, memory_order_acquire);
    size_t low = 0, high = bins->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bins->all[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low < bins->count ? bins->all[low].resource : binning->upstream;
}

/* --- operations --- */

/* Memory of a device ends with the driver. Then no call may touch the table: in a forked
 * child another thread may have held its locks. */
static bool is_gone(const struct binning *binning)
{
    return tarn_resource_device(binning->upstream) != TARN_DEVICE_NONE &&
           tarn__driver_gone();
}

/* Memory of no device works in a forked child, too. There the locks of the table are free,
 * because each thread takes them under `lock`, which the forking thread holds. */
static void lock_for_fork(struct binning *binning)
{
    if (tarn_resource_device(binning->upstream) == TARN_DEVICE_NONE)
        tarn__mutex_lock(&binning->lock);
}

static void unlock_for_fork(struct binning *binning)
{
    if (tarn_resource_device(binning->upstream) == TARN_DEVICE_NONE)
        tarn__mutex_unlock(&binning->lock);
}

static void put_record(struct binning *binning, struct tarn__record *record)
{
    lock_for_fork(binning);
    tarn__table_put(&binning->blocks, record);
    unlock_for_fork(binning);
}

static tarn_status take_record(struct binning *binning, tarn_device_ptr block,
                               size_t bytes, size_t alignment, struct tarn__record **out)
{
    lock_for_fork(binning);
    tarn_status status = tarn__table_take(&binning->blocks, "binning", block, bytes,
                                          alignment, tarn__block_generation(), out);
    unlock_for_fork(binning);
    return status;
}

/* Return the generation of the context of the memory; 0 where it has none. */
static uint64_t generation_of(const struct binning *binning)
{
    int device = tarn_resource_device(binning->upstream);

    return device == TARN_DEVICE_NONE ? 0 : tarn__context_generation(device);
}

static tarn_status binning_allocate(void *self, size_t bytes, size_t alignment,
                                    tarn_stream stream, tarn_device_ptr *out)
{
    struct binning *binning = self;
    struct tarn__record *record = tarn__table_record_new(bytes, alignment);
    tarn_resource *resource = route(binning, bytes);
    tarn_device_ptr block = 0;

    if (!record)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "binning: no host memory to record a block of %zu bytes",
                              bytes);
    tarn_status status =
        tarn_resource_allocate(resource, bytes, alignment, stream, &block);
    if (status != TARN_OK) {
        tarn__table_record_drop(record);
        return status;
    }
    record->block = block;
    record->base = (uintptr_t)resource;
    record->context_generation = generation_of(binning);
    put_record(binning, record);
    *out = block;
    return TARN_OK;
}

static size_t binning_live_blocks(const void *self)
{
    const struct binning *binning = self;

    return is_gone(binning) ? 0 : tarn__table_count(&binning->blocks);
}

/* The record is removed first: as soon as the bin has the block, another thread may get
 * it. */
static tarn_status binning_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                      size_t alignment, tarn_stream stream)
{
    struct binning *binning = self;
    struct tarn__record *record;

    if (is_gone(binning))
        return TARN_OK;
    tarn_status status = take_record(binning, block, bytes, alignment, &record);
    if (status != TARN_OK)
        return status;
    status = tarn_resource_deallocate((tarn_resource *)(uintptr_t)record->base, block,
                                      bytes, alignment, stream);
    if (status == TARN_OK)
        tarn__table_record_drop(record);
    else
        put_record(binning, record);
    return status;
}

static tarn_status binning_requested_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    struct binning *binning = self;

    if (is_gone(binning))
        return tarn__device_gone("binning", tarn_resource_device(binning->upstream));
    lock_for_fork(binning);
    tarn_status status = tarn__table_bytes(&binning->blocks, "binning", block, out);
    unlock_for_fork(binning);
    return status;
}

static tarn_status binning_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                       size_t *total_out)
{
    return tarn_resource_memory_info(((struct binning *)self)->upstream, stream, free_out,
                                     total_out);
}

/* Return true if it holds for the upstream and for every bin. */
static bool all_of(const struct binning *binning,
                   bool (*question)(const tarn_resource *resource))
{
    const struct bins *bins = atomic_load(&binning->bins);
    bool so = question(binning->upstream);

    for (size_t i = 0; so && i < bins->count; i++)
        so = question(bins->all[i].resource);
    return so;
}

static bool binning_supports_streams(const void *self)
{
    return all_of(self, tarn_resource_supports_streams);
}

static bool binning_deallocate_synchronizes(const void *self)
{
    return all_of(self, tarn_resource_deallocate_synchronizes);
}

static bool binning_supports_no_stream(const void *self)
{
    return all_of(self, tarn_resource_supports_no_stream);
}

/* Memory that the bins return may stay cached upstream, so the upstream comes last. The
 * kept bytes stay there, where any size can use them. */
static tarn_status binning_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    struct binning *binning = self;
    const struct bins *bins = atomic_load(&binning->bins);
    size_t sum = 0, released = 0;
    tarn_status status = TARN_OK;

    for (size_t i = 0; i < bins->count && status == TARN_OK && keep_bytes < SIZE_MAX;
         i++) {
        status = tarn_resource_trim(bins->all[i].resource, 0, &released);
        sum += released;
        released = 0;
    }
    if (status == TARN_OK)
        status = tarn_resource_trim(binning->upstream, keep_bytes, &released);
    *released_out = sum + released;
    return status;
}

static void binning_destroy(void *self)
{
    struct binning *binning = self;
    struct bins *bins = atomic_load(&binning->bins);

    for (size_t i = 0; i < bins->count; i++)
        tarn__resource_release_or_warn(bins->all[i].resource);
    while (bins) {
        struct bins *before = bins->before;
        free(bins);
        bins = before;
    }
    tarn__resource_release_or_warn(binning->upstream);
    tarn__table_free(&binning->blocks);
    tarn__mutex_destroy(&binning->lock);
    free(binning);
}

const tarn_resource_ops tarn__binning_ops = {
    .size = sizeof tarn__binning_ops,
    .name = "binning",
    .allocate = binning_allocate,
    .deallocate = binning_deallocate,
    .destroy = binning_destroy,
    .memory_info = binning_memory_info,
    .supports_streams = binning_supports_streams,
    .deallocate_synchronizes = binning_deallocate_synchronizes,
    .trim = binning_trim,
    .requested_bytes = binning_requested_bytes,
    .live_blocks = binning_live_blocks,
    .supports_no_stream = binning_supports_no_stream,
};

/* --- bins --- */

static bool has_bin(const struct bins *bins, size_t bytes)
{
    for (size_t i = 0; i < bins->count; i++)
        if (bins->all[i].bytes == bytes)
            return true;
    return false;
}

/* Return a list with one more bin, or NULL without host memory. */
static struct bins *longer_list(struct bins *bins, size_t bytes, tarn_resource *resource)
{
    struct bins *made = malloc(sizeof *made);
    size_t at = 0;

    if (!made)
        return NULL;
    while (at < bins->count && bins->all[at].bytes < bytes)
        at++;
    memcpy(made->all, bins->all, at * sizeof *made->all);
    memcpy(&made->all[at + 1], &bins->all[at], (bins->count - at) * sizeof *made->all);
    made->all[at] = (struct bin){bytes, resource};
    made->count = bins->count + 1;
    made->before = bins;
    return made;
}

/* Insert `bin` and take over its reference, unless there is a bin of that size. Under the
 * lock. */
static tarn_status insert(struct binning *binning, size_t bytes, tarn_resource **bin)
{
    struct bins *bins = atomic_load(&binning->bins), *made;

    if (has_bin(bins, bytes))
        return TARN_OK;
    if (bins->count == BINS_MAX)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "binning: the maximum of %d bins is reached, cannot add one for %zu bytes",
            BINS_MAX, bytes);
    made = longer_list(bins, bytes, *bin);
    if (!made)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "binning: no host memory for a bin");
    atomic_store_explicit(&binning->bins, made, memory_order_release);
    *bin = NULL;
    return TARN_OK;
}

static tarn_status make_slab(const struct binning *binning, size_t bytes,
                             tarn_resource **out)
{
    const tarn_slab_options options = {.size = sizeof options, .block_bytes = bytes};

    return tarn_slab_create(tarn_resource_device(binning->upstream), binning->upstream,
                            &options, out);
}

/* Add a bin. `bin` NULL: create a slab, without the lock, as that calls the driver. */
static tarn_status add(tarn_resource *resource, size_t bytes, tarn_resource *bin)
{
    struct binning *binning = resource->self;
    tarn_status status = TARN_OK;

    if (has_bin(atomic_load(&binning->bins), bytes))
        return TARN_OK;
    tarn_resource *mine = tarn_resource_retain(bin);
    if (!mine)
        status = make_slab(binning, bytes, &mine);
    if (status != TARN_OK)
        return status;
    status = tarn__stack_widen(resource, mine);
    if (status == TARN_OK) {
        tarn__mutex_lock(&binning->lock);
        status = insert(binning, bytes, &mine);
        tarn__mutex_unlock(&binning->lock);
    }
    struct tarn__kept_error why = tarn__error_keep();
    tarn_resource_release(mine); /* NULL if the list owns it now */
    tarn__error_restore(&why);
    return status;
}

tarn_status tarn_binning_add_bin(tarn_resource *resource, size_t bytes,
                                 tarn_resource *bin)
{
    if (!tarn_resource_self(resource, &tarn__binning_ops))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "binning: \"%s\" is not a binning resource",
                              tarn_resource_name(resource));
    if (bytes == 0 || bin == resource)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT, "binning: cannot add a bin for %zu bytes%s", bytes,
            bin == resource ? ": a resource cannot be its own bin" : "");
    if (bin && tarn_resource_device(bin) != tarn_resource_device(resource))
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "binning: the bin is of device %d, the binning resource of device %d",
            tarn_resource_device(bin), tarn_resource_device(resource));
    return add(resource, bytes, bin);
}

/* --- creation --- */

static tarn_status check_options(const tarn_binning_options *options)
{
    tarn_status status =
        tarn__options_check("binning", options, sizeof *options, sizeof *options);

    if (status != TARN_OK)
        return status;
    if (options->min_size_exponent > options->max_size_exponent ||
        options->max_size_exponent > LOG2_MAX)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "binning: min_size_exponent %u has to be at most "
                              "max_size_exponent %u, and that at most %d",
                              options->min_size_exponent, options->max_size_exponent,
                              LOG2_MAX);
    return TARN_OK;
}

static tarn_status add_powers(tarn_resource *resource,
                              const tarn_binning_options *options)
{
    tarn_status status = TARN_OK;

    if (!options || options->max_size_exponent == 0)
        return TARN_OK;
    for (unsigned i = options->min_size_exponent;
         i <= options->max_size_exponent && status == TARN_OK; i++)
        status = add(resource, (size_t)1 << i, NULL);
    return status;
}

/* Create one without bins; the upstream is retained. */
static struct binning *binning_new(tarn_resource *upstream)
{
    struct binning *binning = calloc(1, sizeof *binning);
    struct bins *bins = calloc(1, sizeof *bins);

    if (!binning || !bins) {
        free(binning);
        free(bins);
        return NULL;
    }
    atomic_init(&binning->bins, bins);
    tarn__table_init(&binning->blocks);
    tarn__mutex_init(&binning->lock, NULL);
    binning->upstream = tarn_resource_retain(upstream);
    return binning;
}

tarn_status tarn_binning_create(tarn_resource *upstream,
                                const tarn_binning_options *options, tarn_resource **out)
{
    tarn_resource_ops ops = tarn__binning_ops;
    tarn_resource *made;

    if (!upstream || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "binning: create: upstream or out is NULL");
    tarn_status status = options ? check_options(options) : TARN_OK;
    if (status != TARN_OK)
        return status;
    struct binning *binning = binning_new(upstream);
    if (!binning)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "binning: no host memory");
    if (!tarn_resource_supports_memory_info(upstream))
        ops.memory_info = NULL; /* a missing operation means that the value is unknown */
    status = tarn_resource_create_with_upstream(
        &ops, binning, tarn_resource_device(upstream), upstream, &made);
    if (status != TARN_OK) {
        binning_destroy(binning);
        return status;
    }
    tarn__stack_reserve(made);
    status = add_powers(made, options);
    if (status != TARN_OK) {
        struct tarn__kept_error why = tarn__error_keep();
        tarn_resource_release(made);
        return tarn__error_restore(&why);
    }
    *out = made;
    return TARN_OK;
}
