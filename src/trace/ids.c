/* ids.c -- map thread ids, stream handles and device numbers to small numbers. */
#include "trace/ids.h"

void tarn__ids_init(struct tarn__ids *ids)
{
    *ids = (struct tarn__ids){.count = 0};
    tarn__map_init(&ids->numbers, sizeof(uint32_t));
}

void tarn__ids_free(struct tarn__ids *ids)
{
    tarn__map_free(&ids->numbers);
    tarn__ids_init(ids);
}

static bool has(const struct tarn__ids *ids, uint64_t value, uint32_t *out)
{
    if (value == UINT64_MAX) {
        *out = ids->all_ones;
        return ids->has_all_ones;
    }
    const uint32_t *number = tarn__map_get(&ids->numbers, value + 1);
    if (number)
        *out = *number;
    return number != NULL;
}

bool tarn__ids_number(struct tarn__ids *ids, uint64_t value, size_t limit, uint32_t *out)
{
    if (has(ids, value, out))
        return true;
    if (ids->count >= limit || ids->count == UINT32_MAX)
        return false;
    if (value == UINT64_MAX) {
        ids->all_ones = ids->count;
        ids->has_all_ones = true;
    } else if (!tarn__map_put(&ids->numbers, value + 1, &ids->count)) {
        return false;
    }
    *out = ids->count++;
    return true;
}
