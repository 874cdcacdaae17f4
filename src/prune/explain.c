/* explain.c -- explain why an incref stayed, after a function is done.
 *
 * The most permissive search is repeated for every incref that is left. Its verdict
 * becomes a message with the names that the IR prints, and with the source line where
 * there is debug info.
 */
#include "prune/explain.h"
#include "prune/counter.h"
#include "prune/verdict.h"
#include <stdio.h>
#include <string.h>

static const char *const rule_messages[] = {
#define X(name, value, message) [TARN_PRUNE_##name] = message,
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
static unsigned printed_number(const struct tarn__function_index *function_index,
                               uint32_t wanted)
{
    unsigned number = 0;

    for (unsigned i = 0; i < LLVMCountParams(function_index->function); i++)
        number += takes_number(LLVMGetParam(function_index->function, i));
    for (uint32_t b = 0; b < wanted; b++) {
        LLVMValueRef at = LLVMGetFirstInstruction(function_index->blocks[b]);
        number += takes_number(LLVMBasicBlockAsValue(function_index->blocks[b]));
        for (; at; at = LLVMGetNextInstruction(at))
            number += !is_void(at) && takes_number(at);
    }
    return number;
}

static const char *block_name(const struct tarn__function_index *function_index,
                              uint32_t block)
{
    struct tarn__arena *arena = &function_index->pruning->arena;
    LLVMValueRef value = LLVMBasicBlockAsValue(function_index->blocks[block]);
    size_t length;
    const char *name = LLVMGetValueName2(value, &length);
    char *text = TARN__TAKE(arena, char, length + 16);

    if (!text)
        return "";
    if (length == 0)
        snprintf(text, 16, "%%%u", printed_number(function_index, block));
    else
        snprintf(text, length + 16, "%%%.*s", (int)length, name);
    return text;
}

/* --- places ------------------------------------------------------------------------- */

static tarn_prune_place place_of(const struct tarn__function_index *function_index,
                                 uint32_t block, LLVMValueRef instruction)
{
    struct tarn__arena *arena = &function_index->pruning->arena;
    tarn_prune_place place = {.block = "", .instruction = "", .file = ""};
    unsigned length = 0;

    if (block != TARN__NONE)
        place.block = block_name(function_index, block);
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
static tarn_prune_place place_of_verdict(
    const struct tarn__function_index *function_index,
    const struct tarn__verdict *verdict)
{
    tarn_prune_place place;

    if (verdict->instruction || verdict->block == TARN__NONE)
        return place_of(function_index, verdict->block, verdict->instruction);
    place = place_of(function_index, verdict->block,
                     LLVMGetBasicBlockTerminator(function_index->blocks[verdict->block]));
    place.instruction = "";
    return place;
}

static void report_incref(struct tarn__function_index *function_index,
                          const struct tarn__refop *incref,
                          const struct tarn__verdict *verdict)
{
    const tarn_prune_options *options = &function_index->pruning->options;
    struct tarn__arena *arena = &function_index->pruning->arena;
    size_t length;
    const char *function = LLVMGetValueName2(function_index->function, &length);

    if (!options->explain && !options->counter)
        return;
    tarn_prune_kept kept = {
        .rule = verdict->rule,
        .message = rule_messages[verdict->rule],
        .function = copied(arena, function, length),
        .value = printed(arena, incref->value),
        .incref = place_of(function_index, incref->block, incref->call),
        .at = place_of_verdict(function_index, verdict),
    };
    if (options->explain && verdict->rule != TARN_PRUNE_NO_DECREF)
        options->explain(options->explain_data, &kept);
    uint64_t *counter =
        options->counter ? options->counter(options->explain_data, &kept) : NULL;
    if (counter)
        tarn__counter_insert(function_index, incref, counter);
}

/* --- which rule --------------------------------------------------------------------- */

static bool has_decref(const struct tarn__function_index *function_index,
                       const struct tarn__refop *incref)
{
    uint32_t value = incref->value_number;

    return function_index->first_place[value] < function_index->first_place[value + 1];
}

static bool all_gone(struct tarn__function_index *function_index, uint32_t value)
{
    return tarn__function_index_next_place(function_index, value,
                                           function_index->first_place[value]) ==
           function_index->first_place[value + 1];
}

bool tarn__explain(struct tarn__function_index *function_index, tarn__explain_fn ask,
                   void *search)
{
    const tarn_prune_options *options = &function_index->pruning->options;

    for (uint32_t i = 0; i < function_index->refop_count; i++) {
        const struct tarn__refop *refop = &function_index->refops[i];
        if (!refop->incref || !refop->call)
            continue;
        bool pairs = has_decref(function_index, refop);
        function_index->pruning->report.kept += pairs;
        if (!options->counter && (!pairs || !options->explain))
            continue;
        struct tarn__verdict verdict =
            tarn__verdict_reject(TARN_PRUNE_NO_DECREF, TARN__NONE);
        if (pairs && all_gone(function_index, refop->value_number))
            verdict = tarn__verdict_reject(TARN_PRUNE_FEWER_DECREFS, TARN__NONE);
        else if (pairs)
            verdict = ask(search, i);
        report_incref(function_index, refop, &verdict);
    }
    return !function_index->pruning->arena.failed;
}

bool tarn__explain_optnone(struct tarn__function_index *function_index)
{
    struct tarn__verdict verdict =
        tarn__verdict_reject(TARN_PRUNE_NOT_OPTIMIZED, TARN__NONE);

    if (!tarn__function_index_number_values(function_index))
        return false;
    for (uint32_t i = 0; i < function_index->refop_count; i++) {
        const struct tarn__refop *refop = &function_index->refops[i];
        if (!refop->incref || !has_decref(function_index, refop))
            continue;
        function_index->pruning->report.kept++;
        report_incref(function_index, refop, &verdict);
    }
    return !function_index->pruning->arena.failed;
}
