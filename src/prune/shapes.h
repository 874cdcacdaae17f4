/* shapes.h -- the steps of a pruning, and their shared declarations.
 *
 * A step removes the pairs that its rule allows and returns whether there were any. Each
 * kind of shape exists twice: as llvmlite has it, and with sound rules that hold for
 * every program.
 */
#ifndef TARN_PRUNE_SHAPES_H
#define TARN_PRUNE_SHAPES_H

#include "prune/dominators.h"

/* The result of a search, with the place and rule of a failure. */
struct tarn__verdict {
    bool allowed;
    tarn_prune_rule rule;     /* the rule that failed */
    uint32_t block;           /* where; or TARN__NONE */
    LLVMValueRef instruction; /* which; or NULL for the block as a whole */
};

static inline struct tarn__verdict tarn__reject(tarn_prune_rule rule, uint32_t block)
{
    return (struct tarn__verdict){.rule = rule, .block = block};
}

static inline struct tarn__verdict tarn__allow(void)
{
    return (struct tarn__verdict){.allowed = true};
}

/* --- within a block ----------------------------------------------------------------- */

/* In each block with an incref move all decrefs, in order, behind everything else. */
void tarn__normalize(struct tarn__function_index *function_index);

/* Remove every refop on null, then pairs of one value, in every block. */
bool tarn__per_block_prune(struct tarn__function_index *function_index);

/* --- as llvmlite does it ------------------------------------------------------------ */

struct tarn__llvmlite;

/* Is the requested pass llvmlite's before 0.40, which used the mark at the ret? */
static inline bool tarn__llvmlite_is_old(const tarn_prune_options *options)
{
    return options->mode == TARN_PRUNE_LLVMLITE &&
           options->raise_marks == TARN_PRUNE_MARK_RET;
}

/* NULL: no host memory. All data lie in the arena. */
struct tarn__llvmlite *tarn__llvmlite_open(struct tarn__function_index *function_index,
                                           const struct tarn__cfg *cfg);
const struct tarn__function_index *tarn__llvmlite_function_index(
    const struct tarn__llvmlite *search);
bool tarn__llvmlite_diamond(struct tarn__llvmlite *search);
bool tarn__llvmlite_fanout(struct tarn__llvmlite *search, bool raise);
/* The reason why the fan-out search for this remaining incref fails. */
struct tarn__verdict tarn__llvmlite_explain(struct tarn__llvmlite *search,
                                            uint32_t incref, bool raise);

#endif
