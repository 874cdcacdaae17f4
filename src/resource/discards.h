/* discards.h -- how often pools of this process have discarded the contents of live blocks,
 * and how many are suspended.
 *
 * tarn_pool_suspend() with TARN_POOL_SUSPEND_DISCARD does so. Whoever compares the bytes of a
 * block with former ones notes the number with them. Another number later means that the
 * bytes may be lost: the number does not tell of which pool. While a pool is suspended, its
 * memory is not mapped.
 */
#ifndef TARN_RESOURCE_DISCARDS_H
#define TARN_RESOURCE_DISCARDS_H

#include <stdbool.h>
#include <stdint.h>

/* Count one discard, before the memory is unmapped. */
void tarn__discards_count(void);
uint64_t tarn__discards(void);

/* Count a pool that is suspended, or one less. */
void tarn__discards_count_suspended(bool is_less);
/* Return true if a pool is suspended. */
bool tarn__discards_any_suspended(void);

#endif
