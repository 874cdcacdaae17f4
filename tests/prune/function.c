/* function.c -- convert LLVM's functions to the interpreter's.
 *
 * Operations that do not concern the interpreter are left out: arithmetic, types,
 * conditions. A call uses its pointers. Its result, like that of a load, may be any object.
 * A function of the module runs. Any other may run anything, unless it is declared to
 * write no memory, or is in `harmless`.
 */
#include "function.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 256 << 20 }; /* for both versions of one function */

static struct {
    char *bytes;
    size_t used;
} arena;

void *function_allocate(size_t count, size_t size)
{
    size_t bytes = (count * size + 15) & ~(size_t)15;
    if (arena.bytes == NULL)
        arena.bytes = malloc(ARENA_BYTES);
    if (arena.bytes == NULL || arena.used + bytes > ARENA_BYTES) {
        fprintf(stderr, "prune-interpret: a function is too large\n");
        exit(2);
    }
    void *place = arena.bytes + arena.used;
    arena.used += bytes;
    return memset(place, 0, bytes);
}

static struct function *functions; /* all that were read */

void function_forget_all(void)
{
    arena.used = 0;
    functions = NULL;
}

/* Numbers of values and blocks, kept in a hash table by address. */
struct numbers {
    const void **keys;
    int *values;
    size_t mask;
};

static struct numbers make_numbers(size_t count)
{
    size_t size = 16;
    while (size < count * 2)
        size *= 2;
    struct numbers numbers = {function_allocate(size, sizeof(void *)),
                              function_allocate(size, sizeof(int)), size - 1};
    return numbers;
}

static size_t slot_of(const struct numbers *numbers, const void *key)
{
    size_t slot = ((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15u >> 20 & numbers->mask;
    while (numbers->keys[slot] != NULL && numbers->keys[slot] != key)
        slot = (slot + 1) & numbers->mask;
    return slot;
}

static void set_number(struct numbers *numbers, const void *key, int value)
{
    size_t slot = slot_of(numbers, key);
    numbers->keys[slot] = key;
    numbers->values[slot] = value;
}

static int number_of(const struct numbers *numbers, const void *key)
{
    size_t slot = slot_of(numbers, key);
    return numbers->keys[slot] == key ? numbers->values[slot] : NO_OBJECT;
}

static bool named(LLVMValueRef value, const char *name)
{
    size_t length;
    const char *text = LLVMGetValueName2(value, &length);
    return length == strlen(name) && memcmp(text, name, length) == 0;
}

static bool is_pointer(LLVMValueRef value)
{
    return LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMPointerTypeKind;
}

struct reading {
    struct numbers values, blocks;
    struct function *function; /* in conversion */
    struct block *block;       /* of it */
    unsigned raise_kind;       /* of the metadata that marks a raise */
    unsigned moves_kind; /* of that which marks loads and stores that move a reference */
};

static void add(struct reading *reading, enum operation_kind kind, LLVMValueRef first,
                LLVMValueRef second, LLVMValueRef result)
{
    struct operation *operation =
        &reading->block->operations[reading->block->operation_count++];
    operation->kind = kind;
    operation->operands[0] = first ? number_of(&reading->values, first) : NO_OBJECT;
    operation->operands[1] = second ? number_of(&reading->values, second) : NO_OBJECT;
    operation->result = result ? number_of(&reading->values, result) : NO_OBJECT;
}

/* Is the function declared to write no memory? */
static bool writes_nothing(LLVMValueRef callee)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("memory", strlen("memory"));
    LLVMAttributeRef memory =
        LLVMIsAFunction(callee)
            ? LLVMGetEnumAttributeAtIndex(
                  callee, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, kind)
            : NULL;
    return memory != NULL &&
           (LLVMGetEnumAttributeValue(memory) & 0xAAAAAAAAAAAAAAAAu) == 0;
}

static bool is_harmless(LLVMValueRef callee)
{
    if (named(callee, "other_thread")) /* no call at all, for the pruner */
        return false;
    return writes_nothing(callee) || named(callee, "NRT_Free") ||
           (LLVMIsAFunction(callee) && LLVMGetIntrinsicID(callee) != 0);
}

/* Has the function a body that no other can replace at link time? */
static bool is_known(LLVMValueRef callee)
{
    return LLVMIsAFunction(callee) && !LLVMIsDeclaration(callee) &&
           LLVMGetLinkage(callee) != LLVMWeakAnyLinkage &&
           LLVMGetLinkage(callee) != LLVMLinkOnceAnyLinkage;
}

static void read_callee(struct reading *reading, LLVMValueRef call, LLVMValueRef callee)
{
    unsigned count = LLVMCountParams(callee);
    add(reading, CALL, NULL, NULL, is_pointer(call) ? call : NULL);
    struct operation *operation =
        &reading->block->operations[reading->block->operation_count - 1];
    operation->callee = function_read(callee);
    operation->arguments = function_allocate(count, sizeof(int));
    for (unsigned i = 0; i < count; i++)
        operation->arguments[i] = number_of(&reading->values, LLVMGetOperand(call, i));
}

static enum operation_kind kind_of_result(LLVMValueRef callee)
{
    if (named(callee, "make"))
        return MAKE;
    return named(callee, "get") ? GET : PICK;
}

static void read_call(struct reading *reading, LLVMValueRef call)
{
    LLVMValueRef callee = LLVMGetCalledValue(call);
    unsigned count = LLVMGetNumArgOperands(call);
    if (named(callee, "NRT_incref") || named(callee, "NRT_decref")) {
        enum operation_kind kind = named(callee, "NRT_incref") ? INCREF : DECREF;
        add(reading, kind, LLVMGetOperand(call, 0), NULL, NULL);
        reading->function->calls_pointer |= kind == DECREF && !LLVMIsAFunction(callee);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        if (is_pointer(LLVMGetOperand(call, i)))
            add(reading, USE, LLVMGetOperand(call, i), NULL, NULL);
    if (is_known(callee)) {
        read_callee(reading, call, callee);
        return;
    }
    if (!is_harmless(callee))
        add(reading, CALLBACK, NULL, NULL, NULL);
    if (is_pointer(call))
        add(reading, kind_of_result(callee), NULL, NULL, call);
}

static void read_phi(struct reading *reading, LLVMValueRef instruction)
{
    struct phi *phi = &reading->block->phis[reading->block->phi_count++];
    phi->count = (int)LLVMCountIncoming(instruction);
    phi->blocks = function_allocate((size_t)phi->count, sizeof(int));
    phi->values = function_allocate((size_t)phi->count, sizeof(int));
    phi->result = number_of(&reading->values, instruction);
    for (int i = 0; i < phi->count; i++) {
        LLVMBasicBlockRef block = LLVMGetIncomingBlock(instruction, (unsigned)i);
        LLVMValueRef value = LLVMGetIncomingValue(instruction, (unsigned)i);
        phi->blocks[i] = number_of(&reading->blocks, block);
        phi->values[i] = number_of(&reading->values, value);
    }
}

/* The value that the function returns if it ends straight after this block; or NULL. */
static LLVMValueRef returned_after(LLVMBasicBlockRef block)
{
    LLVMValueRef last = LLVMGetBasicBlockTerminator(block), value;
    if (LLVMGetInstructionOpcode(last) == LLVMBr && LLVMGetNumSuccessors(last) == 1)
        last = LLVMGetBasicBlockTerminator(LLVMGetSuccessor(last, 0));
    if (LLVMGetInstructionOpcode(last) != LLVMRet || LLVMGetNumOperands(last) == 0)
        return NULL;
    value = LLVMGetOperand(last, 0);
    if (!LLVMIsAPHINode(value))
        return value;
    for (unsigned i = 0; i < LLVMCountIncoming(value); i++)
        if (LLVMGetIncomingBlock(value, i) == block)
            return LLVMGetIncomingValue(value, i);
    return NULL;
}

/* Does the function fail right after this block, whose store to excinfo has no mark? */
static bool fails(LLVMBasicBlockRef block)
{
    LLVMValueRef value = returned_after(block);
    return value != NULL && LLVMIsAConstantInt(value) && !LLVMIsNull(value);
}

static bool moves(const struct reading *reading, LLVMValueRef instruction)
{
    return LLVMGetMetadata(instruction, reading->moves_kind) != NULL;
}

static void read_store(struct reading *reading, LLVMValueRef store)
{
    LLVMValueRef value = LLVMGetOperand(store, 0), pointer = LLVMGetOperand(store, 1);

    add(reading, USE, pointer, NULL, NULL);
    if (moves(reading, store))
        add(reading, PUT, value, pointer, NULL);
    else if (named(pointer, "kept") || named(pointer, "retptr"))
        add(reading, KEEP, value, NULL, NULL);
    if (named(pointer, "excinfo") &&
        (LLVMGetMetadata(store, reading->raise_kind) != NULL ||
         fails(LLVMGetInstructionParent(store))))
        add(reading, RAISE, NULL, NULL, NULL);
}

/* The caller holds what it passes within a structure, as it holds other parameters. */
static void read_part(struct reading *reading, LLVMValueRef extract)
{
    struct function *function = reading->function;

    if (is_pointer(extract) && LLVMIsAArgument(LLVMGetOperand(extract, 0)))
        function->parts[function->part_count++] = number_of(&reading->values, extract);
    else if (is_pointer(extract))
        add(reading, PICK, NULL, NULL, extract);
}

static void read_instruction(struct reading *reading, LLVMValueRef instruction)
{
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMCall:
    case LLVMInvoke:
        read_call(reading, instruction);
        break;
    case LLVMPHI:
        if (is_pointer(instruction))
            read_phi(reading, instruction);
        break;
    case LLVMAlloca: /* memory of the function: no object */
        break;
    case LLVMExtractValue:
        read_part(reading, instruction);
        break;
    case LLVMLoad:
        add(reading, USE, LLVMGetOperand(instruction, 0), NULL, NULL);
        if (is_pointer(instruction) && !named(LLVMGetOperand(instruction, 0), "excinfo"))
            add(reading, moves(reading, instruction) ? TAKE : PICK,
                LLVMGetOperand(instruction, 0), NULL, instruction);
        break;
    case LLVMStore:
        read_store(reading, instruction);
        break;
    case LLVMSelect:
        if (is_pointer(instruction))
            add(reading, SELECT, LLVMGetOperand(instruction, 1),
                LLVMGetOperand(instruction, 2), instruction);
        break;
    default:
        if (!is_pointer(instruction))
            break;
        if (LLVMGetNumOperands(instruction) > 0 &&
            is_pointer(LLVMGetOperand(instruction, 0)))
            add(reading, COPY, LLVMGetOperand(instruction, 0), NULL, instruction);
        else
            add(reading, PICK, NULL, NULL, instruction);
    }
}

/* The instructions of a block become at most this many operations and phis. */
static void count_operations(LLVMBasicBlockRef block, size_t *operations, size_t *phis)
{
    *operations = *phis = 0;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i;
         i = LLVMGetNextInstruction(i)) {
        *operations += 3 + (size_t)LLVMGetNumOperands(i);
        *phis += LLVMGetInstructionOpcode(i) == LLVMPHI;
    }
}

static void read_block(struct reading *reading, LLVMBasicBlockRef source)
{
    struct block *block = reading->block;
    size_t operations, phis;
    count_operations(source, &operations, &phis);
    block->operations = function_allocate(operations, sizeof *block->operations);
    block->phis = function_allocate(phis, sizeof *block->phis);
    LLVMValueRef instruction = LLVMGetFirstInstruction(source);
    for (; instruction; instruction = LLVMGetNextInstruction(instruction))
        read_instruction(reading, instruction);

    LLVMValueRef last = LLVMGetBasicBlockTerminator(source);
    block->returns = LLVMGetInstructionOpcode(last) == LLVMRet;
    block->successor_count = (int)LLVMGetNumSuccessors(last);
    block->successors = function_allocate((size_t)block->successor_count, sizeof(int));
    for (int i = 0; i < block->successor_count; i++)
        block->successors[i] =
            number_of(&reading->blocks, LLVMGetSuccessor(last, (unsigned)i));
}

static size_t number_values(struct reading *reading, LLVMValueRef source)
{
    int next = 0;
    for (LLVMValueRef p = LLVMGetFirstParam(source); p; p = LLVMGetNextParam(p))
        set_number(&reading->values, p, next++);
    LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(source);
    for (; block; block = LLVMGetNextBasicBlock(block)) {
        LLVMValueRef i = LLVMGetFirstInstruction(block);
        for (; i; i = LLVMGetNextInstruction(i))
            if (is_pointer(i))
                set_number(&reading->values, i, next++);
    }
    return (size_t)next;
}

static size_t count_values(LLVMValueRef source)
{
    size_t count = LLVMCountParams(source);
    LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(source);
    for (; block; block = LLVMGetNextBasicBlock(block)) {
        LLVMValueRef i = LLVMGetFirstInstruction(block);
        for (; i; i = LLVMGetNextInstruction(i))
            count += is_pointer(i);
    }
    return count;
}

static bool calls_back(const struct function *function, bool is_callee, int depth)
{
    for (int b = 0; b < function->block_count; b++)
        for (int i = 0; i < function->blocks[b].operation_count; i++) {
            const struct operation *operation = &function->blocks[b].operations[i];
            if (operation->kind == CALLBACK || (is_callee && operation->kind == DECREF))
                return true;
            if (operation->kind == CALL && depth < 8 &&
                calls_back(operation->callee, true, depth + 1))
                return true;
        }
    return false;
}

bool function_calls_back(const struct function *function)
{
    return calls_back(function, false, 0);
}

static void read_blocks(struct reading *reading, struct function *function)
{
    int next = 0;
    LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function->source);
    for (; block; block = LLVMGetNextBasicBlock(block))
        set_number(&reading->blocks, block, next++);
    next = 0;
    for (block = LLVMGetFirstBasicBlock(function->source); block;
         block = LLVMGetNextBasicBlock(block)) {
        reading->block = &function->blocks[next++];
        read_block(reading, block);
    }
}

static void read_parameters(struct function *function)
{
    function->parameter_count = (int)LLVMCountParams(function->source);
    function->is_object =
        function_allocate((size_t)function->parameter_count, sizeof(bool));
    for (int i = 0; i < function->parameter_count; i++) {
        LLVMValueRef parameter = LLVMGetParam(function->source, (unsigned)i);
        function->is_object[i] = is_pointer(parameter) && !named(parameter, "excinfo") &&
                                 !named(parameter, "retptr");
    }
}

const struct function *function_read(LLVMValueRef source)
{
    for (struct function *known = functions; known; known = known->next)
        if (known->source == source)
            return known;
    size_t length;
    struct function *function = function_allocate(1, sizeof *function);
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(source));
    struct reading reading = {
        .values = make_numbers(count_values(source)),
        .blocks = make_numbers(LLVMCountBasicBlocks(source)),
        .raise_kind = LLVMGetMDKindIDInContext(context, "numba_exception_output", 22),
        .moves_kind = LLVMGetMDKindIDInContext(context, "moves", 5)};
    function->name = LLVMGetValueName2(source, &length);
    function->source = source;
    function->next = functions;
    functions = function; /* it may call itself */
    function->value_count = (int)number_values(&reading, source);
    function->block_count = (int)LLVMCountBasicBlocks(source);
    function->blocks =
        function_allocate((size_t)function->block_count, sizeof *function->blocks);
    function->parts = function_allocate((size_t)function->value_count, sizeof(int));
    reading.function = function;
    read_parameters(function);
    read_blocks(&reading, function);
    return function;
}
