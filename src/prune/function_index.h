/* function_index.h -- the function index: one function's blocks with numbers, and their
 * refops.
 *
 * A refop is a call of NRT_incref or NRT_decref. Refops are found once. A removed refop
 * is marked as gone, and the counts are updated. Instructions are read again only where a
 * rule needs the code between two of them.
 */
#ifndef TARN_PRUNE_FUNCTION_INDEX_H
#define TARN_PRUNE_FUNCTION_INDEX_H

#include "prune/release.h"
#include <tarn/prune.h>

#define TARN__NONE UINT32_MAX /* no block, no refop */

struct tarn__refop {
    LLVMValueRef call;  /* NULL once it is gone */
    LLVMValueRef value; /* the counted value: the first argument */
    uint32_t block;
    uint32_t value_number; /* equal for equal values */
    uint32_t place;        /* a decref's: its index in `by_value` */
    uint32_t calls_before; /* releasing calls of its block that stand before it */
    bool incref;
};

/* Data shared by all functions of one call. */
struct tarn__pruning {
    tarn_prune_options options;
    tarn_prune_report report;
    LLVMContextRef context;
    LLVMBuilderRef builder;        /* moves decrefs; owned, created when first needed */
    LLVMValueRef incref, decref;   /* the module's globals of these names; may be NULL */
    unsigned optnone;              /* the kind of that attribute */
    unsigned store_mark, ret_mark; /* kinds of metadata; 0: not queried yet */
    struct tarn__arena arena;      /* for the current function */
    struct tarn__release release;  /* which calls release */

    /* The refops and blocks of the current function; the arrays are reused. */
    struct tarn__refop *refops;
    size_t refop_capacity;
    LLVMBasicBlockRef *blocks;
    uint32_t *first_refop;
    size_t block_capacity;
};

struct tarn__function_index {
    struct tarn__pruning *pruning;
    LLVMValueRef function;

    LLVMBasicBlockRef *blocks; /* in the function's order; 0 is the entry */
    uint32_t block_count;
    struct tarn__refop *refops; /* in the function's order */
    uint32_t refop_count;
    uint32_t
        *first_refop; /* block b has refops first_refop[b] .. first_refop[b + 1] - 1 */
    uint32_t incref_count, null_count; /* found */
    uint32_t removed;                  /* number of removed refops */

    /* From tarn__function_index_find_calls() on: */
    uint32_t *calls_in;     /* by block: its releasing calls, the terminator included */
    bool releases_argument; /* one of them releases its argument, perhaps a parameter */

    /* From tarn__function_index_number_values() on: */
    uint32_t *decrefs_in; /* by block: decrefs that still exist */
    unsigned char
        *raising; /* by block: the result of raise_metadata.c; 0: not queried yet */
    uint32_t value_count;  /* value numbers are below this */
    uint32_t *first_place; /* value v has the decrefs by_value[first_place[v]] and on */
    uint32_t *by_value;    /* refops that are decrefs, by value and then in order */
    uint32_t *next_place;  /* for a place: itself, or a later one if its decref is
                             * gone */
};

/* Find the blocks and refops of a function. False: no host memory. */
bool tarn__function_index_open(struct tarn__function_index *function_index,
                               struct tarn__pruning *pruning, LLVMValueRef function);
/* Find the releasing calls. False: no host memory. */
bool tarn__function_index_find_calls(struct tarn__function_index *function_index);
/* Give equal values equal numbers, and list the decrefs of each. False: no host
 * memory. */
bool tarn__function_index_number_values(struct tarn__function_index *function_index);

/* Had the block a decref of that value, perhaps removed by now? */
bool tarn__function_index_had_decref(const struct tarn__function_index *function_index,
                                     uint32_t value_number, uint32_t block);
/* The first existing decref of that value in the block, or TARN__NONE. */
uint32_t tarn__function_index_decref(struct tarn__function_index *function_index,
                                     uint32_t value_number, uint32_t block);
/* The first existing decref of the incref's value behind it in its block, or TARN__NONE.
 * The decrefs stand as tarn__normalize() puts them. */
uint32_t tarn__function_index_decref_behind(struct tarn__function_index *function_index,
                                            uint32_t incref);
/* Is this instruction no refop, and may it release a reference? */
bool tarn__function_index_is_call(struct tarn__function_index *function_index,
                                  LLVMValueRef instruction);
/* The releasing call of the block that has `before` others before it, or NULL. */
LLVMValueRef tarn__function_index_call(struct tarn__function_index *function_index,
                                       uint32_t block, uint32_t before);
/* Does the caller hold the value for the whole call? It is a parameter, and no call of the
 * function releases its argument. */
bool tarn__function_index_caller_holds(const struct tarn__function_index *function_index,
                                       LLVMValueRef value);
/* The first existing decref at or after a place of `by_value`, or the place behind the
 * value's last. */
uint32_t tarn__function_index_next_place(struct tarn__function_index *function_index,
                                         uint32_t value_number, uint32_t place);

/* Erase a refop from the IR and update the counts. */
void tarn__function_index_remove(struct tarn__function_index *function_index,
                                 uint32_t refop);

#endif
