/* bins.h -- free blocks by size: two levels of bitmaps, and lists.
 *
 * A size class is a power of two split into 32 parts, so every block of a larger class
 * fits. Two instructions find the first non-empty class. Two classes are searched: the
 * class of the request itself, and the class that is taken. There the search looks at the
 * first few blocks and takes the smallest that fits. That is best fit with few blocks, a
 * good fit with very many, and flat cost with both.
 */
#ifndef TARN_POOL_BINS_H
#define TARN_POOL_BINS_H

#include "pool/blocks/node.h"
#include <limits.h>

enum {
    TARN__BIN_PARTS_LOG = 5,
    TARN__BIN_PARTS = 1 << TARN__BIN_PARTS_LOG,
    /* for 32-bit sizes in allocation quanta */
    TARN__BIN_POWERS = 32 - TARN__BIN_PARTS_LOG + 1,
    TARN__BIN_CLASSES = TARN__BIN_POWERS << TARN__BIN_PARTS_LOG,
    /* candidates of one class: it covered all of them in the measurements, and it is a
     * bound */
    TARN__BIN_LOOKS = 32
};

struct tarn__bins {
    uint32_t powers; /* bit i: parts[i] is not 0 */
    /* bit j: heads[i * TARN__BIN_PARTS + j] is not empty */
    uint32_t parts[TARN__BIN_POWERS];
    tarn__index heads[TARN__BIN_CLASSES]; /* by class */
};

/* Return true if a block is suitable beyond its size; called for each candidate. */
typedef bool (*tarn__fits)(const void *request, const struct tarn__node *node);

static inline unsigned tarn__bins_log2(uint32_t n)
{
    return 31 - (unsigned)__builtin_clz(n);
}

/* Return the class of a size, which is not 0. Each size below 32 is a class of its
 * own. */
static inline unsigned tarn__bins_class(uint32_t quanta)
{
    unsigned shift = tarn__bins_log2(quanta | TARN__BIN_PARTS) - TARN__BIN_PARTS_LOG;

    return (shift << TARN__BIN_PARTS_LOG) + (quanta >> shift);
}

/* Enter or remove a block; every split and every coalescing does this. The functions are
 * inline, and without branches that the processor could only guess. A write past the end
 * of a list goes to node 0, which no block uses. */
static inline void tarn__bins_add_to(struct tarn__bins *bins,
                                     const struct tarn__nodes *nodes, tarn__index index,
                                     unsigned class)
{
    struct tarn__node *node = tarn__node(nodes, index);
    tarn__index next = bins->heads[class];

    node->previous = 0;
    node->next = next;
    tarn__node(nodes, next)->previous = index;
    bins->heads[class] = index;
    bins->parts[class / TARN__BIN_PARTS] |= 1u << class % TARN__BIN_PARTS;
    bins->powers |= 1u << class / TARN__BIN_PARTS;
}

static inline void tarn__bins_remove_from(struct tarn__bins *bins,
                                          const struct tarn__nodes *nodes,
                                          tarn__index index, unsigned class)
{
    const struct tarn__node *node = tarn__node(nodes, index);
    tarn__index next = node->next, previous = node->previous;
    tarn__index *link =
        previous ? &tarn__node(nodes, previous)->next : &bins->heads[class];

    unsigned power = class / TARN__BIN_PARTS;
    uint32_t is_last = (next | previous) == 0;
    uint32_t parts = bins->parts[power] & ~(is_last << class % TARN__BIN_PARTS);

    *link = next;
    tarn__node(nodes, next)->previous = previous;
    bins->parts[power] = parts;
    bins->powers &= ~((uint32_t)(parts == 0) << power);
}

static inline void tarn__bins_add(struct tarn__bins *bins,
                                  const struct tarn__nodes *nodes, tarn__index index)
{
    tarn__bins_add_to(bins, nodes, index,
                      tarn__bins_class(tarn__node(nodes, index)->quanta));
}

static inline void tarn__bins_remove(struct tarn__bins *bins,
                                     const struct tarn__nodes *nodes, tarn__index index)
{
    tarn__bins_remove_from(bins, nodes, index,
                           tarn__bins_class(tarn__node(nodes, index)->quanta));
}

/* Return the first class from `class` on that has blocks; UINT_MAX: none has. */
static inline unsigned tarn__bins_next(const struct tarn__bins *bins, unsigned class)
{
    unsigned power = class / TARN__BIN_PARTS;

    if (power >= TARN__BIN_POWERS)
        return UINT_MAX;
    uint32_t parts = bins->parts[power] & (~0u << class % TARN__BIN_PARTS);
    if (parts)
        return power * TARN__BIN_PARTS + (unsigned)__builtin_ctz(parts);
    uint32_t powers = bins->powers & (~1u << power);
    if (!powers)
        return UINT_MAX;
    power = (unsigned)__builtin_ctz(powers);
    return power * TARN__BIN_PARTS + (unsigned)__builtin_ctz(bins->parts[power]);
}

/* Compare two blocks that fit: the smaller one is better. Of two blocks of one size the
 * lower one is, so that the upper end becomes free. */
static inline bool tarn__bins_is_better(const struct tarn__node *node,
                                        const struct tarn__node *than)
{
    return !than || node->quanta < than->quanta ||
           (node->quanta == than->quanta && node->address < than->address);
}

/* Return the best block of a list that `fits` accepts (NULL: it accepts all); 0: none has
 * so many allocation quanta. */
static inline tarn__index tarn__bins_best(const struct tarn__nodes *nodes,
                                          tarn__index head, uint32_t quanta,
                                          tarn__fits fits, const void *request)
{
    const struct tarn__node *best = NULL;
    tarn__index found = 0, next;
    int looks = 0;

    for (tarn__index i = head; i && looks < TARN__BIN_LOOKS; i = next, looks++) {
        const struct tarn__node *node = tarn__node(nodes, i);
        next = node->next;
        if (node->quanta < quanta || !tarn__bins_is_better(node, best) ||
            (fits && !fits(request, node)))
            continue;
        best = node;
        found = i;
        if (node->quanta == quanta && looks >= TARN__BIN_LOOKS / 4)
            break;
    }
    return found;
}

/* Return the best block that `fits` accepts, of at least `quanta`, in a class that has
 * blocks of `most` quanta or less; 0: there is none among the candidates. Inline for
 * the search, which usually passes NULL for `fits`. */
static inline tarn__index tarn__bins_find(const struct tarn__bins *bins,
                                          const struct tarn__nodes *nodes,
                                          uint32_t quanta, uint32_t most, tarn__fits fits,
                                          const void *request)
{
    unsigned class = tarn__bins_class(quanta), last = tarn__bins_class(most);

    while ((class = tarn__bins_next(bins, class)) <= last) {
        tarn__index found =
            tarn__bins_best(nodes, bins->heads[class], quanta, fits, request);
        if (found)
            return found;
        class ++;
    }
    return 0;
}

/* Visit the blocks of at least `quanta`, the largest classes first, until `visit`
 * returns false. `visit` must not change the bins. */
void tarn__bins_visit(const struct tarn__bins *bins, const struct tarn__nodes *nodes,
                      uint32_t quanta, bool (*visit)(void *data, tarn__index index),
                      void *data);

/* Where a visit of free blocks in several parts goes on. The bins may change between the
 * parts. If the next block leaves its class then, the next class follows. */
struct tarn__bins_cursor {
    unsigned class;           /* the class of `next`; all larger ones were visited */
    tarn__index next;         /* 0: the class was visited */
    tarn__index stream_state; /* of `next` */
};

/* Begin a visit. */
static inline struct tarn__bins_cursor tarn__bins_begin(void)
{
    return (struct tarn__bins_cursor){.class = TARN__BIN_CLASSES};
}

/* Go on with a visit, for at most `looks` blocks. Returns false if it has ended. */
bool tarn__bins_visit_part(const struct tarn__bins *bins, const struct tarn__nodes *nodes,
                           uint32_t quanta, struct tarn__bins_cursor *cursor,
                           unsigned looks, bool (*visit)(void *data, tarn__index index),
                           void *data);

/* Blocks of the largest class that tarn__bins_largest() looks at. */
enum { TARN__LARGEST_LOOKS = 64 };

/* Return the size of the largest block in quanta; 0: the bins are empty. If its class has
 * more blocks than it looks at, another one may be up to a 32nd larger. */
uint32_t tarn__bins_largest(const struct tarn__bins *bins,
                            const struct tarn__nodes *nodes);

#endif
