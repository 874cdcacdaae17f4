/* demand.h -- demand: how many references does the rest of the function release, by name?
 *
 * A name is a value that is counted, or that a phi of counted values merges. Its demand at
 * a point is the most decrefs of the name that follow on a path, less the increfs on the
 * way. A phi passes its demand to the incoming value of the edge: that value's reference
 * becomes the phi's. So a reference is followed through the variables of a loop.
 *
 * Demand is found from the end of the function to its start, until nothing changes.
 */
#ifndef TARN_PRUNE_DEMAND_H
#define TARN_PRUNE_DEMAND_H

#include "prune/cfg.h"

enum { TARN__MOST_DEMAND = 7 }; /* a loop that releases more than it takes reaches it */

/* In place of a name, where a phi merges a constant. */
#define TARN__NAME_NULL (UINT32_MAX - 1)  /* null: counts nothing */
#define TARN__NAME_OTHER (UINT32_MAX - 2) /* a global: not followed */

struct tarn__demand_phi {
    uint32_t name;
    uint32_t next;      /* of the same block: index + 1, or 0 */
    uint32_t *incoming; /* by edge into the block, in the order of the graph: a name */
};

struct tarn__demand {
    struct tarn__function_index *function_index;
    const struct tarn__cfg *cfg;

    /* Names. Those below the function's `value_count` are its value numbers. */
    uint32_t name_count, name_capacity;
    LLVMValueRef *names;
    uint32_t *slots; /* by value: name + 1, or 0 */
    size_t slot_mask;
    bool *is_parameter;
    uint32_t *next_defined;       /* by name: the next of its block, + 1, or 0 */
    uint32_t *first_defined;      /* by block: names that are no phis, + 1, or 0 */
    unsigned char *at_definition; /* by name */

    struct tarn__demand_phi *phis;
    uint32_t phi_count;
    uint32_t *first_phi; /* by block: index + 1, or 0 */

    unsigned char *at_start; /* by block and name */
    unsigned char *edge;     /* scratch, by name */
};

enum tarn__demand_result {
    TARN__DEMAND_FOUND,
    TARN__DEMAND_GAVE_UP,
    TARN__DEMAND_NO_MEMORY
};

enum tarn__demand_result tarn__demand_find(struct tarn__demand *demand,
                                           struct tarn__function_index *function_index,
                                           const struct tarn__cfg *cfg);

/* The name of a value, or TARN__NONE. */
uint32_t tarn__demand_name(const struct tarn__demand *demand, LLVMValueRef value);

/* The demand at the start of a block, by name. */
static inline const unsigned char *tarn__demand_at_start(
    const struct tarn__demand *demand, uint32_t block)
{
    return &demand->at_start[(size_t)block * demand->name_count];
}

/* The name that a phi merges on an edge of the graph. */
uint32_t tarn__demand_incoming(const struct tarn__demand *demand,
                               const struct tarn__demand_phi *phi, uint32_t block,
                               uint32_t source);

/* The demand before an edge: that of its target, with the phis' passed on. */
void tarn__demand_before_edge(const struct tarn__demand *demand, uint32_t block,
                              uint32_t target, unsigned char *out);
/* The demand at the end of a block: the most of its edges. */
void tarn__demand_at_end(const struct tarn__demand *demand, uint32_t block,
                         unsigned char *out);
/* The demand before a refop that stays, from that behind it. */
void tarn__demand_before_refop(const struct tarn__demand *demand, uint32_t refop,
                               unsigned char *at);

#endif
