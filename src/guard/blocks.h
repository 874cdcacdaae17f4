/* blocks.h -- the tables of a guard's live and freed blocks. */
#ifndef TARN_GUARD_BLOCKS_H
#define TARN_GUARD_BLOCKS_H

#include "guard/guard.h"

void tarn__blocks_init_list(struct tarn__guard_list *list);

/* Append a block to a list, and take the oldest one of `resource` (NULL: of any). `lock`
 * held. */
void tarn__blocks_append(struct tarn__guard *guard, struct tarn__guard_list *list,
                         struct tarn__guard_block *block);
struct tarn__guard_block *tarn__blocks_take(struct tarn__guard *guard,
                                            struct tarn__guard_list *list,
                                            const tarn_resource *resource);

/* Keep live and freed blocks as they are, while they are checked. A forked child does not
 * take this lock: its parent may hold it across calls of the driver. */
void tarn__blocks_lock_live(struct tarn__guard *guard);
void tarn__blocks_unlock_live(struct tarn__guard *guard);

/* Reserve an entry in each table, so that a block can change from one to the other; and
 * release it. */
bool tarn__blocks_reserve(struct tarn__guard *guard);
void tarn__blocks_release(struct tarn__guard *guard);

/* Enter a live block, with its reserved entry. */
void tarn__blocks_put_live(struct tarn__guard *guard, struct tarn__guard_block *block);

/* Take the record of a live block, which keeps its entry. NULL with TARN_OK: the guard
 * does not have the block. A second free sets `*site_out`. */
tarn_status tarn__blocks_take_live(struct tarn__guard *guard,
                                   const tarn_resource *resource, tarn_device_ptr address,
                                   size_t bytes, struct tarn__guard_block **out,
                                   struct tarn__guard_site *site_out);

/* Keep a freed block in a list. */
void tarn__blocks_put_freed(struct tarn__guard *guard, struct tarn__guard_list *list,
                            struct tarn__guard_block *block);

/* Take the oldest kept block of `resource` (NULL: of any) if more than `keep_bytes` are in
 * the list. It is in hand until tarn__blocks_leave_hand(), and its entry stays reserved. */
struct tarn__guard_block *tarn__blocks_take_freed(struct tarn__guard *guard,
                                                  struct tarn__guard_list *list,
                                                  const tarn_resource *resource,
                                                  uint64_t keep_bytes);
void tarn__blocks_leave_hand(struct tarn__guard *guard);

/* Describe the free of a live block with other bytes than those of its allocation, or on
 * another resource. Returns TARN_INVALID_ARGUMENT. */
tarn_status tarn__blocks_wrong_free(const struct tarn__guard_block *block,
                                    const tarn_resource *resource, size_t bytes);

/* Return true if the address of a block may be another owner's by now. */
bool tarn__blocks_is_stale(const struct tarn__guard_block *block);

#endif
