/* slots.h -- a table whose entries are known outside by slot number and generation.
 *
 * A slot is reused; its generation never is. So a name of an entry that is gone finds
 * nothing, and not the entry that came after it. The table has no lock; the owner's lock
 * guards it.
 */
#ifndef TARN_IPC_SLOTS_H
#define TARN_IPC_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tarn__slot {
    void *item;          /* NULL: free */
    uint64_t generation; /* of the item; of a free one: the next free one + 1, or 0 */
};

struct tarn__slots {
    struct tarn__slot *slots;
    uint32_t length;     /* of `slots` */
    uint32_t count;      /* items */
    uint32_t first_free; /* + 1; 0: none */
};

/* Make sure that the next put has a slot. False: no host memory. */
bool tarn__slots_reserve(struct tarn__slots *table);

/* Put `item` into a reserved slot. */
void tarn__slots_put(struct tarn__slots *table, void *item, uint32_t *slot_out,
                     uint64_t *generation_out);

/* The item of that generation, or NULL. */
void *tarn__slots_find(const struct tarn__slots *table, uint32_t slot,
                       uint64_t generation);

/* Free a slot that is in use. */
void tarn__slots_take(struct tarn__slots *table, uint32_t slot);

#endif
