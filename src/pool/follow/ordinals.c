/* ordinals.c -- numbers of threads or of streams, in the order in which a step uses them. */
#include "pool/follow/ordinals.h"

void tarn__ordinals_init(struct tarn__ordinals *ordinals)
{
    tarn__map_init(&ordinals->by_id, sizeof(uint32_t));
    ordinals->next = 0;
}

void tarn__ordinals_free(struct tarn__ordinals *ordinals)
{
    tarn__map_free(&ordinals->by_id);
}

void tarn__ordinals_clear(struct tarn__ordinals *ordinals)
{
    tarn__ordinals_free(ordinals);
    tarn__ordinals_init(ordinals);
}

bool tarn__ordinals_add(struct tarn__ordinals *ordinals, uint64_t id, uint32_t ordinal)
{
    if (ordinals->by_id.count >= TARN__ORDINALS_IDS)
        tarn__ordinals_clear(ordinals);
    ordinals->next++;
    return tarn__map_put(&ordinals->by_id, id, &ordinal);
}
