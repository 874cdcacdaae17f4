/* slab.c -- blocks of one size: a pool that splits its memory into this size alone.
 *
 * In such a pool every free block fits every request, so no memory is lost between
 * blocks. A stream's free serves its next request whatever its size. All else is the
 * pool's: the order of streams, event fences, growth, trimming, suspending. So is the
 * accounting: a block records the requested bytes, and a free with other bytes fails.
 */
#include "resource/internal.h"
#include "pool/backing/pages.h"
#include "pool/blocks/node.h"
#include "pool/make.h"
#include "base/options.h"
#include "base/size.h"
#include <string.h>

enum { DEFAULT_BLOCK = 1 << 20 };

/* Set *out to the bytes of `blocks` blocks of `block_bytes`; false where that
 * overflows. */
static bool bytes_of(size_t blocks, size_t block_bytes, size_t *out)
{
    if (blocks > SIZE_MAX / block_bytes)
        return false;
    *out = blocks * block_bytes;
    return true;
}

static tarn_status check_options(const tarn_slab_options *options)
{
    tarn_status status =
        tarn__options_check("slab", options, sizeof *options, sizeof *options);

    if (status != TARN_OK)
        return status;
    if (options->maximum_blocks && options->initial_blocks > options->maximum_blocks)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "slab: initial_blocks %zu exceeds maximum_blocks %zu",
                              options->initial_blocks, options->maximum_blocks);
    if (options->maximum_blocks && options->growth_blocks > options->maximum_blocks)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "slab: growth_blocks %zu exceeds maximum_blocks %zu",
                              options->growth_blocks, options->maximum_blocks);
    return TARN_OK;
}

/* Translate a slab's options into a pool's. A page that the maximum would split is taken
 * whole. Otherwise the last blocks of the maximum would not fit, and a maximum of a few
 * small blocks would hold none at all. */
static tarn_status translate(const tarn_slab_options *options, size_t block_bytes,
                             tarn_pool_options *out)
{
    size_t rounded;

    if (!tarn__size_round_up(block_bytes, TARN__QUANTUM, &rounded) ||
        !bytes_of(options->initial_blocks, rounded, &out->initial_bytes) ||
        !bytes_of(options->growth_blocks, rounded, &out->growth_bytes) ||
        !bytes_of(options->maximum_blocks, rounded, &out->maximum_bytes) ||
        !tarn__size_round_up(out->maximum_bytes, TARN__PAGE_BYTES, &out->maximum_bytes))
        return tarn_error_set(
            TARN_OUT_OF_MEMORY,
            "slab: %zu, %zu or %zu blocks of %zu bytes exceed the address space",
            options->initial_blocks, options->growth_blocks, options->maximum_blocks,
            block_bytes);
    return TARN_OK;
}

tarn_status tarn_slab_create(int device, tarn_resource *upstream,
                             const tarn_slab_options *options, tarn_resource **out)
{
    static const tarn_slab_options none = {.size = sizeof none};
    tarn_pool_options pool = {.size = sizeof pool};

    if (!options)
        options = &none;
    tarn_status status = check_options(options);
    if (status != TARN_OK)
        return status;
    size_t block_bytes = options->block_bytes ? options->block_bytes : DEFAULT_BLOCK;
    status = translate(options, block_bytes, &pool);
    if (status != TARN_OK)
        return status;
    return tarn__make_pool(device, upstream, &pool, block_bytes, out);
}
