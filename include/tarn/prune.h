/* prune.h -- removes pairs of NRT_incref and NRT_decref that cancel out, from LLVM IR.
 *
 * A compiler that counts references puts an incref and a decref around every use of an
 * object. Most of these pairs change nothing but the time they take. The pruner removes
 *
 *   - pairs: one incref and one decref;
 *   - fan-out regions: one incref, and one decref on each path that leaves the region.
 *
 * The functions are in libtarn_prune.so, which needs LLVM; libtarn.so does not. A caller
 * passes a module in one of these forms:
 *
 *   the module is     | function              | needs
 *   ------------------+-----------------------+-------------------------------------
 *   a pointer         | tarn_prune_module(),  | caller and libtarn_prune use the same
 *                     | tarn_prune_function() | libLLVM
 *   bitcode or text   | tarn_prune_bytes()    | an LLVM that reads and writes it
 *   text of old Numba | tarn_prune_old_text() | nothing
 *
 * Calls share no state. Threads may prune at the same time if each of them uses an LLVM
 * context of its own. docs/design/prune.md explains the shapes and why they are sound.
 */
#ifndef TARN_PRUNE_H
#define TARN_PRUNE_H

#include <tarn/status.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_prune
 * @{ */

/** The module behind LLVM-C's `LLVMModuleRef`. */
struct LLVMOpaqueModule;
/** The value behind LLVM-C's `LLVMValueRef`. */
struct LLVMOpaqueValue;

/** The shapes in which the pruner looks for pairs; a set of bits.
 *
 * The first four are those of llvmlite's RefPruneSubpasses and of
 * NUMBA_LLVM_REFPRUNE_FLAGS. */
enum {
    TARN_PRUNE_PER_BLOCK = 1, /**< An incref and a decref in one block. */
    TARN_PRUNE_DIAMOND = 2,   /**< One incref, and one decref on every path from it. */
    TARN_PRUNE_FANOUT = 4, /**< One incref, and one decref in each block it leads to. */
    /** As TARN_PRUNE_FANOUT, but paths that raise have no decref. */
    TARN_PRUNE_FANOUT_RAISE = 8,
    /** Refops of several values that cancel out together, or across phis: a loop takes a
     * reference in one turn and releases it in the next. llvmlite's pass has no such
     * shape.
     * @since 0.2 */
    TARN_PRUNE_CARRIED = 16,
    TARN_PRUNE_ALL = 31 /**< All of them. */
};

/** The rules that decide which pairs the pruner removes. */
typedef enum tarn_prune_mode {
    /** Never free an object early.
     *
     * A call that may release references keeps a pair around it. The size of a function
     * has no limit. All searches in a function share a limit of steps, which grows with
     * the function; `gave_up` of the report counts those that reached it. */
    TARN_PRUNE_SOUND = 0,
    /** Give the IR and the numbers of llvmlite's pass.
     *
     * It is the pass of llvmlite 0.43 and later. With `raise_metadata` set to
     * TARN_PRUNE_RAISE_RET it is the pass of llvmlite 0.39 and before. */
    TARN_PRUNE_LLVMLITE = 1,
    /** As TARN_PRUNE_SOUND, but assume that no call releases a reference of another
     * owner.
     *
     * It is unsound if a callee does, for example by removing an element of a list.
     * @since 0.2 */
    TARN_PRUNE_ASSUME_CALLS_KEEP = 2
} tarn_prune_mode;

/** The raise metadata by which a compiler marks a block that raises; a set of bits. */
enum {
    /** A store to the value `excinfo` with the metadata `!numba_exception_output`. */
    TARN_PRUNE_RAISE_STORE = 1,
    /** A ret with the metadata `!ret_is_raise !{i1 1}`, as before Numba 0.57. */
    TARN_PRUNE_RAISE_RET = 2
};

/** The format in which tarn_prune_bytes() writes a module. */
typedef enum tarn_prune_format {
    TARN_PRUNE_AS_GIVEN = 0, /**< The format that the input has. */
    TARN_PRUNE_TEXT = 1,     /**< LLVM's text. */
    TARN_PRUNE_BITCODE = 2   /**< LLVM's bitcode. */
} tarn_prune_format;

/** Apply X(name, value, message) to each rule that keeps an incref.
 *
 * Values never change. */
#define TARN_PRUNE_RULE_MAP(X)                                                         \
    X(NO_SHAPE, 0, "the shapes that match are disabled")                               \
    X(DECREF_BESIDE, 1, "a decref of another value is in the block of the incref")     \
    X(OTHER_DECREF, 2, "a path releases another object, which may own this one")       \
    X(USED_IN_BETWEEN, 3, "memory is used between another release and the decref")     \
    X(NOT_RELEASED, 4, "a path leaves the function without a decref")                  \
    X(TAKEN_AGAIN, 5, "a path returns to the incref without a decref")                 \
    X(NOT_TAKEN, 6, "a path reaches the decref without the incref")                    \
    X(RELEASED_AGAIN, 7, "a path leads from one decref to another without the incref") \
    X(NO_RAISE, 8, "no path raises")                                                   \
    X(RELEASED_AFTER_RAISE, 9, "objects are released after the raise")                 \
    X(TOO_DEEP, 10, "a path is longer than 15 blocks")                                 \
    X(TOO_LARGE, 11, "the search reached its limit")                                   \
    X(NOT_REACHED, 12, "no path from the entry leads to the incref")                   \
    X(NOT_OPTIMIZED, 13, "the function has the attribute optnone")                     \
    X(FEWER_DECREFS, 14, "every matching decref was removed with another incref")      \
    X(OWNERSHIP_TRANSFERRED, 15, "a path raises after a possible ownership transfer")  \
    X(RELEASING_CALL, 16, "a call on the path may release the object")                 \
    X(NO_DECREF, 17, "the function has no decref of the value")

/** The rule that kept an incref: TARN_PRUNE_ and a name of TARN_PRUNE_RULE_MAP. */
typedef enum tarn_prune_rule {
/** @cond */
#define X(name, value, text) TARN_PRUNE_##name = value,
    /** @endcond */
    TARN_PRUNE_RULE_MAP(X)
#undef X
} tarn_prune_rule;

/** A place in the IR, and in the source if the IR has debug info. */
typedef struct tarn_prune_place {
    const char *block;       /**< Name of the block as IR prints it, % included. */
    const char *instruction; /**< Instruction as IR prints it; "" for a whole block. */
    const char *file;        /**< Source file; "" without debug info. */
    unsigned line,           /**< Line of the source, from 1; 0 without debug info. */
        column;              /**< Column of the source, from 1; 0 without debug info. */
} tarn_prune_place;

/** An incref that stayed although its function has a decref of the same value. */
typedef struct tarn_prune_kept {
    tarn_prune_rule rule;    /**< The rule that kept it. */
    const char *message;     /**< The message of the rule. */
    const char *function;    /**< Name of the function. */
    const char *value;       /**< The reference as IR prints it, on one line. */
    tarn_prune_place incref; /**< The place of the incref. */
    tarn_prune_place at; /**< The place that breaks the rule; all "" if there is none. */
} tarn_prune_kept;

/** Receives each incref that stayed, function by function.
 *
 * `data` is the `explain_data` of the options. `kept` and its strings are valid during
 * the call. The pruner calls the function on its caller's thread, with no lock held. */
typedef void (*tarn_prune_explain_fn)(void *data, const tarn_prune_kept *kept);

/** Returns the address of a counter for an incref that stayed, or NULL for none.
 *
 * It is called as tarn_prune_explain_fn is, and for increfs without a decref of their value
 * too, with the rule TARN_PRUNE_NO_DECREF. The module then counts each execution of the
 * incref whose argument is not null. The counter has to outlive the code.
 * @since 0.2 */
typedef uint64_t *(*tarn_prune_counter_fn)(void *data, const tarn_prune_kept *kept);

/** Options of the pruner; all zeros, or NULL in their place, are the defaults. */
typedef struct tarn_prune_options {
    tarn_prune_mode mode; /**< The rules. */
    unsigned shapes;      /**< TARN_PRUNE_PER_BLOCK | ...; 0: all. */
    /** TARN_PRUNE_RAISE_STORE | ...; 0: both, but with TARN_PRUNE_LLVMLITE the store. */
    unsigned raise_metadata;
    tarn_prune_format format; /**< Output format; for tarn_prune_bytes() alone. */
    /** For tarn_prune_bytes(): LLVM wrote the input.
     *
     * The call then verifies neither the input nor the result. */
    bool trusted;
    /** TARN_PRUNE_LLVMLITE: most block visits of one fan-out search.
     *
     * 0 means 1000, as in llvmlite's Python. TARN_PRUNE_SOUND does not need it. */
    size_t subgraph_limit;
    tarn_prune_explain_fn explain; /**< Receives the increfs that stayed; may be NULL. */
    void *explain_data;            /**< Passed to `explain` and `counter`. */
    /** Counts executions of the increfs that stayed; may be NULL. For code that runs in this
     * process.
     * @since 0.2 */
    tarn_prune_counter_fn counter;
} tarn_prune_options;

/** What one call did.
 *
 * The first four members count operations as llvmlite does: a pair counts as two. */
typedef struct tarn_prune_report {
    uint64_t per_block,         /**< Operations removed within a block. */
        diamond,                /**< Operations removed by diamonds. */
        fanout,                 /**< Operations removed by fan-outs. */
        fanout_raise;           /**< Operations removed by fan-outs with raise. */
    uint64_t functions;         /**< Functions with a body. */
    uint64_t functions_changed; /**< Functions from which something was removed. */
    uint64_t increfs,           /**< Increfs found before anything was removed. */
        decrefs;                /**< Decrefs found before anything was removed. */
    uint64_t kept;    /**< Increfs that stayed although a decref of the value exists. */
    uint64_t gave_up; /**< Searches that ended at a limit. */
    uint64_t peak_bytes; /**< Most host memory of the pruner's own at any time. */
    /** Operations removed as TARN_PRUNE_CARRIED describes.
     * @since 0.2 */
    uint64_t carried;
} tarn_prune_report;

/** Prune every function of a module in place.
 *
 * Declarations stay as they are. LLVM's verifier must accept the module.
 *
 * Thread-safety: one thread at a time for one LLVM context.
 *
 * @param module      the module, an `LLVMModuleRef`; borrowed for the call.
 * @param options     the options; NULL selects the defaults.
 * @param[out] report the counts, on success; may be NULL.
 * @return
 * - TARN_OK: the pruner has gone through all functions.
 * - TARN_INVALID_ARGUMENT: `module` is NULL, or an option has an unknown value.
 * - TARN_OUT_OF_MEMORY: no host memory for a function. The module is valid. That function
 *   may be pruned in part. Those after it are unchanged; those before it are pruned.
 * - TARN_BAD_FORMAT: a block has no terminator. The message names its function. That
 *   function and those after it are unchanged; those before it are pruned.
 * @since 0.1
 */
TARN_API tarn_status tarn_prune_module(struct LLVMOpaqueModule *module,
                                       const tarn_prune_options *options,
                                       tarn_prune_report *report);

/** Prune one function in place.
 *
 * LLVM's verifier must accept the function. A declaration stays as it is.
 *
 * Thread-safety: one thread at a time for one LLVM context.
 *
 * @param function    the function, an `LLVMValueRef`; borrowed for the call.
 * @param options     the options; NULL selects the defaults.
 * @param[out] report the counts, on success; may be NULL.
 * @return
 * - TARN_OK: the pruner has gone through the function.
 * - TARN_INVALID_ARGUMENT: `function` is NULL or no function, or an option has an unknown
 *   value.
 * - TARN_OUT_OF_MEMORY: no host memory for the function. It is valid, and may be pruned in
 *   part.
 * - TARN_BAD_FORMAT: a block has no terminator. The function is unchanged.
 * @since 0.1
 */
TARN_API tarn_status tarn_prune_function(struct LLVMOpaqueValue *function,
                                         const tarn_prune_options *options,
                                         tarn_prune_report *report);

/** Read a module from bitcode or text, verify it, prune it and write it again.
 *
 * The call uses an LLVM context of its own. LLVM's reader may end the process on bytes
 * that nothing has checked. So the tool `tarn prune` reads in a child process.
 *
 * Thread-safety: any thread.
 *
 * @param ir             the module, bitcode or text; borrowed for the call.
 * @param bytes          number of bytes at `ir`.
 * @param name           name for messages; NULL stands for "<bytes>".
 * @param options        the options; NULL selects the defaults.
 * @param[out] report    the counts, on success; may be NULL.
 * @param[out] out       the pruned module with a NUL behind it. The caller owns it and
 *                       frees it with tarn_prune_free().
 * @param[out] out_bytes number of bytes at `*out`, without the NUL.
 * @return
 * - TARN_OK: `*out` has the pruned module.
 * - TARN_INVALID_ARGUMENT: `ir`, `out` or `out_bytes` is NULL, or an option has an
 *   unknown value.
 * - TARN_OUT_OF_MEMORY: no host memory for a function or for the result.
 * - TARN_BAD_FORMAT: `bytes` is 0, LLVM cannot read the module, or its verifier rejects
 *   it before or after pruning.
 * @since 0.1
 */
TARN_API tarn_status tarn_prune_bytes(const void *ir, size_t bytes, const char *name,
                                      const tarn_prune_options *options,
                                      tarn_prune_report *report, char **out,
                                      size_t *out_bytes);

/** Prune the text of a module as Numba before 0.52 did.
 *
 * This is the pruner that NUMBA_LLVM_REFPRUNE_PASS=0 selects. It looks at one block at a
 * time, and works on text. It knows neither aliases nor attributes. It is meant for IR
 * of that time. It needs no valid IR and reports no invalid one.
 *
 * Thread-safety: any thread.
 *
 * @param text             the text; borrowed for the call. NULL is allowed if `bytes`
 *                         is 0.
 * @param bytes            number of bytes at `text`.
 * @param[out] out         the pruned text with a NUL behind it. The caller owns it and
 *                         frees it with tarn_prune_free().
 * @param[out] out_bytes   number of bytes at `*out`, without the NUL.
 * @param[out] out_removed number of operations removed; may be NULL.
 * @return
 * - TARN_OK: `*out` has the pruned text.
 * - TARN_INVALID_ARGUMENT: `text`, `out` or `out_bytes` is NULL.
 * - TARN_OUT_OF_MEMORY: no host memory for the text.
 * @since 0.1
 */
TARN_API tarn_status tarn_prune_old_text(const char *text, size_t bytes, char **out,
                                         size_t *out_bytes, uint64_t *out_removed);

/** Free the output of tarn_prune_bytes() or tarn_prune_old_text().
 *
 * Thread-safety: any thread.
 *
 * @param bytes the output; NULL does nothing.
 * @since 0.1
 */
TARN_API void tarn_prune_free(char *bytes);

/** Return the version of the LLVM that the pruner was built with.
 *
 * Thread-safety: any thread.
 *
 * @return the version, such as "22.1.8"; static storage.
 * @since 0.1
 */
TARN_API const char *tarn_prune_llvm_version(void);

/** @} */

TARN_END_DECLS
#endif
