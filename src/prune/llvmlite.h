/* llvmlite.h -- pairs across blocks, as llvmlite's pass removes them.
 *
 * Each step removes the pairs that its rule allows and returns whether there were any.
 * sound.h has the same shapes with rules that hold for every program.
 */
#ifndef TARN_PRUNE_LLVMLITE_H
#define TARN_PRUNE_LLVMLITE_H

#include "prune/dominators.h"
#include "prune/verdict.h"

struct tarn__llvmlite;

/* Is the requested pass llvmlite's before 0.40, which used the mark at the ret? */
static inline bool tarn__llvmlite_is_old(const tarn_prune_options *options)
{
    return options->mode == TARN_PRUNE_LLVMLITE &&
           options->raise_metadata == TARN_PRUNE_RAISE_RET;
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
