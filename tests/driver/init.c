/* init.c -- facts about cuInit, versions, names of errors, and finding calls. */
#include "facts.h"

#include <stdio.h>
#include <string.h>

/* The calls that work before cuInit, and the results of the others. */
static void before(void)
{
    int number = -7;
    const char *text = NULL;
    CUcontext current = NULL;
    CUdeviceptr pointer = 0;
    CUstream stream = NULL;
    CUevent event = NULL;
    void *host = NULL;
    size_t a = 0, b = 0;
    CUmemoryPool pool = NULL;

    fact_result("before.cuGetErrorName", cuGetErrorName(1, &text));
    fact_result("before.cuDriverGetVersion", cuDriverGetVersion(&number));
    fact_output("before.cuDeviceGetCount", cuDeviceGetCount(&number), number >= 12000);
    fact_result("before.cuDeviceGet", cuDeviceGet(&number, 0));
    fact_result("before.cuDeviceGetAttribute", cuDeviceGetAttribute(&number, 75, 0));
    fact_result("before.cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&current, 0));
    fact_result("before.cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease(0));
    fact_result("before.cuCtxGetCurrent", cuCtxGetCurrent(&current));
    fact_result("before.cuCtxSetCurrent_null", cuCtxSetCurrent(NULL));
    fact_result("before.cuCtxSynchronize", cuCtxSynchronize());
    fact_result("before.cuCtxPopCurrent", cuCtxPopCurrent(&current));
    fact_result("before.cuMemGetInfo", cuMemGetInfo(&a, &b));
    fact_result("before.cuMemAlloc", cuMemAlloc(&pointer, 256));
    fact_result("before.cuMemFree_0", cuMemFree(0));
    fact_result("before.cuMemHostAlloc", cuMemHostAlloc(&host, 256, 0));
    fact_result("before.cuMemFreeHost_null", cuMemFreeHost(NULL));
    fact_result("before.cuStreamCreate", cuStreamCreate(&stream, 0));
    fact_result("before.cuStreamQuery_0", cuStreamQuery(NULL));
    fact_result("before.cuEventCreate", cuEventCreate(&event, 0));
    fact_result("before.cuMemcpy_nothing", cuMemcpy(0, 0, 0));
    fact_result("before.cuDeviceGetDefaultMemPool", cuDeviceGetDefaultMemPool(&pool, 0));
    fact_result("before.cuMemAddressReserve",
                cuMemAddressReserve(&pointer, 2 * MIB, 0, 0, 0));
    fact_result("before.cuPointerGetAttribute",
                cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x1000));
    number = CU_STREAM_CAPTURE_MODE_RELAXED;
    fact_result("before.cuThreadExchangeStreamCaptureMode",
                cuThreadExchangeStreamCaptureMode(&number));
}

static void initializing(void)
{
    fact_result("cuInit.flags_1", cuInit(1));
    fact_result("cuInit.after_bad_flags", cuDeviceGetCount(&(int){0}));
    fact_result("cuInit", cuInit(0));
    fact_result("cuInit.again", cuInit(0));
    fact_result("cuInit.again_flags_1", cuInit(1));
}

static void version(void)
{
    int number = 0;

    fact_result("version.null", cuDriverGetVersion(NULL));
    fact_result("version", cuDriverGetVersion(&number));
    fact_bool("version.at_least_13000", number >= 13000);
}

static void error_names(void)
{
    static const char kept[] = "kept";
    const char *text = kept;
    int wrong = 0;

    for (size_t row = 0; row < result_count(); row++) {
        CUresult result = cuGetErrorName(result_code(row), &text);
        if (result == CUDA_SUCCESS && text && !strcmp(text, result_full_name(row)))
            continue;
        wrong++;
        fact(named("error_names.%s", result_full_name(row)), "%s, %s",
             result_name(result), result == CUDA_SUCCESS && text ? text : "nothing");
    }
    fact("error_names.wrong", "%d", wrong);
    text = kept;
    CUresult unknown = cuGetErrorName(54321, &text);
    fact("error_names.unknown", "%s, output %s", result_name(unknown),
         text == kept ? "kept"
         : text       ? "text"
                      : "NULL");
    fact_result("error_names.null_output", cuGetErrorName(1, NULL));
}

static void error_strings(void)
{
    static const int codes[] = {0,   1,   2,   3,   100, 101, 201,
                                400, 500, 600, 700, 719, 801, 900};
    static const char kept[] = "kept";
    const char *text = kept;

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        text = kept;
        CUresult result = cuGetErrorString(codes[i], &text);
        fact(named("error_strings.%d", codes[i]), "%s, %s", result_name(result),
             text == kept    ? "kept"
             : text && *text ? "text"
                             : "nothing");
    }
    text = kept;
    CUresult unknown = cuGetErrorString(54321, &text);
    fact("error_strings.unknown", "%s, output %s", result_name(unknown),
         text == kept ? "kept"
         : text       ? "text"
                      : "NULL");
}

/* Print one call of cuGetProcAddress: result, status, and whether it returned a pointer.
 */
static void proc_address(const char *name, const char *symbol, int requested,
                         uint64_t flags)
{
    int status = -7;
    void *found = &status;
    CUresult result = cuGetProcAddress(symbol, &found, requested, flags, &status);

    fact(name, "%s, status %d, %s", result_name(result), status,
         found == &status ? "output kept"
         : found          ? "found"
                          : "NULL");
}

static void proc_addresses(void)
{
    void *found = NULL;

    proc_address("proc_address.known", "cuMemAlloc", 3020, 0);
    proc_address("proc_address.newest", "cuMemAlloc", 13000, 0);
    proc_address("proc_address.unknown", "cuNoSuchCall", 13000, 0);
    proc_address("proc_address.empty", "", 13000, 0);
    proc_address("proc_address.null_name", NULL, 13000, 0);
    proc_address("proc_address.before_its_time", "cuMemAllocAsync", 11000, 0);
    proc_address("proc_address.version_0", "cuInit", 0, 0);
    proc_address("proc_address.version_of_tomorrow", "cuInit", 99990, 0);
    proc_address("proc_address.suffixed_name", "cuMemAlloc_v2", 13000, 0);
    proc_address("proc_address.flags_legacy", "cuStreamQuery", 13000, 1);
    proc_address("proc_address.flags_per_thread", "cuStreamQuery", 13000, 2);
    proc_address("proc_address.flags_both", "cuStreamQuery", 13000, 3);
    proc_address("proc_address.flags_4", "cuStreamQuery", 13000, 4);
    proc_address("proc_address.itself", "cuGetProcAddress", 13000, 0);
    fact_result("proc_address.null_output",
                cuGetProcAddress("cuInit", NULL, 13000, 0, &(int){0}));
    fact_result("proc_address.null_status",
                cuGetProcAddress("cuInit", &found, 13000, 0, NULL));
}

/* Check whether two flags, or two versions, return the same function. */
static void proc_same(const char *name, const char *symbol, int a, int b,
                      uint64_t flags_a, uint64_t flags_b)
{
    void *first = NULL, *second = NULL;
    int status;

    cuGetProcAddress(symbol, &first, a, flags_a, &status);
    cuGetProcAddress(symbol, &second, b, flags_b, &status);
    fact(name, "%s",
         !first || !second ? "missing"
         : first == second ? "same"
                           : "different");
}

static void proc_variants(void)
{
    proc_same("proc_variants.legacy_and_default", "cuStreamQuery", 13000, 13000, 0, 1);
    proc_same("proc_variants.per_thread_of_a_stream_call", "cuStreamQuery", 13000, 13000,
              0, 2);
    proc_same("proc_variants.per_thread_of_a_copy", "cuMemcpyHtoD", 13000, 13000, 0, 2);
    proc_same("proc_variants.per_thread_of_another_call", "cuMemAlloc", 13000, 13000, 0,
              2);
    proc_same("proc_variants.versions_of_cuMemAlloc", "cuMemAlloc", 3020, 13000, 0, 0);
    proc_same("proc_variants.versions_of_cuStreamGetCaptureInfo",
              "cuStreamGetCaptureInfo", 10010, 11030, 0, 0);
    proc_same("proc_variants.between_versions", "cuStreamGetCaptureInfo", 11030, 12000, 0,
              0);
    proc_same("proc_variants.versions_of_cuCtxCreate", "cuCtxCreate", 11000, 13000, 0, 0);
    proc_same("proc_variants.versions_of_cuMemPrefetchAsync", "cuMemPrefetchAsync", 8000,
              13000, 0, 0);
}

/* Versions before a call's own, and no status requested, as numba-cuda-mlir does. */
static void proc_old(void)
{
    static const struct {
        const char *name;
        int version;
    } requested[] = {
        {"cuDevicePrimaryCtxRelease", 7000},
        {"cuDevicePrimaryCtxSetFlags", 7000},
        {"cuDevicePrimaryCtxReset", 7000},
        {"cuFuncSetAttribute", 2000},
        {"cuFuncGetAttribute", 2000},
        {"cuMemAllocAsync", 11000},
        {"cuNoSuchCall", 13000},
    };
    static int kept;

    for (size_t i = 0; i < sizeof requested / sizeof *requested; i++) {
        const char *symbol = requested[i].name;
        void *found = &kept;

        proc_address(named("proc_old.%s", symbol), symbol, requested[i].version, 0);
        CUresult result = cuGetProcAddress(symbol, &found, requested[i].version, 0, NULL);
        fact(named("proc_old.%s.no_status", symbol), "%s, %s", result_name(result),
             found == &kept ? "output kept"
             : found        ? "found"
                            : "NULL");
    }
    proc_same("proc_old.versions_of_cuDevicePrimaryCtxRelease",
              "cuDevicePrimaryCtxRelease", 7000, 11000, 0, 0);
}

static void export_table(void)
{
    CUuuid id = {{1, 2, 3}};
    static const int kept;
    const void *table = &kept;

    CUresult result = cuGetExportTable(&table, &id);
    fact("export_table.unknown", "%s, output %s", result_name(result),
         table == &kept ? "kept"
         : table        ? "a table"
                        : "NULL");
}

static const struct part parts[] = {
    {"before", before, BARE},
    {"initializing", initializing, BARE},
    {"version", version, INITED},
    {"error_names", error_names, INITED},
    {"error_strings", error_strings, INITED},
    {"proc_addresses", proc_addresses, INITED},
    {"proc_variants", proc_variants, INITED},
    {"proc_old", proc_old, INITED},
    {"export_table", export_table, INITED},
    END_OF_PARTS,
};
const struct theme theme_init = {"init", parts, false};
