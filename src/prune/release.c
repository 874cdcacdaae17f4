/* release.c -- releasing calls: which calls may release a reference that the function
 * does not name? */
#include "prune/release.h"
#include "prune/numba_helpers.h"
#include <string.h>

void tarn__release_open(struct tarn__release *release, LLVMModuleRef module,
                        bool calls_keep)
{
    *release = (struct tarn__release){
        .module = module,
        .calls_keep = calls_keep,
        .memory = LLVMGetEnumAttributeKindForName("memory", strlen("memory")),
        .readonly = LLVMGetEnumAttributeKindForName("readonly", strlen("readonly")),
        .readnone = LLVMGetEnumAttributeKindForName("readnone", strlen("readnone")),
        .nofree = LLVMGetEnumAttributeKindForName("nofree", strlen("nofree")),
    };
}

void tarn__release_close(struct tarn__release *release)
{
    tarn__arena_free(&release->arena);
}

/* --- one call, by its name and attributes ------------------------------------------- */

static LLVMAttributeRef attribute(LLVMValueRef call, LLVMValueRef callee, unsigned kind)
{
    LLVMAttributeRef found = NULL;

    if (kind != 0)
        found = LLVMGetCallSiteEnumAttribute(
            call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, kind);
    if (!found && kind != 0 && LLVMIsAFunction(callee))
        found = LLVMGetEnumAttributeAtIndex(
            callee, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, kind);
    return found;
}

/* The attribute memory() has two bits for each kind of memory: reads, writes. Before it,
 * LLVM had readnone and readonly for functions. */
static bool writes_nothing(const struct tarn__release *release, LLVMValueRef call,
                           LLVMValueRef callee)
{
    const uint64_t writes = UINT64_C(0xaaaaaaaaaaaaaaaa);
    LLVMAttributeRef memory = attribute(call, callee, release->memory);

    if (memory)
        return (LLVMGetEnumAttributeValue(memory) & writes) == 0;
    return release->memory == 0 && (attribute(call, callee, release->readonly) ||
                                    attribute(call, callee, release->readnone));
}

static bool is_named(LLVMValueRef function, const char *wanted)
{
    size_t length;
    const char *name = LLVMGetValueName2(function, &length);

    return length == strlen(wanted) && memcmp(name, wanted, length) == 0;
}

static bool is_helper(LLVMValueRef callee)
{
    size_t length;
    const char *name = LLVMGetValueName2(callee, &length);

    return LLVMIsDeclaration(callee) && tarn__numba_helpers_keep(name, length);
}

static bool is_call(LLVMValueRef instruction)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(instruction);

    return opcode == LLVMCall || opcode == LLVMInvoke || opcode == LLVMCallBr;
}

enum effect {
    KEEPS,
    RELEASES,
    AS_BODY /* as the callee's body does */
};

static enum effect effect_of(const struct tarn__release *release,
                             LLVMValueRef instruction)
{
    if (!is_call(instruction))
        return KEEPS;
    LLVMValueRef callee = LLVMGetCalledValue(instruction);
    if (LLVMIsAFunction(callee) && is_named(callee, "NRT_decref"))
        return RELEASES;
    if (writes_nothing(release, instruction, callee))
        return KEEPS;
    if (!LLVMIsAFunction(callee))
        return RELEASES; /* called through a pointer, an alias or inline assembly */
    if (is_named(callee, "NRT_incref") || is_helper(callee))
        return KEEPS;
    if (LLVMGetIntrinsicID(callee) != 0)
        return attribute(instruction, callee, release->nofree) ? KEEPS : RELEASES;
    return LLVMIsDeclaration(callee) ? RELEASES : AS_BODY;
}

/* --- bodies ------------------------------------------------------------------------- */

/* May the linker put another body in its place? */
static bool is_replaceable(LLVMValueRef function)
{
    LLVMLinkage linkage = LLVMGetLinkage(function);

    return linkage == LLVMWeakAnyLinkage || linkage == LLVMLinkOnceAnyLinkage ||
           linkage == LLVMCommonLinkage || linkage == LLVMExternalWeakLinkage;
}

static size_t slot_of(const struct tarn__release *release, LLVMValueRef function)
{
    size_t slot =
        (size_t)(((uintptr_t)function >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
        release->slot_mask;

    while (release->slots[slot] &&
           release->bodies[release->slots[slot] - 1].function != function)
        slot = (slot + 1) & release->slot_mask;
    return slot;
}

/* The function's body, or NULL if it has none that counts. */
static struct tarn__release_body *body_of(const struct tarn__release *release,
                                          LLVMValueRef function)
{
    uint32_t index = release->slots[slot_of(release, function)];

    return index == 0 ? NULL : &release->bodies[index - 1];
}

static bool list_bodies(struct tarn__release *release)
{
    uint32_t count = 0;
    size_t slots = 16;

    for (LLVMValueRef function = LLVMGetFirstFunction(release->module); function;
         function = LLVMGetNextFunction(function))
        count += !LLVMIsDeclaration(function) && !is_replaceable(function);
    while (slots < 2 * (size_t)count)
        slots *= 2;
    release->bodies = TARN__TAKE(&release->arena, struct tarn__release_body, count);
    release->slots = TARN__TAKE(&release->arena, uint32_t, slots);
    release->slot_mask = slots - 1;
    if (release->arena.failed)
        return false;
    for (LLVMValueRef function = LLVMGetFirstFunction(release->module); function;
         function = LLVMGetNextFunction(function)) {
        if (LLVMIsDeclaration(function) || is_replaceable(function))
            continue;
        size_t slot = slot_of(release, function);
        release->bodies[release->body_count].function = function;
        release->slots[slot] = ++release->body_count;
    }
    return true;
}

/* Remember that one body calls another. */
static bool add_caller(struct tarn__release *release, struct tarn__release_body *callee,
                       uint32_t caller)
{
    if (release->caller_count + 1 >= release->caller_capacity) {
        uint32_t capacity = release->caller_capacity ? 2 * release->caller_capacity : 256;
        struct tarn__release_caller *larger =
            TARN__TAKE(&release->arena, struct tarn__release_caller, capacity);
        if (!larger)
            return false;
        if (release->callers)
            memcpy(larger, release->callers,
                   (release->caller_count + 1) * sizeof *larger);
        release->callers = larger;
        release->caller_capacity = capacity;
    }
    release->callers[++release->caller_count] =
        (struct tarn__release_caller){.body = caller, .next = callee->first_caller};
    callee->first_caller = release->caller_count;
    return true;
}

/* Read the calls of a body up to the first that releases, whatever the bodies do. */
static bool read_body(struct tarn__release *release, uint32_t index)
{
    struct tarn__release_body *body = &release->bodies[index];

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(body->function); block;
         block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at;
             at = LLVMGetNextInstruction(at)) {
            enum effect effect = effect_of(release, at);
            if (effect == KEEPS)
                continue;
            struct tarn__release_body *callee =
                effect == AS_BODY ? body_of(release, LLVMGetCalledValue(at)) : NULL;
            if (!callee) {
                body->releases = true;
                return true;
            }
            if (!add_caller(release, callee, index))
                return false;
        }
    return true;
}

/* Carry the mark from each releasing body to its callers. */
static bool spread(struct tarn__release *release)
{
    uint32_t *stack = TARN__TAKE(&release->arena, uint32_t, release->body_count),
             depth = 0;

    if (release->arena.failed)
        return false;
    for (uint32_t i = 0; i < release->body_count; i++)
        if (release->bodies[i].releases)
            stack[depth++] = i;
    while (depth > 0) {
        const struct tarn__release_body *body = &release->bodies[stack[--depth]];
        for (uint32_t i = body->first_caller; i != 0; i = release->callers[i].next) {
            uint32_t caller = release->callers[i].body;
            if (release->bodies[caller].releases)
                continue;
            release->bodies[caller].releases = true;
            stack[depth++] = caller;
        }
    }
    return true;
}

static bool summarize(struct tarn__release *release)
{
    if (!list_bodies(release))
        return false;
    for (uint32_t i = 0; i < release->body_count; i++)
        if (!read_body(release, i))
            return false;
    return spread(release);
}

bool tarn__release_of_argument(LLVMValueRef instruction)
{
    if (!is_call(instruction))
        return false;
    LLVMValueRef callee = LLVMGetCalledValue(instruction);
    return is_named(callee, "NRT_decref") || is_named(callee, "NRT_MemInfo_release");
}

bool tarn__release_by(struct tarn__release *release, LLVMValueRef instruction)
{
    if (release->calls_keep)
        return false;
    enum effect effect = effect_of(release, instruction);
    if (effect != AS_BODY)
        return effect == RELEASES;
    if (!release->module)
        return true;
    if (!release->summarized && !release->arena.failed)
        release->summarized = summarize(release);
    if (!release->summarized)
        return true;
    const struct tarn__release_body *body =
        body_of(release, LLVMGetCalledValue(instruction));
    return !body || body->releases;
}
