/* explain.c -- explain why an incref stayed, after a function is done.
 *
 * The most permissive search is repeated for every incref that is left. Its verdict
 * becomes a message with the names that the IR prints, and with the source line where
 * there is debug info.
 */
#include "prune/explain.h"
#include <stdio.h>
#include <string.h>

static const char *const rule_words[] = {
#define X(name, value, words) [TARN_PRUNE_##name] = words,
    TARN_PRUNE_RULE_MAP(X)
#undef X
};

/* --- names -------------------------------------------------------------------------- */

static char *copied(struct tarn__arena *arena, const char *text, size_t length)
{
    char *copy = TARN__TAKE(arena, char, length + 1);

    if (copy)
        memcpy(copy, text, length);
    return copy ? copy : (char *)"";
}

/* An instruction or an argument as IR prints it, on one line. */
static const char *printed(struct tarn__arena *arena, LLVMValueRef value)
{
    char *text = LLVMPrintValueToString(value);
    const char *from = text + strspn(text, " ");
    char *copy = copied(arena, from, strcspn(from, "\n"));

    LLVMDisposeMessage(text);
    return copy;
}

static bool takes_number(LLVMValueRef value)
{
    size_t length;

    LLVMGetValueName2(value, &length);
    return length == 0;
}

static bool is_void(LLVMValueRef instruction)
{
    return LLVMGetTypeKind(LLVMTypeOf(instruction)) == LLVMVoidTypeKind;
}

/* The number that IR prints for a block without a name. Arguments, blocks and results
 * without names share one numbering. */
static unsigned printed_number(const struct tarn__view *view, uint32_t wanted)
{
    unsigned number = 0;

    for (unsigned i = 0; i < LLVMCountParams(view->function); i++)
        number += takes_number(LLVMGetParam(view->function, i));
    for (uint32_t b = 0; b < wanted; b++) {
        LLVMValueRef at = LLVMGetFirstInstruction(view->blocks[b]);
        number += takes_number(LLVMBasicBlockAsValue(view->blocks[b]));
        for (; at; at = LLVMGetNextInstruction(at))
            number += !is_void(at) && takes_number(at);
    }
    return number;
}

static const char *block_name(const struct tarn__view *view, uint32_t block)
{
    struct tarn__arena *arena = &view->pruning->arena;
    LLVMValueRef value = LLVMBasicBlockAsValue(view->blocks[block]);
    size_t length;
    const char *name = LLVMGetValueName2(value, &length);
    char *text = TARN__TAKE(arena, char, length + 16);

    if (!text)
        return "";
    if (length == 0)
        snprintf(text, 16, "%%%u", printed_number(view, block));
    else
        snprintf(text, length + 16, "%%%.*s", (int)length, name);
    return text;
}

/* --- places ------------------------------------------------------------------------- */

static tarn_prune_place place_of(const struct tarn__view *view, uint32_t block,
                                 LLVMValueRef instruction)
{
    struct tarn__arena *arena = &view->pruning->arena;
    tarn_prune_place place = {.block = "", .instruction = "", .file = ""};
    unsigned length = 0;

    if (block != TARN__NONE)
        place.block = block_name(view, block);
    if (instruction) {
        const char *file = LLVMGetDebugLocFilename(instruction, &length);
        place.instruction = printed(arena, instruction);
        place.file = file ? copied(arena, file, length) : "";
        place.line = LLVMGetDebugLocLine(instruction);
        place.column = LLVMGetDebugLocColumn(instruction);
    }
    return place;
}

/* For a block as a whole, the source place is that of its end. */
static tarn_prune_place place_of_verdict(const struct tarn__view *view,
                                         const struct tarn__verdict *verdict)
{
    tarn_prune_place place;

    if (verdict->instruction || verdict->block == TARN__NONE)
        return place_of(view, verdict->block, verdict->instruction);
    place = place_of(view, verdict->block,
                     LLVMGetBasicBlockTerminator(view->blocks[verdict->block]));
    place.instruction = "";
    return place;
}

static void tell(const struct tarn__view *view, const struct tarn__refop *incref,
                 const struct tarn__verdict *verdict)
{
    const tarn_prune_options *options = &view->pruning->options;
    struct tarn__arena *arena = &view->pruning->arena;
    size_t length;
    const char *function = LLVMGetValueName2(view->function, &length);

    if (!options->explain)
        return;
    tarn_prune_kept kept = {
        .rule = verdict->rule,
        .message = rule_words[verdict->rule],
        .function = copied(arena, function, length),
        .value = printed(arena, incref->value),
        .incref = place_of(view, incref->block, incref->call),
        .at = place_of_verdict(view, verdict),
    };
    options->explain(options->explain_data, &kept);
}

/* --- which rule --------------------------------------------------------------------- */

static bool has_decref(const struct tarn__view *view, const struct tarn__refop *incref)
{
    uint32_t value = incref->value_number;

    return view->first_place[value] < view->first_place[value + 1];
}

static bool all_gone(struct tarn__view *view, uint32_t value)
{
    return tarn__view_next_place(view, value, view->first_place[value]) ==
           view->first_place[value + 1];
}

bool tarn__explain(struct tarn__view *view, tarn__ask_fn ask, void *search)
{
    for (uint32_t i = 0; i < view->refop_count; i++) {
        const struct tarn__refop *refop = &view->refops[i];
        if (!refop->incref || !refop->call || !has_decref(view, refop))
            continue;
        view->pruning->report.kept++;
        if (!view->pruning->options.explain)
            continue;
        struct tarn__verdict verdict =
            all_gone(view, refop->value_number)
                ? tarn__refuse(TARN_PRUNE_FEWER_DECREFS, TARN__NONE)
                : ask(search, i);
        tell(view, refop, &verdict);
    }
    return !view->pruning->arena.failed;
}

bool tarn__explain_optnone(struct tarn__view *view)
{
    struct tarn__verdict verdict = tarn__refuse(TARN_PRUNE_NOT_OPTIMIZED, TARN__NONE);

    if (!tarn__view_number_values(view))
        return false;
    for (uint32_t i = 0; i < view->refop_count; i++) {
        const struct tarn__refop *refop = &view->refops[i];
        if (!refop->incref || !has_decref(view, refop))
            continue;
        view->pruning->report.kept++;
        tell(view, refop, &verdict);
    }
    return !view->pruning->arena.failed;
}
