/* quarantine.h -- the end of a block: its last check, poison, and time in quarantine. */
#ifndef TARN_GUARD_QUARANTINE_H
#define TARN_GUARD_QUARANTINE_H

#include "guard/workspace.h"

/* Return a block to its resource. */
tarn_status tarn__quarantine_return(const struct tarn__guard_block *block,
                                    tarn_stream stream);

/* Drop the record of a block that its resource has again. In a workspace, or with NULL. */
void tarn__quarantine_end_block(struct tarn__guard *guard,
                                struct tarn__workspace_use *use,
                                struct tarn__guard_block *block);

/* Count a free that could not be checked. */
void tarn__quarantine_count_unchecked(struct tarn__guard *guard);

/* Queue the check of a freed block, and the poison. `stream` is behind its last use. In a
 * workspace. */
void tarn__quarantine_finish_use(struct tarn__guard *guard,
                                 struct tarn__workspace_use *use,
                                 struct tarn__guard_block *block, CUstream_ stream);

/* Begin the quarantine of a block. In a workspace. Returns false if there is none. */
bool tarn__quarantine_begin(struct tarn__guard *guard, struct tarn__workspace_use *use,
                            struct tarn__guard_block *block, CUstream_ stream);

/* Return the oldest blocks of the quarantine until `keep_bytes` are left. `resource`: its
 * blocks alone. */
void tarn__quarantine_shorten(struct tarn__guard *guard, tarn_resource *resource,
                              uint64_t keep_bytes);

/* Return true if blocks that were freed without a stream have to be freed now; and free
 * them. Waits for their devices. */
bool tarn__quarantine_must_settle(struct tarn__guard *guard);
void tarn__quarantine_settle(struct tarn__guard *guard);

/* Free the records of a list. Their resources keep the blocks. */
void tarn__quarantine_drop(struct tarn__guard *guard, struct tarn__guard_list *list);

#endif
