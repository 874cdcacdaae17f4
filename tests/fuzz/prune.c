/* prune.c -- a fuzz target: bytes make a function, both modes prune it, LLVM verifies it.
 *
 *     fuzz-prune [-max_total_time=600] [FOLDER]
 *
 * LLVM's readers crash on broken files themselves, so the bytes are no file. They are a
 * program that builds a function, which the verifier accepts by construction. It must
 * accept the result too, and the number of removed refops must equal the report.
 */
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/prune.h>

enum { BLOCKS = 24, POINTERS = 4, OPERATIONS = 12 };

struct input {
    const uint8_t *at, *end;
};

struct build {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTypeRef pointer, refop_type, flag_type;
    LLVMValueRef incref, decref, use, flag, kept, function;
    LLVMBasicBlockRef blocks[BLOCKS];
    unsigned block_count, refops;
};

static unsigned next(struct input *input, unsigned limit)
{
    return input->at < input->end ? *input->at++ % limit : 0;
}

static LLVMValueRef pick_pointer(struct build *build, struct input *input)
{
    unsigned which = next(input, POINTERS + 1);

    return which == POINTERS ? LLVMConstNull(build->pointer)
                             : LLVMGetParam(build->function, 1 + which);
}

static void call(struct build *build, LLVMValueRef callee, LLVMValueRef argument)
{
    LLVMBuildCall2(build->builder, build->refop_type, callee, &argument, 1, "");
}

static void build_raise(struct build *build)
{
    unsigned kind =
        LLVMGetMDKindIDInContext(build->context, "numba_exception_output", 22);
    LLVMMetadataRef none = LLVMMDNodeInContext2(build->context, NULL, 0);
    LLVMValueRef store = LLVMBuildStore(build->builder, LLVMConstNull(build->pointer),
                                        LLVMGetParam(build->function, 0));

    LLVMSetMetadata(store, kind, LLVMMetadataAsValue(build->context, none));
}

static void build_operation(struct build *build, struct input *input)
{
    switch (next(input, 7)) {
    case 0:
    case 1:
        call(build, build->incref, pick_pointer(build, input));
        build->refops++;
        break;
    case 2:
    case 3:
        call(build, build->decref, pick_pointer(build, input));
        build->refops++;
        break;
    case 4:
        call(build, build->use, pick_pointer(build, input));
        break;
    case 5:
        LLVMBuildStore(build->builder, pick_pointer(build, input), build->kept);
        break;
    default:
        build_raise(build);
    }
}

/* Any block except the entry. */
static LLVMBasicBlockRef pick_block(struct build *build, struct input *input)
{
    return build->blocks[1 + next(input, build->block_count - 1)];
}

static void build_end(struct build *build, struct input *input)
{
    LLVMValueRef condition =
        LLVMBuildCall2(build->builder, build->flag_type, build->flag, NULL, 0, "");
    LLVMBasicBlockRef first;
    LLVMValueRef choice;

    switch (build->block_count > 1 ? next(input, 5) : 0) {
    case 0:
        LLVMBuildRetVoid(build->builder);
        return;
    case 1:
        LLVMBuildUnreachable(build->builder);
        return;
    case 2:
        LLVMBuildBr(build->builder, pick_block(build, input));
        return;
    case 3:
        first = pick_block(build, input);
        LLVMBuildCondBr(build->builder, condition, first, pick_block(build, input));
        return;
    default:
        choice = LLVMBuildSwitch(build->builder, condition, pick_block(build, input), 2);
        for (unsigned i = 0; i < 2; i++)
            LLVMAddCase(choice, LLVMConstInt(LLVMTypeOf(condition), i, 0),
                        pick_block(build, input));
    }
}

static void declare(struct build *build)
{
    LLVMTypeRef nothing = LLVMVoidTypeInContext(build->context);
    LLVMTypeRef parameters[1 + POINTERS];

    build->pointer = LLVMPointerType(LLVMInt8TypeInContext(build->context), 0);
    build->refop_type = LLVMFunctionType(nothing, &build->pointer, 1, 0);
    build->flag_type =
        LLVMFunctionType(LLVMInt1TypeInContext(build->context), NULL, 0, 0);
    build->incref = LLVMAddFunction(build->module, "NRT_incref", build->refop_type);
    build->decref = LLVMAddFunction(build->module, "NRT_decref", build->refop_type);
    build->use = LLVMAddFunction(build->module, "use", build->refop_type);
    build->flag = LLVMAddFunction(build->module, "flag", build->flag_type);
    build->kept = LLVMAddGlobal(build->module, build->pointer, "kept");
    parameters[0] = LLVMPointerType(build->pointer, 0);
    for (int i = 0; i < POINTERS; i++)
        parameters[1 + i] = build->pointer;
    build->function = LLVMAddFunction(
        build->module, "f", LLVMFunctionType(nothing, parameters, 1 + POINTERS, 0));
    LLVMSetValueName2(LLVMGetParam(build->function, 0), "excinfo", 7);
}

static struct build make(struct input input)
{
    struct build build = {.context = LLVMContextCreate()};

    build.module = LLVMModuleCreateWithNameInContext("fuzz", build.context);
    build.builder = LLVMCreateBuilderInContext(build.context);
    declare(&build);
    build.block_count = 1 + next(&input, BLOCKS);
    for (unsigned i = 0; i < build.block_count; i++)
        build.blocks[i] =
            LLVMAppendBasicBlockInContext(build.context, build.function, "");
    for (unsigned i = 0; i < build.block_count; i++) {
        LLVMPositionBuilderAtEnd(build.builder, build.blocks[i]);
        for (unsigned left = next(&input, OPERATIONS); left > 0; left--)
            build_operation(&build, &input);
        build_end(&build, &input);
    }
    return build;
}

static void give_up(const char *what)
{
    fprintf(stderr, "fuzz-prune: %s: %s\n", what, tarn_error_last()->message);
    abort();
}

static unsigned count_uses(LLVMValueRef function)
{
    unsigned count = 0;

    for (LLVMUseRef use = LLVMGetFirstUse(function); use; use = LLVMGetNextUse(use))
        count++;
    return count;
}

static void ignore(void *data, const tarn_prune_kept *kept)
{
    *(size_t *)data +=
        strlen(kept->message) + strlen(kept->at.block) + strlen(kept->incref.instruction);
}

static void check(struct input input, tarn_prune_mode mode)
{
    struct build build = make(input);
    size_t words = 0;
    tarn_prune_options options = {
        .mode = mode, .explain = ignore, .explain_data = &words};
    tarn_prune_report report;

    if (LLVMVerifyModule(build.module, LLVMReturnStatusAction, NULL))
        give_up("the target made a bad module");
    if (tarn_prune_module(build.module, &options, &report) != TARN_OK)
        give_up("refused");
    if (LLVMVerifyModule(build.module, LLVMReturnStatusAction, NULL))
        give_up("the verifier refuses what came out");
    if (build.refops - (count_uses(build.incref) + count_uses(build.decref)) !=
        report.per_block + report.diamond + report.fanout + report.fanout_raise +
            report.carried)
        give_up("the report counts something else");
    LLVMDisposeBuilder(build.builder);
    LLVMDisposeModule(build.module);
    LLVMContextDispose(build.context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};

    check(input, TARN_PRUNE_SOUND);
    check(input, TARN_PRUNE_LLVMLITE);
    return 0;
}
