/* verdict.h -- may a pair be removed, and if not, which rule forbids it? */
#ifndef TARN_PRUNE_VERDICT_H
#define TARN_PRUNE_VERDICT_H

#include "prune/function_index.h"

/* The result of a search, with the place and rule of a failure. */
struct tarn__verdict {
    bool allowed;
    tarn_prune_rule rule;     /* the rule that failed */
    uint32_t block;           /* where; or TARN__NONE */
    LLVMValueRef instruction; /* which; or NULL for the block as a whole */
};

static inline struct tarn__verdict tarn__verdict_reject(tarn_prune_rule rule,
                                                        uint32_t block)
{
    return (struct tarn__verdict){.rule = rule, .block = block};
}

static inline struct tarn__verdict tarn__verdict_allow(void)
{
    return (struct tarn__verdict){.allowed = true};
}

#endif
