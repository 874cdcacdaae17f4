/* varsize.c -- MemInfos whose memory can change its size: lists and sets.
 *
 * The memory is a raw block beside the MemInfo, of the same instance. A failure leaves
 * the MemInfo with its previous memory.
 */
#include "nrt/meminfo.h"
#include "nrt/misuse.h"
#include "nrt/raw.h"
#include "nrt/registry.h"

static NRT_MemInfo *make(size_t size, NRT_dtor_function dtor, const void *caller)
{
    tarn_runtime *runtime = &tarn__default_runtime;
    union {
        NRT_dtor_function function;
        void *address;
    } elements = {.function = dtor};
    void *data = tarn__raw_make(runtime, size, NULL, caller);

    if (!data)
        return NULL;
    NRT_MemInfo *mi = tarn__meminfo_new(
        runtime, data, size, tarn__meminfo_varsize_destructor, elements.address, caller);
    if (!mi)
        tarn__raw_free(data);
    return mi;
}

NRT_MemInfo *tarn_nrt_MemInfo_new_varsize(size_t size)
{
    return make(size, NULL, __builtin_return_address(0));
}

NRT_MemInfo *tarn_nrt_MemInfo_new_varsize_dtor(size_t size, NRT_dtor_function dtor)
{
    return make(size, dtor, __builtin_return_address(0));
}

/* The instance of a varsize MemInfo; NULL with an error message: it is not one. */
static tarn_runtime *check(const NRT_MemInfo *mi, const char *what)
{
    if (mi && mi->dtor == tarn__meminfo_varsize_destructor)
        return tarn_meminfo_runtime(mi);
    tarn__misuse_report(&tarn__default_runtime,
                        "nrt: %s: MemInfo %p has no variable size", what,
                        (const void *)mi);
    return NULL;
}

void *tarn_nrt_MemInfo_varsize_alloc(NRT_MemInfo *mi, size_t size)
{
    tarn_runtime *runtime = check(mi, "varsize_alloc");

    if (!runtime)
        return NULL;
    void *data = tarn__raw_make(runtime, size, NULL, __builtin_return_address(0));
    if (!data)
        return NULL;
    mi->data = data;
    mi->size = size;
    return data;
}

void *tarn_nrt_MemInfo_varsize_realloc(NRT_MemInfo *mi, size_t size)
{
    const void *caller = __builtin_return_address(0);
    tarn_runtime *runtime = check(mi, "varsize_realloc");

    if (!runtime)
        return NULL;
    void *data = mi->data ? tarn__raw_resize(mi->data, size, caller)
                          : tarn__raw_make(runtime, size, NULL, caller);
    if (!data)
        return NULL;
    mi->data = data;
    mi->size = size;
    return data;
}

void tarn_nrt_MemInfo_varsize_free(NRT_MemInfo *mi, void *ptr)
{
    tarn__raw_free(ptr);
    if (ptr && mi->data == ptr)
        mi->data = NULL;
}
