/* bytes.c -- prune a module given as bytes, and return it as bytes.
 *
 * Python's LLVM and this one are two copies in one process, hidden from each other, and a
 * file has no pointers at all. They can only share bitcode or text. Every call has an
 * LLVM context of its own, with a handler for diagnostics: without one LLVM prints an
 * error and ends the process.
 */
#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm/Config/llvm-config.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/prune.h>

/* One module between its input and its output bytes. */
struct passage {
    const char *name; /* for messages */
    LLVMContextRef context;
    LLVMModuleRef module;
    char trouble[400]; /* the first error that LLVM reported, one line */
};

/* Keep the first line of the first diagnostic. */
static void keep(struct passage *passage, const char *message)
{
    size_t length = strcspn(message, "\n");

    if (passage->trouble[0])
        return;
    if (length >= sizeof passage->trouble)
        length = sizeof passage->trouble - 1;
    memcpy(passage->trouble, message, length);
    passage->trouble[length] = 0;
}

static void on_diagnostic(LLVMDiagnosticInfoRef diagnostic, void *data)
{
    char *text;

    if (LLVMGetDiagInfoSeverity(diagnostic) != LLVMDSError)
        return;
    text = LLVMGetDiagInfoDescription(diagnostic);
    keep(data, text);
    LLVMDisposeMessage(text);
}

static bool is_bitcode(const unsigned char *bytes, size_t count)
{
    if (count < 4)
        return false;
    return memcmp(bytes, "BC\xc0\xde", 4) == 0 ||
           memcmp(bytes, "\xde\xc0\x17\x0b", 4) == 0;
}

static tarn_status read_module(struct passage *passage, const void *ir, size_t bytes)
{
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, bytes, passage->name);
    char *text = NULL;

    /* This call takes over the buffer, also on failure. */
    bool failed = LLVMParseIRInContext(passage->context, buffer, &passage->module, &text);
    if (failed && text)
        keep(passage, text);
    LLVMDisposeMessage(text);
    if (!failed && !passage->trouble[0])
        return TARN_OK;
    if (failed)
        passage->module = NULL;
    /* LLVM mostly begins with the name, and then gives the place: `name:3:5: error: ...`.
     */
    bool named = strncmp(passage->trouble, passage->name, strlen(passage->name)) == 0;
    return tarn_error_set(TARN_BAD_FORMAT, "prune: LLVM %s cannot read %s%s%s",
                          tarn_prune_llvm_version(), named ? "" : passage->name,
                          named ? "" : ": ", passage->trouble);
}

/* The first function that the verifier rejects on its own, or NULL. */
static const char *bad_function(LLVMModuleRef module)
{
    size_t length;

    for (LLVMValueRef function = LLVMGetFirstFunction(module); function;
         function = LLVMGetNextFunction(function))
        if (!LLVMIsDeclaration(function) &&
            LLVMVerifyFunction(function, LLVMReturnStatusAction))
            return LLVMGetValueName2(function, &length);
    return NULL;
}

static tarn_status verify(struct passage *passage, const char *when)
{
    char *text = NULL;

    if (!LLVMVerifyModule(passage->module, LLVMReturnStatusAction, &text)) {
        LLVMDisposeMessage(text);
        return TARN_OK;
    }
    const char *function = bad_function(passage->module);
    keep(passage, text);
    LLVMDisposeMessage(text);
    return tarn_error_set(TARN_BAD_FORMAT, "prune: %s is not valid IR%s%s%s: %s",
                          passage->name, when, function ? ", in function " : "",
                          function ? function : "", passage->trouble);
}

static tarn_status copy_result(const char *bytes, size_t count, char **out,
                               size_t *out_bytes)
{
    char *copy = malloc(count + 1);

    if (!copy)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "prune: no host memory for %zu bytes",
                              count);
    memcpy(copy, bytes, count);
    copy[count] = 0;
    *out = copy;
    *out_bytes = count;
    return TARN_OK;
}

static tarn_status write_module(struct passage *passage, bool bitcode, char **out,
                                size_t *out_bytes)
{
    tarn_status status;

    if (!bitcode) {
        char *text = LLVMPrintModuleToString(passage->module);
        status = copy_result(text, strlen(text), out, out_bytes);
        LLVMDisposeMessage(text);
        return status;
    }
    LLVMMemoryBufferRef buffer = LLVMWriteBitcodeToMemoryBuffer(passage->module);
    status = copy_result(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer), out,
                         out_bytes);
    LLVMDisposeMemoryBuffer(buffer);
    return status;
}

/* All steps between reading and writing. */
static tarn_status prune(struct passage *passage, const tarn_prune_options *options,
                         tarn_prune_report *report)
{
    bool trusted = options && options->trusted;
    tarn_status status = trusted ? TARN_OK : verify(passage, "");

    if (status == TARN_OK)
        status = tarn_prune_module(passage->module, options, report);
    if (status == TARN_OK && !trusted)
        status = verify(passage, " after pruning");
    return status;
}

tarn_status tarn_prune_bytes(const void *ir, size_t bytes, const char *name,
                             const tarn_prune_options *options, tarn_prune_report *report,
                             char **out, size_t *out_bytes)
{
    struct passage passage = {.name = name ? name : "<bytes>"};
    tarn_prune_format form = options ? options->format : TARN_PRUNE_AS_GIVEN;
    tarn_prune_report found;

    if ((!ir && bytes) || !out || !out_bytes)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "prune: ir, out or out_bytes is NULL");
    if (form != TARN_PRUNE_AS_GIVEN && form != TARN_PRUNE_TEXT &&
        form != TARN_PRUNE_BITCODE)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "prune: unknown format %d",
                              (int)form);
    if (bytes == 0) /* to LLVM that is an empty module; it is a lost file */
        return tarn_error_set(TARN_BAD_FORMAT, "prune: %s is empty", passage.name);
    bool bitcode = form == TARN_PRUNE_BITCODE ||
                   (form == TARN_PRUNE_AS_GIVEN && is_bitcode(ir, bytes));
    passage.context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(passage.context, on_diagnostic, &passage);
    tarn_status status = read_module(&passage, ir, bytes);
    if (status == TARN_OK)
        status = prune(&passage, options, &found);
    if (status == TARN_OK)
        status = write_module(&passage, bitcode, out, out_bytes);
    if (status == TARN_OK && report)
        *report = found;
    if (passage.module)
        LLVMDisposeModule(passage.module);
    LLVMContextDispose(passage.context);
    return status;
}

void tarn_prune_free(char *bytes)
{
    free(bytes);
}

const char *tarn_prune_llvm_version(void)
{
    return LLVM_VERSION_STRING;
}
