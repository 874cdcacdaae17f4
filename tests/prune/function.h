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
    GET,    /* result: a shared object or null, with a reference of its own */
    TAKE,   /* result: an object whose reference the function takes from another owner */
    SELECT, /* result: one of two operands */
    COPY,   /* result: the operand */
    RAISE,  /* a raise mark */
    KEEP,   /* a reference is transferred to an owner that outlives the function */
    PUT,    /* a reference is transferred to the object of the second operand */
    CALLBACK, /* code outside of the module: it may release references of its own */
    CALL,     /* a function of the module; its result may be any object */
};

struct function;

struct operation {
    enum operation_kind kind;
    int operands[2]; /* numbers of values; NO_OBJECT for values that are no object */
    int result;      /* number of a value, or NO_OBJECT */
    const struct function *callee; /* of a CALL */
    int *
        arguments; /* of a CALL, one for each parameter: numbers of values, or NO_OBJECT */
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
    int *parts;          /* pointers that the function extracts from its parameters */
    int part_count;
    bool calls_pointer;    /* named NRT_decref: to the pruner, a releasing call */
    bool *is_object;       /* by parameter: not so for conditions, excinfo and retptr */
    struct function *next; /* in the list of functions that were read */
    LLVMValueRef source;
};

/* Convert an LLVM function, and those that it calls. The result is valid until
 * function_forget_all(). */
const struct function *function_read(LLVMValueRef source);

/* May the function call what releases references that it does not see? */
bool function_calls_back(const struct function *function);

/* Allocate zeroed memory that is freed with the functions. Ends the program on failure.
 */
void *function_allocate(size_t count, size_t size);

/* Free all functions and their memory. */
void function_forget_all(void);

#endif
