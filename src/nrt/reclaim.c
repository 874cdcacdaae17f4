/* reclaim.c -- return the memory of a freed block to where it came from: the lists of
 * small blocks, its instance's allocator, or an external allocator.
 */
#include "nrt/reclaim.h"
#include "nrt/allocator.h"
#include "nrt/registry.h"
#include "nrt/sanitizer.h"
#include "nrt/shard.h"
#include "nrt/slab.h"
#include <string.h>

/* Return memory to the external allocator that it came from. */
static void return_external(struct tarn__block *block, uint64_t word)
{
    NRT_ExternalAllocator *external;
    char *memory = (char *)block;

    if (TARN__FLAGS(word) & TARN__PREFIX) {
        memory -= TARN__PREFIX_BYTES;
        external = *tarn__block_prefix(block);
    } else {
        external = tarn__block_meminfo(block)->external_allocator;
    }
    external->free(memory, external->opaque_data);
}

static void return_small(tarn_runtime *runtime, struct tarn__block *block, uint64_t word)
{
    struct tarn__shard *shard = tarn__shard_at(runtime->index);
    unsigned class = TARN__FIELD(word, TARN__CLASS_SHIFT);
    struct tarn__free_block *slot = (struct tarn__free_block *)block;

    if (TARN__FLAGS(word) & TARN__ANNOTATED)
        tarn__sanitizer_no_access((char *)block + TARN__HEAD,
                                  tarn__slab_class_bytes[class] - (size_t)TARN__HEAD);
    atomic_store_explicit(&slot->refct, 0, memory_order_relaxed);
    tarn__slab_put(runtime, shard == &tarn__no_shard ? NULL : shard,
                   TARN__FIELD(word, TARN__ALLOCATOR_SHIFT), slot);
}

void tarn__reclaim_block(struct tarn__block *block)
{
    uint64_t word = tarn__block_word(block);
    unsigned class = TARN__FIELD(word, TARN__CLASS_SHIFT);
    tarn_runtime *runtime = tarn__registry_at(TARN__FIELD(word, TARN__RUNTIME_SHIFT));

    tarn__block_set_state(block, TARN__FREE);
    if (class == TARN__EXTERNAL)
        return_external(block, word);
    else if (class == TARN__DIRECT)
        tarn__allocator_free(
            &runtime->allocators[TARN__FIELD(word, TARN__ALLOCATOR_SHIFT) % TARN__SINGLE],
            block);
    else
        return_small(runtime, block, word);
}
