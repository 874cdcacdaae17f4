/* nrt_device.cuh -- counted blocks in device code: Numba's runtime on a GPU.
 *
 * The functions are those of Tarn's device runtime, one CUDA source (`nrt_device.cu`, in a
 * wheel `tarn/nrt/device.cu`). Kernels that numba-cuda compiles call them. CUDA C++ code can
 * call them too, in the same program or without Numba. Compile the source once for each
 * module, with relocatable device code (-rdc=true). In CMake, link tarn::nrt_device.
 *
 * Names and layouts are those of numba-cuda. Include either this header or its `nrt.cuh`.
 * This header includes nothing, so NVRTC compiles it without include paths.
 *
 * Blocks lie on the heap of the device (cudaLimitMallocHeapSize). A function returns NULL
 * if the heap has no memory. All functions are safe on any thread of a kernel.
 */
#ifndef TARN_NRT_DEVICE_CUH
#define TARN_NRT_DEVICE_CUH

#ifdef __cplusplus
extern "C" {
#endif

/** The function that ends the data of a block. `info` is NULL unless the block was made by
 * NRT_MemInfo_new() or NRT_MemInfo_init(). */
typedef void (*NRT_dtor_function)(void *data, size_t size, void *info);

/** A counted block. Read `data` and `size`; leave the rest to the functions. */
typedef struct MemInfo {
    unsigned long long refct; /**< References; the last release ends the block. */
    NRT_dtor_function dtor;   /**< NULL: only the memory is freed. */
    void *dtor_info;          /**< The third argument of `dtor`. */
    void *data;               /**< The data. */
    size_t size;              /**< Bytes at `data`, as requested. */
} NRT_MemInfo;

/** Counters, in device memory that the host allocates and sets to zero. */
typedef struct NRT_MemSys {
    /** The counters. */
    struct {
        bool enabled;                /**< The host sets it; false: nothing counts. */
        unsigned long long alloc;    /**< Blocks of the heap, MemInfos among them. */
        unsigned long long free;     /**< Blocks freed. */
        unsigned long long mi_alloc; /**< MemInfos made. */
        unsigned long long mi_free;  /**< MemInfos freed. */
    } stats;
} NRT_MemSys;

/** Set the counters of the module, for its kernels from now on. Launch one thread. */
__global__ void NRT_MemSys_set(NRT_MemSys *memsys);

/* --- raw memory --------------------------------------------------------------------- */

/** Allocate memory without a count; a size of 0 is allowed. */
__device__ void *NRT_Allocate(size_t size);
/** Allocate memory, as NRT_Allocate() does. */
__device__ void *NRT_Allocate_External(size_t size);
/** Free memory of NRT_Allocate(); NULL is allowed. */
__device__ void NRT_Free(void *block);

/* --- references --------------------------------------------------------------------- */

/** Take a reference; NULL is allowed. */
__device__ void NRT_incref(NRT_MemInfo *mi);
/** Drop a reference; NULL is allowed. The last one calls the destructor and frees the
 * block. The module that made the block has to call it: a function of another module cannot
 * be called on the device. */
__device__ void NRT_decref(NRT_MemInfo *mi);

/* --- blocks ------------------------------------------------------------------------- */

/** Make a block with one reference: `size` bytes, aligned to 16. */
__device__ NRT_MemInfo *NRT_MemInfo_alloc(size_t size);
/** Make a block whose data is aligned to `align` bytes, any number; 0: 16. */
__device__ NRT_MemInfo *NRT_MemInfo_alloc_aligned(size_t size, unsigned align);
/** Make a block with a destructor, which gets NULL as third argument. */
__device__ NRT_MemInfo *NRT_MemInfo_alloc_dtor(size_t size, NRT_dtor_function dtor);
/** Make a block whose first 256 bytes are 0xCB, and 0xDE at its end. */
__device__ NRT_MemInfo *NRT_MemInfo_alloc_safe(size_t size);
/** Make a filled block with an alignment. */
__device__ NRT_MemInfo *NRT_MemInfo_alloc_safe_aligned(size_t size, unsigned align);
/** Make a filled block with a destructor, which gets NULL as third argument. */
__device__ NRT_MemInfo *NRT_MemInfo_alloc_dtor_safe(size_t size, NRT_dtor_function dtor);
/** Make a block for data of the caller, which `dtor` ends. NULL: the caller still owns
 * the data. */
__device__ NRT_MemInfo *NRT_MemInfo_new(void *data, size_t size, NRT_dtor_function dtor,
                                        void *dtor_info);
/** Set up memory of NRT_Allocate(48) as NRT_MemInfo_new() does. */
__device__ void NRT_MemInfo_init(NRT_MemInfo *mi, void *data, size_t size,
                                 NRT_dtor_function dtor, void *dtor_info);
/** Return the data of a block. */
__device__ void *NRT_MemInfo_data_fast(NRT_MemInfo *mi);

/* --- data of variable size ---------------------------------------------------------- */

/* A block of another kind stops the kernel, with a message on the standard output. */

/** Make a block whose data can get another size. */
__device__ NRT_MemInfo *NRT_MemInfo_new_varsize(size_t size);
/** Make such a block with a destructor for its elements, which gets NULL as third
 * argument. */
__device__ NRT_MemInfo *NRT_MemInfo_new_varsize_dtor(size_t size, NRT_dtor_function dtor);
/** Allocate new data. The caller has the old data and frees it with
 * NRT_MemInfo_varsize_free(). */
__device__ void *NRT_MemInfo_varsize_alloc(NRT_MemInfo *mi, size_t size);
/** Change the size of the data. What fits of the old data stays. NULL: nothing changed. */
__device__ void *NRT_MemInfo_varsize_realloc(NRT_MemInfo *mi, size_t size);
/** Free data that the block has or had. */
__device__ void NRT_MemInfo_varsize_free(NRT_MemInfo *mi, void *data);

/* --- the end of a block, for generated code ----------------------------------------- */

/** Call the destructor and free the block; the count is 0. */
__device__ void NRT_MemInfo_call_dtor(NRT_MemInfo *mi);
/** Free the block without a call of the destructor. */
__device__ void NRT_MemInfo_destroy(NRT_MemInfo *mi);
/** Free the memory of the block alone, uncounted as a MemInfo. */
__device__ void NRT_dealloc(NRT_MemInfo *mi);

#ifdef __cplusplus
}
#endif
#endif
