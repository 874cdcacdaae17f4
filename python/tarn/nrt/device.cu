/* device.cu -- Numba's runtime for compiled code on the GPU: counted blocks on its heap.
 *
 * numba-cuda links a source like this one with every kernel that makes arrays. This file
 * replaces it. The names and layouts are numba-cuda's, so that its host side, and C++
 * code written for it, work unchanged. tarn.nrt.use_device_runtime() installs it.
 *
 * The last reference must be handled right. The decrement that drops it returns that
 * fact, and no thread reads the count again, which may be freed by then. Sizes cannot
 * wrap. A failed allocation is not counted in the statistics and leaks nothing. A
 * destructor gets the arguments that it gets from Numba's core on CPUs. Functions for data
 * of variable size accept blocks of that kind alone.
 *
 * tarn/nrt_device.cuh declares the functions for other device code.
 *
 * NVRTC includes no header: <cuda/atomic> alone is a second of compilation for each kernel.
 * It is C as well, so that tests/nrt/device_host.c can run it on threads of the host.
 */
#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#include <cstdio> /* NVRTC declares printf() itself */
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TARN_NRT_DEVICE_CUH /* a header with the same */
typedef void (*NRT_dtor_function)(void *data, size_t size, void *info);

/* As generated code and nrt.cuh have it. */
typedef struct MemInfo {
    unsigned long long refct; /* references; the last release ends the block */
    NRT_dtor_function dtor;   /* NULL: only the memory is freed */
    void *dtor_info;          /* its third argument */
    void *data;
    size_t size; /* bytes at data, as requested */
} NRT_MemInfo;

/* As memsys.cu has it, which makes it, reads it and sets `enabled` from the host. */
typedef struct NRT_MemSys {
    struct {
        bool enabled;
        unsigned long long alloc;    /* blocks of the heap, MemInfos among them */
        unsigned long long free;     /* blocks freed */
        unsigned long long mi_alloc; /* MemInfos set up */
        unsigned long long mi_free;  /* MemInfos freed */
    } stats;
} NRT_MemSys;
#endif

/* A MemInfo, with what kind of block it is. The address of a destructor does
 * not tell: each module of a program has a copy of this file. */
struct tarn_kind_of_block {
    NRT_MemInfo mi;
    unsigned long long kind;
};

#ifdef __cplusplus
static_assert(sizeof(NRT_MemInfo) == 40, "numba-cuda's layout");
static_assert(sizeof(NRT_MemSys) == 40, "numba-cuda's layout");
#endif

/* A pattern that is nobody's data: memory that was not set up here lacks it. */
#define VARIABLE_SIZE 0x7461726e76617273ull

enum {
    HEAP_ALIGNMENT = 16, /* the default of data */
    POISON_NEW = 0xCB,   /* bytes of Numba's `safe` blocks, whose first 256 are filled */
    POISON_OLD = 0xDE,
    POISON_BYTES = 256
};

/* This module's counters; NULL until the host sets them, if statistics are on. */
__device__ NRT_MemSys *TheMSys;

__global__ void NRT_MemSys_set(NRT_MemSys *memsys)
{
    TheMSys = memsys;
}

/* --- raw memory --------------------------------------------------------------------- */

/* Volatile: the host can switch while a kernel runs. */
static __device__ bool counting(void)
{
    return TheMSys && *(volatile bool *)&TheMSys->stats.enabled;
}

/* A block of no bytes is valid too: NULL means that there is no memory. */
__device__ void *NRT_Allocate(size_t size)
{
    void *block = malloc(size ? size : 1);

    if (block && counting())
        atomicAdd(&TheMSys->stats.alloc, 1ull);
    return block;
}

__device__ void *NRT_Allocate_External(size_t size)
{
    return NRT_Allocate(size);
}

__device__ void NRT_Free(void *block)
{
    if (!block)
        return;
    free(block);
    if (counting())
        atomicAdd(&TheMSys->stats.free, 1ull);
}

/* --- the end of a MemInfo ----------------------------------------------------------- */

__device__ void NRT_dealloc(NRT_MemInfo *mi)
{
    NRT_Free(mi);
}

__device__ void NRT_MemInfo_destroy(NRT_MemInfo *mi)
{
    NRT_dealloc(mi);
    if (counting())
        atomicAdd(&TheMSys->stats.mi_free, 1ull);
}

__device__ void NRT_MemInfo_call_dtor(NRT_MemInfo *mi)
{
    if (mi->dtor)
        mi->dtor(mi->data, mi->size, mi->dtor_info);
    NRT_MemInfo_destroy(mi);
}

/* --- references --------------------------------------------------------------------- */

/* The caller already has a reference, so an increment needs no memory order. */
__device__ void NRT_incref(NRT_MemInfo *mi)
{
    if (mi)
        atomicAdd(&mi->refct, 1ull);
}

/* All accesses to the block come before its releases, and its end comes after all
 * releases: hence a fence on either side. */
__device__ void NRT_decref(NRT_MemInfo *mi)
{
    if (!mi)
        return;
    __threadfence();
    if (atomicAdd(&mi->refct, ~0ull) != 1) /* minus 1; returns the old value */
        return;
    __threadfence();
    NRT_MemInfo_call_dtor(mi);
}

/* --- MemInfos ----------------------------------------------------------------------- */

__device__ void NRT_MemInfo_init(NRT_MemInfo *mi, void *data, size_t size,
                                 NRT_dtor_function dtor, void *dtor_info)
{
    mi->refct = 1;
    mi->dtor = dtor;
    mi->dtor_info = dtor_info;
    mi->data = data;
    mi->size = size;
    if (counting())
        atomicAdd(&TheMSys->stats.mi_alloc, 1ull);
}

/* For existing data. NULL: no memory; the caller still owns the data. */
__device__ NRT_MemInfo *NRT_MemInfo_new(void *data, size_t size, NRT_dtor_function dtor,
                                        void *dtor_info)
{
    struct tarn_kind_of_block *block =
        (struct tarn_kind_of_block *)NRT_Allocate(sizeof *block);

    if (!block)
        return 0;
    NRT_MemInfo_init(&block->mi, data, size, dtor, dtor_info);
    block->kind = 0;
    return &block->mi;
}

__device__ void *NRT_MemInfo_data_fast(NRT_MemInfo *mi)
{
    return mi->data;
}

/* A MemInfo and its data in one block. NULL: no memory, or `size` is too large. */
static __device__ NRT_MemInfo *make(size_t size, unsigned align, NRT_dtor_function dtor,
                                    void *dtor_info)
{
    const size_t unit = align ? align : HEAP_ALIGNMENT;
    const size_t around = sizeof(struct tarn_kind_of_block) + (unit - 1);

    if (size > ~(size_t)0 - around)
        return 0;
    char *block = (char *)NRT_Allocate(around + size);
    if (!block)
        return 0;
    NRT_MemInfo *mi = (NRT_MemInfo *)block;
    ((struct tarn_kind_of_block *)block)->kind = 0;
    char *last = block + around; /* data begin here, or less than `unit` before */
    NRT_MemInfo_init(mi, last - (size_t)last % unit, size, dtor, dtor_info);
    return mi;
}

/* `align` need not be a power of 2; 0: any will do. */
__device__ NRT_MemInfo *NRT_MemInfo_alloc_aligned(size_t size, unsigned align)
{
    return make(size, align, 0, 0);
}

__device__ NRT_MemInfo *NRT_MemInfo_alloc(size_t size)
{
    return make(size, 0, 0, 0);
}

/* Call the user's destructor, which is `info`: its own third argument is NULL. */
static __device__ void end_custom(void *data, size_t size, void *info)
{
    if (info)
        ((NRT_dtor_function)info)(data, size, 0);
}

__device__ NRT_MemInfo *NRT_MemInfo_alloc_dtor(size_t size, NRT_dtor_function dtor)
{
    return make(size, 0, end_custom, (void *)dtor);
}

/* --- the same, filled: NUMBA_DEBUG_NRT=1 -------------------------------------------- */

static __device__ void fill(void *data, size_t size, int byte)
{
    memset(data, byte, size < POISON_BYTES ? size : POISON_BYTES);
}

static __device__ void end_filled(void *data, size_t size, void *info)
{
    end_custom(data, size, info);
    fill(data, size, POISON_OLD);
}

static __device__ NRT_MemInfo *make_filled(size_t size, unsigned align,
                                           NRT_dtor_function dtor)
{
    NRT_MemInfo *mi = make(size, align, end_filled, (void *)dtor);

    if (mi)
        fill(mi->data, size, POISON_NEW);
    return mi;
}

__device__ NRT_MemInfo *NRT_MemInfo_alloc_safe(size_t size)
{
    return make_filled(size, 0, 0);
}

__device__ NRT_MemInfo *NRT_MemInfo_alloc_safe_aligned(size_t size, unsigned align)
{
    return make_filled(size, align, 0);
}

__device__ NRT_MemInfo *NRT_MemInfo_alloc_dtor_safe(size_t size, NRT_dtor_function dtor)
{
    return make_filled(size, 0, dtor);
}

/* --- data in a block of its own, whose size can change ------------------------------ */

/* End the elements first: `info` is their destructor, or NULL. */
static __device__ void end_varsize(void *data, size_t size, void *info)
{
    end_custom(data, size, info);
    NRT_Free(data);
}

/* Stop the kernel unless `mi` has data of variable size, as Numba's core on CPUs aborts. */
static __device__ void check_kind(const NRT_MemInfo *mi, const char *what)
{
    if (mi && ((const struct tarn_kind_of_block *)mi)->kind == VARIABLE_SIZE)
        return;
    printf("tarn.nrt: %s: MemInfo %p has no variable size\n", what, (const void *)mi);
    __trap();
}

__device__ NRT_MemInfo *NRT_MemInfo_new_varsize_dtor(size_t size, NRT_dtor_function dtor)
{
    void *data = NRT_Allocate(size);

    if (!data)
        return 0;
    NRT_MemInfo *mi = NRT_MemInfo_new(data, size, end_varsize, (void *)dtor);
    if (mi)
        ((struct tarn_kind_of_block *)mi)->kind = VARIABLE_SIZE;
    else
        NRT_Free(data);
    return mi;
}

__device__ NRT_MemInfo *NRT_MemInfo_new_varsize(size_t size)
{
    return NRT_MemInfo_new_varsize_dtor(size, 0);
}

/* Allocate new data; the caller has the old and frees it. NULL: nothing has changed. */
__device__ void *NRT_MemInfo_varsize_alloc(NRT_MemInfo *mi, size_t size)
{
    check_kind(mi, "varsize_alloc");
    void *data = NRT_Allocate(size);

    if (!data)
        return 0;
    mi->data = data;
    mi->size = size;
    return data;
}

__device__ void NRT_MemInfo_varsize_free(NRT_MemInfo *mi, void *data)
{
    check_kind(mi, "varsize_free");
    NRT_Free(data);
    if (data == mi->data)
        mi->data = 0;
}

/* Data of another size, with what fits of the old. NULL: nothing has changed. */
__device__ void *NRT_MemInfo_varsize_realloc(NRT_MemInfo *mi, size_t size)
{
    check_kind(mi, "varsize_realloc");
    void *old = mi->data;
    const size_t kept = old ? (mi->size < size ? mi->size : size) : 0;
    void *data = NRT_MemInfo_varsize_alloc(mi, size);

    if (!data)
        return 0;
    if (kept)
        memcpy(data, old, kept);
    NRT_Free(old);
    return data;
}

#ifdef __cplusplus
}
#endif
