/* function.h -- a function as the interpreter runs it: blocks of few kinds of operations. */
#ifndef PRUNE_FUNCTION_H
#define PRUNE_FUNCTION_H

#include <llvm-c/Core.h>
#include <stdbool.h>
#include <stddef.h>

enum { NO_OBJECT = -1 };

enum operation_kind {
    INCREF,
    DECREF,
    USE,    /* reads the object */
    PICK,   /* result: any of the shared objects, or null */
    MAKE,   /* result: a new object, counted once */
    SELECT, /* result: one of two operands */
    COPY,   /* result: the operand */
    RAISE,  /* a raise mark */
    KEEP,   /* a reference is transferred to an owner that outlives the function */
};

struct operation {
    enum operation_kind kind;
    int operands[2]; /* numbers of values; NO_OBJECT for values that are no object */
    int result;      /* number of a value, or NO_OBJECT */
};

struct phi {
    int result;
    int count;
    int *blocks; /* where each value comes from */
    int *values;
};

struct block {
    struct phi *phis;
    int phi_count;
    struct operation *operations;
    int operation_count;
    int *successors;
    int successor_count;
    bool returns;
};

struct function {
    const char *name;
    struct block *blocks;
    int block_count;
    int value_count;
    int parameter_count; /* values 0 .. parameter_count - 1; the rest are instructions */
    int excinfo;         /* the parameter that is no object, or NO_OBJECT */
};

/* Convert an LLVM function. The result is valid until function_forget_all(). */
struct function function_read(LLVMValueRef source);

/* Allocate zeroed memory that is freed with the functions. Ends the program on failure.
 */
void *function_allocate(size_t count, size_t size);

/* Free all functions and their memory. */
void function_forget_all(void);

#endif
