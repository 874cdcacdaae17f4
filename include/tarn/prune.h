/* prune.h -- removes pairs of NRT_incref and NRT_decref that cancel out, from LLVM IR.
 *
 * Compilers that count references put an incref and a decref around every use. Most of
 * those pairs change nothing but the time they take. The pruner finds pairs, and fans of
 * one incref with a decref on each way out, that may go.
 *
 * These calls are in libtarn_prune.so, which needs LLVM; libtarn.so does not. A module may
 * be handed over as a pointer, where caller and libtarn_prune use the same libLLVM, or as
 * bytes: bitcode or text. Nothing here is shared between calls, so threads may prune at
 * once, each with an LLVM context of its own.
 */
#ifndef TARN_PRUNE_H
#define TARN_PRUNE_H

#include <tarn/status.h>

TARN_BEGIN_DECLS

/* What LLVM-C calls LLVMModuleRef and LLVMValueRef, pointers to these. */
struct LLVMOpaqueModule;
struct LLVMOpaqueValue;

/** The places in which a pair may be found; a set of bits. The first four have the values
 *  of llvmlite's RefPruneSubpasses, and of NUMBA_LLVM_REFPRUNE_FLAGS. */
enum {
    TARN_PRUNE_PER_BLOCK = 1,    /**< both in one block */
    TARN_PRUNE_DIAMOND = 2,      /**< one incref, one decref on every way from it */
    TARN_PRUNE_FANOUT = 4,       /**< one incref, one decref in each block it leads to */
    TARN_PRUNE_FANOUT_RAISE = 8, /**< the same, but ways that raise have none */
    TARN_PRUNE_ALL = 15
};

typedef enum tarn_prune_mode {
    TARN_PRUNE_SOUND = 0,   /**< never frees an object early; no limit on size */
    TARN_PRUNE_LLVMLITE = 1 /**< the IR and the numbers that llvmlite's pass gives: of
                                 0.43 and later, or, where `raise_marks` is
                                 TARN_PRUNE_MARK_RET, of 0.39 and before */
} tarn_prune_mode;

/** How a compiler marks a block that raises; a set of bits. */
enum {
    TARN_PRUNE_MARK_STORE = 1, /**< a store to %excinfo with !numba_exception_output */
    TARN_PRUNE_MARK_RET = 2    /**< a ret with !ret_is_raise !{i1 1}: Numba before 0.57 */
};

/** In which form tarn_prune_bytes() gives the module back. */
typedef enum tarn_prune_format {
    TARN_PRUNE_AS_GIVEN = 0,
    TARN_PRUNE_TEXT = 1,
    TARN_PRUNE_BITCODE = 2
} tarn_prune_format;

/** Why an incref stayed: name, and the rule in words. Values never change. */
#define TARN_PRUNE_RULE_MAP(X)                                                          \
    X(NO_SHAPE, 0, "the shapes that would fit are switched off")                        \
    X(DECREF_BESIDE, 1, "a decref of another value is in the incref's own block")       \
    X(OTHER_DECREF, 2, "another object is released on the way, which may own this one") \
    X(USED_IN_BETWEEN, 3, "memory is used between another release and the decref")      \
    X(NOT_RELEASED, 4, "a way leaves the function without a decref")                    \
    X(TAKEN_AGAIN, 5, "a way comes back to the incref without a decref")                \
    X(NOT_TAKEN, 6, "a way reaches the decref without the incref")                      \
    X(RELEASED_AGAIN, 7, "a way goes from one decref to another without the incref")    \
    X(NO_RAISE, 8, "no way raises")                                                     \
    X(RELEASED_AFTER_RAISE, 9, "objects are released after the raise")                  \
    X(TOO_DEEP, 10, "a way is longer than 15 blocks")                                   \
    X(TOO_LARGE, 11, "the search reached its limit")                                    \
    X(NOT_REACHED, 12, "no way from the start of the function leads to the incref")     \
    X(NOT_OPTIMIZED, 13, "the function has the attribute optnone")                      \
    X(FEWER_DECREFS, 14, "every decref that would fit went with another incref")        \
    X(OWNERSHIP_TRANSFERRED, 15,                                                        \
      "a way raises, and somebody else may have the reference by then")

typedef enum tarn_prune_rule {
#define X(name, value, words) TARN_PRUNE_##name = value,
    TARN_PRUNE_RULE_MAP(X)
#undef X
} tarn_prune_rule;

/** A place in the IR, and in the source where there is debug info. */
typedef struct tarn_prune_place {
    const char *block;       /**< its name, as IR prints it: %entry */
    const char *instruction; /**< as IR prints it; "" for a block as a whole */
    const char *file;        /**< of the source; "" without debug info */
    unsigned line, column;   /**< of the source, from 1; 0 without debug info */
} tarn_prune_place;

/** An incref that stayed although its function has a decref of the same value. */
typedef struct tarn_prune_kept {
    tarn_prune_rule rule;
    const char *message;  /**< of the rule */
    const char *function; /**< its name */
    const char *value;    /**< the reference, as IR prints it: ptr %a */
    tarn_prune_place incref;
    tarn_prune_place at; /**< where the rule says no; all "" where that is nowhere */
} tarn_prune_kept;

/** Told of each incref that stayed, function by function. The strings live for the call.
 */
typedef void (*tarn_prune_explain_fn)(void *data, const tarn_prune_kept *kept);

/** All zero is the default, and so is NULL in its place. */
typedef struct tarn_prune_options {
    tarn_prune_mode mode;
    unsigned shapes; /**< TARN_PRUNE_PER_BLOCK | ...; 0: all */
    unsigned
        raise_marks; /**< TARN_PRUNE_MARK_STORE | ...; 0: both, LLVMLITE: the store */
    tarn_prune_format format; /**< for tarn_prune_bytes() alone */
    bool trusted;             /**< tarn_prune_bytes(): do not verify, LLVM wrote them */
    /** LLVMLITE: visits of a block in one fan-out search; 0: 1000, as llvmlite's Python
     *  has it. SOUND does not need it. */
    size_t subgraph_limit;
    tarn_prune_explain_fn explain; /**< may be NULL */
    void *explain_data;            /**< handed to `explain` */
} tarn_prune_options;

/** What one call did. The first four count operations (a pair is two), as llvmlite does. */
typedef struct tarn_prune_report {
    uint64_t per_block, diamond, fanout, fanout_raise;
    uint64_t functions;         /**< with a body */
    uint64_t functions_changed; /**< from which something was removed */
    uint64_t increfs, decrefs;  /**< found, before anything was removed */
    uint64_t kept;       /**< increfs that stayed beside a decref of the same value */
    uint64_t gave_up;    /**< searches that ended at a limit */
    uint64_t peak_bytes; /**< most memory of the pruner's own at any time */
} tarn_prune_report;

/** Prune every function of a module in place; declarations are left alone. The module must
 * be one that LLVM's verifier accepts. `report` may be NULL. TARN_BAD_FORMAT names the
 * function that has a block without an end; it and those after it are as they were. */
TARN_API tarn_status tarn_prune_module(struct LLVMOpaqueModule *module,
                                       const tarn_prune_options *options,
                                       tarn_prune_report *report);

/** The same for one function. */
TARN_API tarn_status tarn_prune_function(struct LLVMOpaqueValue *function,
                                         const tarn_prune_options *options,
                                         tarn_prune_report *report);

/** Read a module from bitcode or text, verify it, prune it and write it again, in an LLVM
 *  context of its own. `name` is for messages and may be NULL. TARN_BAD_FORMAT where LLVM
 *  cannot read it or its verifier refuses it, before or after. LLVM's reader may end the
 *  process on bytes that nobody checked: the tool `tarn prune` does this in a child.
 *  `*out` has `*out_bytes` bytes and a zero behind them; it goes to tarn_prune_free(). */
TARN_API tarn_status tarn_prune_bytes(const void *ir, size_t bytes, const char *name,
                                      const tarn_prune_options *options,
                                      tarn_prune_report *report, char **out,
                                      size_t *out_bytes);

/** The pruner of Numba before 0.52, which looks at one block at a time and works on text:
 *  what NUMBA_LLVM_REFPRUNE_PASS=0 does to the text of a module. It knows neither aliases
 *  nor attributes, and is here for IR of that time. `*out_removed` (may be NULL) gets the
 *  number of operations removed. Needs no valid IR and reports no bad one. */
TARN_API tarn_status tarn_prune_old_text(const char *text, size_t bytes, char **out,
                                         size_t *out_bytes, uint64_t *out_removed);

/** Give back what one of the two calls above handed out; NULL is allowed. */
TARN_API void tarn_prune_free(char *bytes);

/** The version of the LLVM that this process uses, e.g. "22.1.8"; static storage. */
TARN_API const char *tarn_prune_llvm_version(void);

TARN_END_DECLS
#endif
