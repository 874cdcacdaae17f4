/* prune.c -- prune the functions of a module, one after the other.
 *
 * For each function: find its refops, move decrefs behind increfs, then let every shape
 * remove the pairs that it allows, until none finds any more. A removal by one shape may
 * enable another. Most functions have no incref at all and need only one look.
 */
#include "prune/carried.h"
#include "prune/cfg.h"
#include "prune/counter.h"
#include "prune/explain.h"
#include "prune/llvmlite.h"
#include "prune/normalize.h"
#include "prune/per_block.h"
#include "prune/sound.h"
#include "prune/verdict.h"
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_SUBGRAPH_LIMIT = 1000 };

static tarn_status no_memory(void)
{
    return tarn_error_set(TARN_OUT_OF_MEMORY, "prune: no host memory for a function");
}

/* --- options ------------------------------------------------------------------------ */

static tarn_status check_options(const tarn_prune_options *options)
{
    if (options->mode != TARN_PRUNE_SOUND && options->mode != TARN_PRUNE_LLVMLITE &&
        options->mode != TARN_PRUNE_ASSUME_CALLS_KEEP)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "prune: unknown mode %d",
                              (int)options->mode);
    if (options->shapes & ~(unsigned)TARN_PRUNE_ALL)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "prune: shapes %#x has unknown bits",
                              options->shapes);
    if (options->raise_metadata &
        ~(unsigned)(TARN_PRUNE_RAISE_STORE | TARN_PRUNE_RAISE_RET))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "prune: raise_metadata %#x has unknown bits",
                              options->raise_metadata);
    return TARN_OK;
}

static tarn_prune_options completed(const tarn_prune_options *options)
{
    tarn_prune_options full = {.mode = TARN_PRUNE_SOUND};

    if (options)
        full = *options;
    if (full.shapes == 0)
        full.shapes = TARN_PRUNE_ALL;
    if (full.raise_metadata == 0)
        full.raise_metadata = full.mode == TARN_PRUNE_LLVMLITE
                                  ? TARN_PRUNE_RAISE_STORE
                                  : TARN_PRUNE_RAISE_STORE | TARN_PRUNE_RAISE_RET;
    if (full.subgraph_limit == 0)
        full.subgraph_limit = DEFAULT_SUBGRAPH_LIMIT;
    return full;
}

/* --- one function ------------------------------------------------------------------- */

/* May anything be left that cancels out? */
static bool has_both(const struct tarn__function_index *function_index)
{
    bool incref = false, decref = false;

    for (uint32_t i = 0; i < function_index->refop_count; i++) {
        incref |= function_index->refops[i].call && function_index->refops[i].incref;
        decref |= function_index->refops[i].call && !function_index->refops[i].incref;
    }
    return incref && decref;
}

/* Is there an incref with a decref of the same value, in whatever blocks? */
static bool has_pair(const struct tarn__function_index *function_index)
{
    for (uint32_t i = 0; i < function_index->refop_count; i++) {
        const struct tarn__refop *refop = &function_index->refops[i];
        if (refop->incref && refop->call &&
            function_index->first_place[refop->value_number] <
                function_index->first_place[refop->value_number + 1])
            return true;
    }
    return false;
}

static bool wants(const struct tarn__function_index *function_index, unsigned shape)
{
    return (function_index->pruning->options.shapes & shape) != 0;
}

/* llvmlite's rounds; false: no host memory. */
static bool prune_as_llvmlite(struct tarn__function_index *function_index,
                              struct tarn__llvmlite *search)
{
    bool changed;

    do {
        changed = wants(function_index, TARN_PRUNE_PER_BLOCK) &&
                  tarn__per_block_prune(function_index);
        if (wants(function_index, TARN_PRUNE_DIAMOND))
            changed |= tarn__llvmlite_diamond(search);
        if (wants(function_index, TARN_PRUNE_FANOUT))
            changed |= tarn__llvmlite_fanout(search, false);
        if (wants(function_index, TARN_PRUNE_FANOUT_RAISE))
            changed |= tarn__llvmlite_fanout(search, true);
    } while (changed && !function_index->pruning->arena.failed);
    return !function_index->pruning->arena.failed;
}

/* The most permissive search gives the explanation. */
static struct tarn__verdict explain_llvmlite(void *data, uint32_t incref)
{
    struct tarn__llvmlite *search = data;
    const struct tarn__function_index *function_index =
        tarn__llvmlite_function_index(search);
    struct tarn__verdict verdict = tarn__verdict_allow();

    if (wants(function_index, TARN_PRUNE_FANOUT_RAISE))
        verdict = tarn__llvmlite_explain(search, incref, true);
    if (wants(function_index, TARN_PRUNE_FANOUT) &&
        (verdict.allowed || verdict.rule == TARN_PRUNE_NO_RAISE))
        verdict = tarn__llvmlite_explain(search, incref, false);
    return verdict.allowed ? tarn__verdict_reject(TARN_PRUNE_NO_SHAPE, TARN__NONE)
                           : verdict;
}

static bool across_as_llvmlite(struct tarn__function_index *function_index,
                               const struct tarn__cfg *cfg)
{
    struct tarn__llvmlite *search = tarn__llvmlite_open(function_index, cfg);

    return search && prune_as_llvmlite(function_index, search) &&
           tarn__explain(function_index, explain_llvmlite, search);
}

static struct tarn__verdict explain_sound(void *data, uint32_t incref)
{
    return tarn__sound_explain(data, incref);
}

/* Pairs first, then sets of refops; a set that is gone may leave new pairs. */
static bool prune_soundly(struct tarn__function_index *function_index,
                          struct tarn__sound *sound)
{
    if (!tarn__sound_prune(sound))
        return false;
    if (!wants(function_index, TARN_PRUNE_CARRIED) || !has_both(function_index))
        return true;
    uint32_t before = function_index->removed;
    if (!tarn__carried_prune(function_index, &sound->regions))
        return false;
    return function_index->removed == before || tarn__sound_prune(sound);
}

static bool across_soundly(struct tarn__function_index *function_index,
                           const struct tarn__cfg *cfg)
{
    struct tarn__sound sound;
    bool good = tarn__sound_open(&sound, function_index, cfg) &&
                prune_soundly(function_index, &sound) &&
                tarn__explain(function_index, explain_sound, &sound);

    tarn__sound_close(&sound);
    return good;
}

static bool prune_across_blocks(struct tarn__function_index *function_index)
{
    struct tarn__cfg cfg;

    if (!tarn__cfg_open(&cfg, function_index))
        return false;
    return function_index->pruning->options.mode == TARN_PRUNE_LLVMLITE
               ? across_as_llvmlite(function_index, &cfg)
               : across_soundly(function_index, &cfg);
}

/* All steps except finding the refops; false: no host memory. */
static bool prune_index(struct tarn__function_index *function_index)
{
    if (!tarn__function_index_find_calls(function_index))
        return false;
    tarn__normalize(function_index);
    if (!tarn__function_index_number_values(function_index))
        return false;
    if (wants(function_index, TARN_PRUNE_PER_BLOCK))
        tarn__per_block_prune(function_index);
    bool carried = function_index->pruning->options.mode != TARN_PRUNE_LLVMLITE &&
                   wants(function_index, TARN_PRUNE_CARRIED) && has_both(function_index);
    if (carried || has_pair(function_index))
        return prune_across_blocks(function_index);
    return tarn__explain(function_index, NULL, NULL); /* no decref of any value is left */
}

static tarn_status check_ends(const struct tarn__function_index *function_index)
{
    size_t length;

    for (uint32_t b = 0; b < function_index->block_count; b++)
        if (!LLVMGetBasicBlockTerminator(function_index->blocks[b]))
            return tarn_error_set(TARN_BAD_FORMAT,
                                  "prune: block %u of function %s has no terminator", b,
                                  LLVMGetValueName2(function_index->function, &length));
    return TARN_OK;
}

/* llvmlite's pass respects that attribute only since it is part of LLVM's new pass
 * manager. */
static bool is_optnone(const struct tarn__function_index *function_index)
{
    if (tarn__llvmlite_is_old(&function_index->pruning->options))
        return false;
    return LLVMGetEnumAttributeAtIndex(function_index->function,
                                       LLVMAttributeFunctionIndex,
                                       function_index->pruning->optnone) != NULL;
}

static tarn_status prune_function(struct tarn__pruning *pruning, LLVMValueRef function)
{
    struct tarn__function_index function_index;

    if (LLVMIsDeclaration(function))
        return TARN_OK;
    if (pruning->options.counter)
        tarn__counter_remove_all(pruning, function);
    if (!tarn__function_index_open(&function_index, pruning, function))
        return no_memory();
    pruning->report.functions++;
    pruning->report.increfs += function_index.incref_count;
    pruning->report.decrefs += function_index.refop_count - function_index.incref_count;
    if (function_index.incref_count == 0 && function_index.null_count == 0)
        return TARN_OK;
    tarn_status status = check_ends(&function_index);
    if (status != TARN_OK)
        return status;
    tarn__arena_reset(&pruning->arena);
    bool good = is_optnone(&function_index) ? tarn__explain_optnone(&function_index)
                                            : prune_index(&function_index);
    pruning->report.functions_changed += function_index.removed > 0;
    return good ? TARN_OK : no_memory();
}

/* --- one call ----------------------------------------------------------------------- */

static LLVMValueRef global_of_name(LLVMModuleRef module, const char *name)
{
    LLVMValueRef found = LLVMGetNamedFunction(module, name);

    if (!found)
        found = LLVMGetNamedGlobal(module, name);
    if (!found)
        found = LLVMGetNamedGlobalAlias(module, name, strlen(name));
    return found ? found : LLVMGetNamedGlobalIFunc(module, name, strlen(name));
}

static struct tarn__pruning begin(LLVMModuleRef module, bool whole,
                                  const tarn_prune_options *options)
{
    struct tarn__pruning pruning = {
        .options = completed(options),
        .context = LLVMGetModuleContext(module),
        .incref = global_of_name(module, "NRT_incref"),
        .decref = global_of_name(module, "NRT_decref"),
        .optnone = LLVMGetEnumAttributeKindForName("optnone", strlen("optnone")),
    };
    /* The bodies of a whole module are read only if all of it is pruned. */
    tarn__release_open(&pruning.release, whole ? module : NULL,
                       pruning.options.mode != TARN_PRUNE_SOUND);
    return pruning;
}

static void end(struct tarn__pruning *pruning)
{
    size_t kept = pruning->refop_capacity * sizeof *pruning->refops +
                  pruning->block_capacity *
                      (sizeof *pruning->blocks + sizeof *pruning->first_refop);

    pruning->report.peak_bytes =
        pruning->arena.peak_bytes + pruning->release.arena.peak_bytes + kept;
    tarn__arena_free(&pruning->arena);
    tarn__release_close(&pruning->release);
    free(pruning->refops);
    free(pruning->blocks);
    free(pruning->first_refop);
    if (pruning->builder)
        LLVMDisposeBuilder(pruning->builder);
}

tarn_status tarn_prune_module(LLVMModuleRef module, const tarn_prune_options *options,
                              tarn_prune_report *report)
{
    tarn_status status = TARN_OK;

    if (!module)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "prune: module is NULL");
    if (options && (status = check_options(options)) != TARN_OK)
        return status;
    struct tarn__pruning pruning = begin(module, true, options);
    for (LLVMValueRef function = LLVMGetFirstFunction(module);
         function && status == TARN_OK; function = LLVMGetNextFunction(function))
        status = prune_function(&pruning, function);
    end(&pruning);
    if (status == TARN_OK && report)
        *report = pruning.report;
    return status;
}

tarn_status tarn_prune_function(LLVMValueRef function, const tarn_prune_options *options,
                                tarn_prune_report *report)
{
    tarn_status status = TARN_OK;

    if (!function || !LLVMIsAFunction(function))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "prune: the value is not a function");
    if (options && (status = check_options(options)) != TARN_OK)
        return status;
    struct tarn__pruning pruning = begin(LLVMGetGlobalParent(function), false, options);
    status = prune_function(&pruning, function);
    end(&pruning);
    if (status == TARN_OK && report)
        *report = pruning.report;
    return status;
}
