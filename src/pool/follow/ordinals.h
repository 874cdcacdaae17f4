/* ordinals.h -- numbers of threads or of streams, in the order in which a step uses them.
 *
 * Handles of streams come back, and ids differ from run to run. So a step and a plan name
 * both by ordinals: 0, 1, 2 ...
 */
#ifndef TARN_POOL_ORDINALS_H
#define TARN_POOL_ORDINALS_H

#include "base/map.h"

/* Ids that are remembered at most. */
enum { TARN__ORDINALS_IDS = 1 << 14 };

struct tarn__ordinals {
    struct tarn__map by_id;
    uint32_t next;
};

void tarn__ordinals_init(struct tarn__ordinals *ordinals);
void tarn__ordinals_free(struct tarn__ordinals *ordinals);
/* Forget all ids. */
void tarn__ordinals_clear(struct tarn__ordinals *ordinals);

/* Return the ordinal of an id, or NULL. Valid until the next change. */
static inline const uint32_t *tarn__ordinals_find(const struct tarn__ordinals *ordinals,
                                                  uint64_t id)
{
    return tarn__map_get(&ordinals->by_id, id);
}

/* Give a new id an ordinal. Returns false without host memory. */
bool tarn__ordinals_add(struct tarn__ordinals *ordinals, uint64_t id, uint32_t ordinal);

#endif
