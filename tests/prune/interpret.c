/* interpret.c -- runs functions before and after pruning, on a memory that counts.
 *
 *     prune-interpret BEFORE AFTER [RUNS [SEED]]
 *
 * Both files hold the same functions (.ll or .bc), the second pruned. Each function is run
 * along RUNS paths. A run picks, from its seed, which way each branch goes, which object
 * each pointer is (several pointers may be one object, or null), and which object holds a
 * reference to which other; then both versions make the same run, and the pruned one must
 * neither touch a freed object nor free one twice, and must leave the same counts behind.
 *
 * Which references does the caller hold? As few as the version before can live with: a run
 * begins with none, and where that version fails, it is given one more and begins again. So
 * whatever keeps an object alive is what the function itself, or another object, counts.
 *
 * All paths through the blocks are taken as possible; a pruner that looks at blocks alone
 * must take them so too. A run that passed a raise mark may leave less behind than before:
 * code that raises does not give its references back, and pruning such a pair mends that.
 *
 * Output: a line a failure (the first of each function), then a line of totals. The exit
 * status is 0 if there was no failure, 1 if there was one, 2 if a file is no good.
 */
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_OBJECTS = 96, /* of one run; `make` ends the run where there are more */
    MAX_SHARED = 4,   /* objects that are there when the function starts */
    MAX_BLOCKS_RUN = 80,
    MAX_ATTEMPTS = 200, /* references added for the caller, one at a time */
    NO_OBJECT = -1,
};

enum operation_kind {
    INCREF,
    DECREF,
    USE,    /* reads the object */
    PICK,   /* result: any object of those shared, or null */
    MAKE,   /* result: a new object, counted once */
    SELECT, /* result: one of two operands */
    COPY,   /* result: the operand */
    RAISE,  /* a raise mark */
};

struct operation {
    enum operation_kind kind;
    int operands[2]; /* numbers of values; NO_OBJECT for what is no object */
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

/* --- Memory that is given back all at once ---------------------------------------------- */

static struct {
    char *bytes;
    size_t used, size;
} arena;

static void *take(size_t count, size_t size)
{
    size_t bytes = (count * size + 15) & ~(size_t)15;
    if (arena.used + bytes > arena.size) {
        fprintf(stderr, "prune-interpret: a function is too large\n");
        exit(2);
    }
    void *place = arena.bytes + arena.used;
    arena.used += bytes;
    return memset(place, 0, bytes);
}

/* --- From LLVM's functions to ours ------------------------------------------------------ */

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
    struct numbers numbers = {take(size, sizeof(void *)), take(size, sizeof(int)),
                              size - 1};
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
    struct block *block; /* being read */
    unsigned raise_kind; /* of the metadata that marks a raise */
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

static void read_call(struct reading *reading, LLVMValueRef call)
{
    LLVMValueRef callee = LLVMGetCalledValue(call);
    unsigned count = LLVMGetNumArgOperands(call);
    if (named(callee, "NRT_incref") || named(callee, "NRT_decref")) {
        enum operation_kind kind = named(callee, "NRT_incref") ? INCREF : DECREF;
        add(reading, kind, LLVMGetOperand(call, 0), NULL, NULL);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        if (is_pointer(LLVMGetOperand(call, i)))
            add(reading, USE, LLVMGetOperand(call, i), NULL, NULL);
    if (is_pointer(call))
        add(reading, named(callee, "make") ? MAKE : PICK, NULL, NULL, call);
}

static void read_phi(struct reading *reading, LLVMValueRef instruction)
{
    struct phi *phi = &reading->block->phis[reading->block->phi_count++];
    phi->count = (int)LLVMCountIncoming(instruction);
    phi->blocks = take((size_t)phi->count, sizeof(int));
    phi->values = take((size_t)phi->count, sizeof(int));
    phi->result = number_of(&reading->values, instruction);
    for (int i = 0; i < phi->count; i++) {
        LLVMBasicBlockRef block = LLVMGetIncomingBlock(instruction, (unsigned)i);
        LLVMValueRef value = LLVMGetIncomingValue(instruction, (unsigned)i);
        phi->blocks[i] = number_of(&reading->blocks, block);
        phi->values[i] = number_of(&reading->values, value);
    }
}

static void read_instruction(struct reading *reading, LLVMValueRef instruction)
{
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMCall:
        read_call(reading, instruction);
        break;
    case LLVMPHI:
        if (is_pointer(instruction))
            read_phi(reading, instruction);
        break;
    case LLVMLoad:
        add(reading, USE, LLVMGetOperand(instruction, 0), NULL, NULL);
        if (is_pointer(instruction))
            add(reading, PICK, NULL, NULL, instruction);
        break;
    case LLVMStore:
        add(reading, USE, LLVMGetOperand(instruction, 1), NULL, NULL);
        if (named(LLVMGetOperand(instruction, 1), "excinfo") &&
            LLVMGetMetadata(instruction, reading->raise_kind) != NULL)
            add(reading, RAISE, NULL, NULL, NULL);
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

/* At most so many operations and phis come of the instructions of a block. */
static void count_room(LLVMBasicBlockRef block, size_t *operations, size_t *phis)
{
    *operations = *phis = 0;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i;
         i = LLVMGetNextInstruction(i)) {
        *operations += 2 + (size_t)LLVMGetNumOperands(i);
        *phis += LLVMGetInstructionOpcode(i) == LLVMPHI;
    }
}

static void read_block(struct reading *reading, LLVMBasicBlockRef source)
{
    struct block *block = reading->block;
    size_t operations, phis;
    count_room(source, &operations, &phis);
    block->operations = take(operations, sizeof *block->operations);
    block->phis = take(phis, sizeof *block->phis);
    LLVMValueRef instruction = LLVMGetFirstInstruction(source);
    for (; instruction; instruction = LLVMGetNextInstruction(instruction))
        read_instruction(reading, instruction);

    LLVMValueRef last = LLVMGetBasicBlockTerminator(source);
    block->returns = LLVMGetInstructionOpcode(last) == LLVMRet;
    block->successor_count = (int)LLVMGetNumSuccessors(last);
    block->successors = take((size_t)block->successor_count, sizeof(int));
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

static struct function read_function(LLVMValueRef source)
{
    size_t length;
    struct function function = {.name = LLVMGetValueName2(source, &length)};
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(source));
    struct reading reading = {
        .values = make_numbers(count_values(source)),
        .blocks = make_numbers(LLVMCountBasicBlocks(source)),
        .raise_kind = LLVMGetMDKindIDInContext(context, "numba_exception_output", 22)};
    function.value_count = (int)number_values(&reading, source);
    function.parameter_count = (int)LLVMCountParams(source);
    function.block_count = (int)LLVMCountBasicBlocks(source);
    function.blocks = take((size_t)function.block_count, sizeof *function.blocks);
    function.excinfo = NO_OBJECT;
    for (int i = 0; i < function.parameter_count; i++)
        if (named(LLVMGetParam(source, (unsigned)i), "excinfo"))
            function.excinfo = i;

    int next = 0;
    LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(source);
    for (; block; block = LLVMGetNextBasicBlock(block))
        set_number(&reading.blocks, block, next++);
    next = 0;
    for (block = LLVMGetFirstBasicBlock(source); block;
         block = LLVMGetNextBasicBlock(block)) {
        reading.block = &function.blocks[next++];
        read_block(&reading, block);
    }
    return function;
}

/* --- Running ---------------------------------------------------------------------------- */

struct object {
    int count;          /* references; 0: freed, or never there */
    int children[2];    /* objects that this one holds a reference to, or NO_OBJECT */
    bool released_late; /* a reference was given back behind a raise mark */
};

/* What the seed of a run says about the world; the same for both versions. */
struct world {
    uint64_t seed;
    int shared;              /* how many objects there are at the start */
    int callers[MAX_SHARED]; /* references that the caller holds */
    int children[MAX_SHARED][2];
};

enum verdict { FINE, USED_FREED, FREED_TWICE, CUT };

struct run {
    const struct function *function;
    const struct world *world;
    struct object objects[MAX_OBJECTS];
    int object_count;
    int *values;    /* the object that each value is, or NO_OBJECT */
    int *scratch;   /* as many again, for phis, which all change at once */
    uint64_t asked; /* decisions so far */
    bool raised;
    bool returned;
    int blamed;   /* the object that was freed, after a failure */
    int where[2]; /* block and operation of the failure */
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* A number below `limit` that depends on the seed and on how many were asked for before. */
static int decide(struct run *run, int limit)
{
    uint64_t random = mix(run->world->seed + 0x9E3779B97F4A7C15u * ++run->asked);
    return (int)(random >> 33) % limit;
}

static int any_object(struct run *run)
{
    int choice = decide(run, run->world->shared * 8 + 1);
    return choice == run->world->shared * 8 ? NO_OBJECT : choice % run->world->shared;
}

static enum verdict blame(struct run *run, int object, enum verdict verdict)
{
    run->blamed = object;
    return verdict;
}

/* Gives one reference back; at the last one, those that the object holds as well. */
static enum verdict release(struct run *run, int object)
{
    if (run->objects[object].count == 0)
        return blame(run, object, FREED_TWICE);
    run->objects[object].released_late |= run->raised;
    if (--run->objects[object].count > 0)
        return FINE;
    enum verdict verdict = FINE;
    for (int i = 0; i < 2 && verdict == FINE; i++)
        if (run->objects[object].children[i] != NO_OBJECT)
            verdict = release(run, run->objects[object].children[i]);
    return verdict;
}

static int make_object(struct run *run)
{
    struct object *object = &run->objects[run->object_count];
    *object = (struct object){.count = 1, .children = {NO_OBJECT, NO_OBJECT}};
    return run->object_count++;
}

static enum verdict perform(struct run *run, const struct operation *operation)
{
    const int *operands = operation->operands;
    int object = operands[0] == NO_OBJECT ? NO_OBJECT : run->values[operands[0]];

    switch (operation->kind) {
    case INCREF:
    case USE:
        if (object == NO_OBJECT)
            return FINE;
        if (run->objects[object].count == 0)
            return blame(run, object, USED_FREED);
        run->objects[object].count += operation->kind == INCREF;
        return FINE;
    case DECREF:
        return object == NO_OBJECT ? FINE : release(run, object);
    case PICK:
        run->values[operation->result] = any_object(run);
        return FINE;
    case MAKE:
        if (run->object_count == MAX_OBJECTS)
            return CUT;
        run->values[operation->result] = make_object(run);
        return FINE;
    case SELECT:
        if (decide(run, 2) == 1)
            object = operands[1] == NO_OBJECT ? NO_OBJECT : run->values[operands[1]];
        run->values[operation->result] = object;
        return FINE;
    case COPY:
        run->values[operation->result] = object;
        return FINE;
    case RAISE:
        run->raised = true;
        return FINE;
    }
    return FINE;
}

static void enter(struct run *run, const struct block *block, int from)
{
    for (int i = 0; i < block->phi_count; i++) {
        const struct phi *phi = &block->phis[i];
        int arm = 0;
        while (phi->blocks[arm] != from)
            arm++;
        int value = phi->values[arm];
        run->scratch[i] = value == NO_OBJECT ? NO_OBJECT : run->values[value];
    }
    for (int i = 0; i < block->phi_count; i++)
        run->values[block->phis[i].result] = run->scratch[i];
}

static void start(struct run *run)
{
    const struct world *world = run->world;
    run->object_count = world->shared;
    run->asked = 0;
    run->raised = run->returned = false;
    for (int i = 0; i < world->shared; i++) {
        run->objects[i] = (struct object){.count = world->callers[i]};
        memcpy(run->objects[i].children, world->children[i], sizeof world->children[i]);
    }
    for (int i = 0; i < world->shared; i++) /* a holder of references has to be alive */
        for (int k = 0; run->objects[i].count > 0 && k < 2; k++)
            if (world->children[i][k] != NO_OBJECT)
                run->objects[world->children[i][k]].count++;
    for (int i = 0; i < run->function->value_count; i++)
        run->values[i] = NO_OBJECT;
    for (int i = 0; i < run->function->parameter_count; i++)
        run->values[i] = i == run->function->excinfo ? NO_OBJECT : any_object(run);
}

/* One run from the entry to a return, to a failure, or until it is long enough. */
static enum verdict go(struct run *run)
{
    start(run);
    int current = 0, from = NO_OBJECT;
    for (int steps = 0; steps < MAX_BLOCKS_RUN; steps++) {
        const struct block *block = &run->function->blocks[current];
        enter(run, block, from);
        for (int i = 0; i < block->operation_count; i++) {
            enum verdict verdict = perform(run, &block->operations[i]);
            run->where[0] = current;
            run->where[1] = i;
            if (verdict != FINE)
                return verdict;
        }
        run->returned = block->returns;
        if (block->successor_count == 0)
            return FINE;
        from = current;
        current = block->successors[decide(run, block->successor_count)];
    }
    return CUT;
}

/* Which objects there are and who holds whom; later objects never hold earlier ones. */
static struct world make_world(uint64_t seed)
{
    struct world world = {.seed = seed};
    uint64_t random = mix(seed ^ 0x5DEECE66Du);
    world.shared = 1 + (int)(random % MAX_SHARED);
    for (int i = 0; i < MAX_SHARED; i++)
        for (int k = 0; k < 2; k++) {
            int child = i + 1 + (int)(mix(random + (uint64_t)(i * 2 + k)) >> 40) % 6;
            world.children[i][k] = child < world.shared ? child : NO_OBJECT;
        }
    return world;
}

/* One more reference of the caller: to what was freed too early, or to what held it. */
static bool give_reference(struct world *world, const struct run *run, int attempt)
{
    if (run->blamed >= world->shared)
        return false; /* made by the function itself: nobody else can hold it */
    int receiver = run->blamed;
    for (int i = 0; i < receiver; i++)
        if ((world->children[i][0] == receiver || world->children[i][1] == receiver) &&
            run->objects[i].count == 0 &&
            mix(world->seed + (uint64_t)(attempt * 8 + i)) % 3 == 0)
            receiver = i;
    world->callers[receiver]++;
    return true;
}

/* Runs the first version with as few references as it can live with. */
static enum verdict run_original(struct run *run, struct world *world)
{
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        enum verdict verdict = go(run);
        if (verdict == FINE || verdict == CUT)
            return verdict;
        if (!give_reference(world, run, attempt))
            break;
    }
    return USED_FREED;
}

/* May this object have fewer references than before? Only if the function raised and kept
 * what it had then: what it gave back later, it had not lost. */
static bool may_have_fewer(const struct run *before, int object)
{
    return before->raised && !before->objects[object].released_late;
}

static const char *compare(const struct run *before, const struct run *after)
{
    for (int i = 0; i < before->object_count; i++) {
        if (after->objects[i].count > before->objects[i].count)
            return "leak";
        if (after->objects[i].count < before->objects[i].count &&
            !may_have_fewer(before, i))
            return "reference lost";
    }
    return NULL;
}

struct totals {
    long functions, runs, senseless, failures;
};

static const char *run_both(struct run *before, struct run *after, uint64_t seed,
                            struct totals *totals)
{
    struct world world = make_world(seed);
    before->world = after->world = &world;
    enum verdict verdict = run_original(before, &world);
    totals->runs++;
    if (verdict == USED_FREED) {
        totals->senseless++;
        return NULL;
    }
    switch (go(after)) {
    case USED_FREED:
        return "use after free";
    case FREED_TWICE:
        return "double free";
    case CUT:
        return NULL; /* counts in the middle of a run may differ */
    case FINE:
        break;
    }
    return verdict == FINE && before->returned ? compare(before, after) : NULL;
}

static struct run make_run(const struct function *function)
{
    size_t count = (size_t)function->value_count + 1;
    struct run run = {.function = function,
                      .values = take(count, sizeof(int)),
                      .scratch = take(count, sizeof(int))};
    return run;
}

static void check_function(LLVMValueRef before, LLVMValueRef after, int runs,
                           uint64_t seed, struct totals *totals)
{
    arena.used = 0;
    struct function first = read_function(before), second = read_function(after);
    if (first.block_count != second.block_count ||
        first.value_count != second.value_count) {
        printf("%s: other blocks or values than before\n", first.name);
        totals->failures++;
        return;
    }
    struct run one = make_run(&first), two = make_run(&second);
    for (int i = 0; i < runs; i++) {
        const char *failure = run_both(&one, &two, mix(seed + (uint64_t)i), totals);
        if (failure == NULL)
            continue;
        printf("%s: %s, run %d, block %d, operation %d\n", first.name, failure, i,
               two.where[0], two.where[1]);
        totals->failures++;
        return;
    }
}

static LLVMModuleRef read_module(const char *path)
{
    LLVMMemoryBufferRef buffer;
    LLVMModuleRef module;
    char *words = NULL;
    if (LLVMCreateMemoryBufferWithContentsOfFile(path, &buffer, &words) != 0 ||
        LLVMParseIRInContext(LLVMContextCreate(), buffer, &module, &words) != 0) {
        fprintf(stderr, "prune-interpret: %s: %s\n", path, words);
        exit(2);
    }
    return module;
}

int main(int count, char **arguments)
{
    if (count < 3) {
        fprintf(stderr, "usage: prune-interpret BEFORE AFTER [RUNS [SEED]]\n");
        return 2;
    }
    LLVMModuleRef before = read_module(arguments[1]), after = read_module(arguments[2]);
    int runs = count > 3 ? atoi(arguments[3]) : 32;
    uint64_t seed = count > 4 ? strtoull(arguments[4], NULL, 10) : 0;
    arena.size = (size_t)256 << 20;
    arena.bytes = malloc(arena.size);

    struct totals totals = {0};
    LLVMValueRef function = LLVMGetFirstFunction(before);
    for (; function && arena.bytes; function = LLVMGetNextFunction(function)) {
        if (LLVMIsDeclaration(function))
            continue;
        size_t length;
        LLVMValueRef other =
            LLVMGetNamedFunction(after, LLVMGetValueName2(function, &length));
        if (other == NULL) {
            fprintf(stderr, "prune-interpret: a function is missing\n");
            return 2;
        }
        totals.functions++;
        check_function(function, other, runs, mix(seed + (uint64_t)totals.functions),
                       &totals);
    }
    printf("functions=%ld runs=%ld senseless=%ld failures=%ld\n", totals.functions,
           totals.runs, totals.senseless, totals.failures);
    return totals.failures != 0;
}
