/* api.c -- the function table, one for each instance.
 *
 * Its functions get no instance as an argument, so each index has functions of its own. A
 * table outlives its instance: it then returns NULL, with an error message. A table whose
 * instance was never created does the same. In Numba such a table is an access violation.
 */
#include "nrt/meminfo.h"
#include "nrt/registry.h"

/* The instance of a table's function. */
static tarn_runtime *serve(unsigned index)
{
    tarn_runtime *runtime = tarn__registry_at(index);

    if (!runtime)
        tarn_error_set(TARN_INVALID_ARGUMENT,
                       "nrt: the table of runtime %u was called, but that runtime does "
                       "not exist (not created yet, or released)",
                       index);
    return runtime;
}

static NRT_MemInfo *allocate(unsigned index, size_t bytes,
                             NRT_ExternalAllocator *external, const void *caller)
{
    tarn_runtime *runtime = serve(index);

    if (!runtime)
        return NULL;
    return tarn__meminfo_make(&(struct tarn__meminfo_request){
        .runtime = runtime, .bytes = bytes, .external = external, .caller = caller});
}

/* The managed destructor, which takes the data alone, is passed as `info`. */
static void destroy_managed(void *data, size_t size, void *info)
{
    union {
        void *address;
        NRT_managed_dtor *function;
    } dtor = {.address = info};

    (void)size;
    dtor.function(data);
}

static NRT_MemInfo *manage(unsigned index, void *data, NRT_managed_dtor *function,
                           const void *caller)
{
    tarn_runtime *runtime = serve(index);
    union {
        NRT_managed_dtor *function;
        void *address;
    } dtor = {.function = function};

    if (!runtime)
        return NULL;
    return tarn__meminfo_new(runtime, data, 0, function ? destroy_managed : NULL,
                             dtor.address, caller);
}

/* The three functions of index `n` that make MemInfos. */
#define FUNCTIONS(n)                                                                  \
    static NRT_MemInfo *allocate_##n(size_t bytes)                                    \
    {                                                                                 \
        return allocate(n, bytes, NULL, __builtin_return_address(0));                 \
    }                                                                                 \
    static NRT_MemInfo *allocate_external_##n(size_t bytes, NRT_ExternalAllocator *a) \
    {                                                                                 \
        return allocate(n, bytes, a, __builtin_return_address(0));                    \
    }                                                                                 \
    static NRT_MemInfo *manage_##n(void *data, NRT_managed_dtor dtor)                 \
    {                                                                                 \
        return manage(n, data, dtor, __builtin_return_address(0));                    \
    }

#define TABLE(n)                                              \
    {allocate_##n,         allocate_external_##n, manage_##n, \
     tarn_meminfo_acquire, tarn_meminfo_release,  tarn_nrt_MemInfo_data},

/* 0 is the default instance, whose calls are exported. */
/* clang-format off */
#define INDICES(X)                                                                      \
    X(1)                                                                                \
    X(2)                                                                                \
    X(3)                                                                                \
    X(4)                                                                                \
    X(5)                                                                                \
    X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19)     \
        X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32)   \
            X(33) X(34) X(35) X(36) X(37) X(38) X(39) X(40) X(41) X(42) X(43) X(44)     \
                X(45) X(46) X(47) X(48) X(49) X(50) X(51) X(52) X(53) X(54) X(55) X(56) \
                    X(57) X(58) X(59) X(60) X(61) X(62) X(63)
/* clang-format on */

INDICES(FUNCTIONS)

static NRT_MemInfo *manage_default(void *data, NRT_managed_dtor dtor)
{
    return manage(0, data, dtor, __builtin_return_address(0));
}

static const NRT_api_functions tables[TARN__RUNTIMES] = {
    {tarn_nrt_MemInfo_alloc, tarn_nrt_MemInfo_alloc_external, manage_default,
     tarn_meminfo_acquire, tarn_meminfo_release, tarn_nrt_MemInfo_data},
    INDICES(TABLE)};

const NRT_api_functions *tarn_nrt_get_api(void)
{
    return &tables[0];
}

const NRT_api_functions *tarn_runtime_api(tarn_runtime *runtime)
{
    return &tables[runtime->index];
}
