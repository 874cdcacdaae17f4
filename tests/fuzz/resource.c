/* resource.c -- a fuzz target: the table of a foreign resource, and what its operations answer.
 *
 *     fuzz-resource [-max_total_time=10] [FOLDER]
 *
 * The first bytes make the table: its name, operations that it lacks, the size that it states.
 * The others are a resource of Tarn over it, the calls of a program, and the answers (foreign.h).
 * A table is rejected exactly where it has no required operation. A call that fails leaves its
 * outputs untouched. Once the answers are good, every block can be freed.
 */
#include "foreign.h"
#include <tarn/tarn.h>

enum { CALLS = 40, BLOCKS = 16 };

static const tarn_device_ptr untouched_block = 0x4d4d4d4d4d4d4d4d;
static const size_t untouched = 0x4d4d4d4d4d4d4d4d;

/* In a free of the program, which can try it again. A free that fails inside of another call
 * has nobody who does: that memory is lost. */
static bool program_frees;
static bool has_top; /* a block at the end of the address space is live */
static tarn_device_ptr cursor, latest; /* where the next block begins; the latest block */

/* The address that an operation answers: mostly of a new block. A live
 * block is no answer: then no resource over this one could tell two blocks apart. */
static tarn_device_ptr next_block(size_t bytes, size_t alignment)
{
    switch (script.is_tame ? 0 : next(16)) {
    case 1:
        return 0;
    case 2:
        return latest + 1;
    case 3: /* the last block of the address space, once */
        if (!has_top) {
            has_top = true;
            return 0 - alignment;
        }
        break;
    default:
        break;
    }
    tarn_device_ptr begin = (cursor + alignment - 1) / alignment * alignment;
    if (begin < cursor || bytes >= (size_t)1 << 40)
        return 0; /* the next block could be at a live one's address */
    latest = begin;
    cursor = begin + bytes;
    return latest;
}

static tarn_status res_allocate(void *self, size_t bytes, size_t alignment,
                                tarn_stream stream, tarn_device_ptr *out)
{
    tarn_status status = next_status();

    (void)self, (void)stream;
    must(bytes > 0 && alignment >= TARN_ALIGNMENT, "an unchecked allocation");
    if (status == TARN_OK || next(4) == 1) /* a failure may write, too */
        *out = next_block(bytes, alignment);
    return status;
}

static tarn_status res_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                  size_t alignment, tarn_stream stream)
{
    (void)self, (void)alignment, (void)stream;
    must(block != 0 && bytes > 0, "an unchecked free");
    return program_frees ? next_status() : TARN_OK;
}

static void res_destroy(void *self)
{
    ++*(unsigned *)self;
}

static tarn_status res_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                   size_t *total_out)
{
    (void)self, (void)stream;
    *free_out = next_number();
    *total_out = next_number();
    return next_status();
}

static bool res_is_equal(const void *self, const void *other)
{
    return next(2) ? self == other : (bool)next(2);
}

static bool res_says(const void *self)
{
    (void)self;
    return next(2);
}

static tarn_status res_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    (void)self, (void)keep_bytes;
    *released_out = next_number();
    return next_status();
}

static tarn_status res_requested_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    (void)self, (void)block;
    *out = next_number();
    return next_status();
}

static size_t res_live_blocks(const void *self)
{
    (void)self;
    return script.is_tame ? 0 : next_number();
}

static void res_empty_request(void *self, bool is_free, tarn_stream stream)
{
    (void)self, (void)is_free, (void)stream;
}

static tarn_resource_ops make_resource_table(const char *name)
{
    tarn_resource_ops ops = {.name = name, .destroy = res_destroy};
    unsigned lacks = next(256), lacks_too = next(256);

    ops.allocate = lacks & 1 ? NULL : res_allocate;
    ops.deallocate = lacks & 2 ? NULL : res_deallocate;
    ops.destroy = lacks & 4 ? NULL : res_destroy;
    ops.memory_info = lacks & 8 ? NULL : res_memory_info;
    ops.is_equal = lacks & 16 ? NULL : res_is_equal;
    ops.supports_streams = lacks & 32 ? NULL : res_says;
    ops.deallocate_synchronizes = lacks & 64 ? NULL : res_says;
    ops.trim = lacks & 128 ? NULL : res_trim;
    ops.requested_bytes = lacks_too & 1 ? NULL : res_requested_bytes;
    ops.live_blocks = lacks_too & 2 ? NULL : res_live_blocks;
    ops.supports_no_stream = lacks_too & 4 ? NULL : res_says;
    ops.empty_request = lacks_too & 8 ? NULL : res_empty_request;
    return ops;
}

/* What lies over the foreign resource: NULL where it was not made. */
static tarn_resource *make_over(tarn_resource *foreign)
{
    tarn_binning_options binning = {
        .size = sizeof binning, .min_size_exponent = 9, .max_size_exponent = 12};
    tarn_resource *const none = (tarn_resource *)(void *)&binning;
    tarn_resource *out = none;
    tarn_status status = TARN_OK;

    switch (next(8)) {
    case 1:
        status = tarn_limiter_create(foreign, 1 << 22, &out);
        break;
    case 2:
        status = tarn_counter_create(foreign, &out);
        break;
    case 3:
        status = tarn_tracker_create(foreign, NULL, &out);
        break;
    case 4:
        status = tarn_pool_create(0, foreign, NULL, &out);
        break;
    case 5:
        status = tarn_slab_create(0, foreign, NULL, &out);
        break;
    case 6:
        status = tarn_binning_create(foreign, &binning, &out);
        break;
    case 7:
        status = tarn_prefetcher_create(foreign, &out);
        break;
    default:
        out = tarn_resource_retain(foreign);
    }
    must(succeeded(status) == (out != none), "an output that does not fit");
    return out == none ? NULL : out;
}

static struct {
    tarn_device_ptr block;
    size_t bytes, alignment;
} blocks[BLOCKS];
static unsigned block_count;

static void allocate(tarn_resource *resource)
{
    static const size_t alignments[] = {0, 256, 4096, 3, (size_t)1 << 63};
    size_t bytes = next_number(), alignment = alignments[next(5)];
    tarn_device_ptr block = untouched_block;
    tarn_status status =
        tarn_resource_allocate(resource, bytes, alignment, TARN_STREAM_LEGACY, &block);

    if (!succeeded(status)) {
        must(block == untouched_block, "an allocation that failed changed its output");
        return;
    }
    must(bytes == 0 ? block == 0 : block != 0, "a block of the wrong bytes");
    must(block % (alignment > TARN_ALIGNMENT ? alignment : TARN_ALIGNMENT) == 0,
         "a block without its alignment");
    if (bytes == 0)
        return;
    blocks[block_count].block = block;
    blocks[block_count].bytes = bytes;
    blocks[block_count++].alignment = alignment;
}

static void deallocate(tarn_resource *resource, unsigned which)
{
    program_frees = true;
    if (succeeded(tarn_resource_deallocate(resource, blocks[which].block,
                                           blocks[which].bytes, blocks[which].alignment,
                                           TARN_STREAM_LEGACY)))
        blocks[which] = blocks[--block_count];
    program_frees = false;
}

static void query(tarn_resource *resource)
{
    size_t one = untouched, other = untouched;
    tarn_device_ptr block = block_count ? blocks[0].block : 256;

    if (!succeeded(tarn_resource_memory_info(resource, TARN_STREAM_NONE, &one, &other)))
        must(one == untouched && other == untouched, "memory_info changed its outputs");
    else
        must(one <= other, "more is free than there is");
    one = untouched;
    if (!succeeded(tarn_resource_trim(resource, next_number(), &one)))
        must(one == untouched, "trim changed its output");
    one = untouched;
    if (!succeeded(tarn_resource_requested_bytes(resource, block, &one)))
        must(one == untouched, "requested_bytes changed its output");
    must(tarn_resource_is_equal(resource, resource), "a resource is not equal to itself");
    tarn_resource_live_blocks(resource);
    tarn_resource_supports_streams(resource);
    tarn_resource_supports_no_stream(resource);
}

static void allocate_pointer(tarn_resource *resource)
{
    tarn_pointer *const none = (tarn_pointer *)(void *)&blocks, *out = none;
    tarn_stream stream = next(2) ? TARN_STREAM_NONE : TARN_STREAM_LEGACY;
    bool made = succeeded(tarn_pointer_allocate(resource, next_number(), stream, &out));

    must(made == (out != none), "a pointer that does not fit");
    script.is_tame = true; /* a free that fails has no caller who tries it again */
    if (made)
        tarn_pointer_release(out);
    script.is_tame = false;
}

static void call(tarn_resource *resource)
{
    switch (next(8)) {
    case 0:
    case 1:
    case 2:
        if (block_count < BLOCKS)
            allocate(resource);
        break;
    case 3:
    case 4:
        if (block_count > 0)
            deallocate(resource, next(block_count));
        break;
    case 5:
        allocate_pointer(resource);
        break;
    default:
        query(resource);
    }
}

/* From here on the foreign resource answers well, so every block goes back. */
static void end_resource(tarn_resource *over, tarn_resource *foreign)
{
    script.is_tame = true;
    for (unsigned i = block_count; i > 0; i--)
        deallocate(over, i - 1);
    must(block_count == 0, "a block that cannot be freed");
    must(succeeded(tarn_resource_release(over)), "the upper resource does not end");
    must(succeeded(tarn_resource_release(foreign)), "the foreign resource does not end");
}

static void try_resource(void)
{
    char *name = next_name();
    tarn_resource_ops ops = make_resource_table(name);
    size_t size = next_size(sizeof ops);
    void *table = copy_table(&ops, sizeof ops, size);
    unsigned destroyed = 0;
    tarn_resource *const none = (tarn_resource *)(void *)&ops, *foreign = none;
    bool fits = size >= offsetof(tarn_resource_ops, memory_info) && name_fits(name) &&
                ops.allocate && ops.deallocate && ops.destroy;
    int device = (int)next(3) - 1;
    bool made = succeeded(tarn_resource_create(table, &destroyed, device, &foreign));

    free(table); /* the resource has a copy */
    must(made == fits && made == (foreign != none), "a table is judged wrongly");
    if (made) {
        tarn_resource *over = make_over(foreign);
        for (unsigned calls = 0; over && script.at < script.end && calls < CALLS; calls++)
            call(over);
        end_resource(over ? over : tarn_resource_retain(foreign), foreign);
    }
    must(destroyed == made, "a resource was not destroyed once");
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    begin(data, count);
    cursor = latest = 1 << 20;
    has_top = false;
    block_count = 0;
    try_resource();
    return 0;
}
