/* slab.h -- small blocks: by size class, cached by threads. */
#ifndef TARN_NRT_SLAB_H
#define TARN_NRT_SLAB_H

#include "nrt/runtime.h"

extern const uint16_t tarn__slab_class_bytes[TARN__CLASSES];

/* The class for data of a given number of 16-byte units behind a MemInfo, at multiples of
 * 16, 32 and 64. */
extern uint8_t tarn__slab_class_of[3][TARN__SMALL_BYTES / 16 + 1];
void tarn__slab_init_classes(void);

/* How many blocks a list holds at most. */
extern const uint16_t tarn__slab_batch_blocks[TARN__CLASSES];

/* A block of `class`, its header still FREE; NULL: no host memory. */
struct tarn__free_block *tarn__slab_take(struct tarn__shard *shard, unsigned class);

/* Return a FREE block of `allocator`; `shard` may be NULL. */
void tarn__slab_put(tarn_runtime *runtime, struct tarn__shard *shard, unsigned allocator,
                    struct tarn__free_block *block);

/* The list of a class is full: make space for one more. */
void tarn__slab_overflow(struct tarn__shard *shard, unsigned class);

/* Return all blocks in the lists of a shard to its instance. */
void tarn__slab_drain(struct tarn__shard *shard);

/* Free unused chunks, or all chunks of an instance that ends. Return the bytes. */
size_t tarn__slab_trim(tarn_runtime *runtime);
void tarn__slab_free_all(tarn_runtime *runtime);

#endif
