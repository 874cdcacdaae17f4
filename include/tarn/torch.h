/* torch.h -- functions that PyTorch calls for the memory of its tensors.
 *
 * The Python module tarn.torch passes them to PyTorch (docs/torch.md). A C++ program with
 * libtorch can do the same. There are two ways, which exclude each other:
 *
 * | Way               | PyTorch's interface      | Functions here                     |
 * |-------------------|--------------------------|------------------------------------|
 * | whole program     | CUDAPluggableAllocator   | tarn_torch_allocate() to           |
 * |                   |                          | tarn_torch_release_graph_pool()    |
 * | part of a program | MemPool over one of them | those of tarn_torch_open_segments()|
 *
 * The signatures of these functions are PyTorch's. They take no GIL and call no Python,
 * unless the resource is written in Python. PyTorch calls them on any thread.
 */
#ifndef TARN_TORCH_H
#define TARN_TORCH_H

#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_torch
 * @{ */

/** PyTorch's c10::MempoolId_t: the number of a pool of graphs. */
typedef struct tarn_torch_pool_id {
    uint64_t first;  /**< First part of the number. */
    uint64_t second; /**< Second part of the number. */
} tarn_torch_pool_id;

/** Allocate the memory of a tensor.
 *
 * The memory comes from the resource of the device, see tarn_torch_set_resource().
 *
 * On failure the call does not return: it throws a C++ exception. If memory is short, it is
 * c10::OutOfMemoryError, torch.OutOfMemoryError in Python, with the pool's report. Any
 * other failure is c10::Error, RuntimeError in Python. Where these classes are not found in
 * the process, it is std::runtime_error. See tarn_torch_check().
 *
 * Thread-safety: any thread.
 *
 * @param bytes   size in bytes
 * @param device  number of the device
 * @param stream  the CUstream of the first use
 * @return the address; NULL for 0 bytes only
 * @since 0.2
 */
TARN_API void *tarn_torch_allocate(size_t bytes, int device, tarn_stream stream);

/** Free the memory of a tensor, in the order of a stream.
 *
 * Streams that tarn_torch_record_stream() named have priority: the resource gets the block
 * when the work is done that these streams have queued now. A failure is a warning
 * (tarn_set_warning_handler()). In a forked child and at exit the call does nothing.
 *
 * Thread-safety: any thread.
 *
 * @param block   the address; NULL is allowed
 * @param bytes   size in bytes, as in the allocation
 * @param device  number of the device of the allocation
 * @param stream  the CUstream of the allocation
 * @since 0.2
 */
TARN_API void tarn_torch_deallocate(void *block, size_t bytes, int device,
                                    tarn_stream stream);

/** Record that a stream uses a block: torch.Tensor.record_stream().
 *
 * If host memory is exhausted, the call throws as tarn_torch_allocate() does.
 *
 * Thread-safety: any thread.
 *
 * @param block   the address of a live block; NULL is allowed
 * @param stream  a CUstream; it exists until the work is done that it has queued at the
 *                free of the block
 * @since 0.2
 */
TARN_API void tarn_torch_record_stream(void *block, tarn_stream stream);

/** Trim the resources of all devices that PyTorch uses: torch.cuda.empty_cache().
 *
 * Thread-safety: any thread.
 *
 * @since 0.2
 */
TARN_API void tarn_torch_empty_cache(void);

/** Set the maximum of the pool of a device: torch.cuda.set_per_process_memory_fraction().
 *
 * On failure the call throws c10::Error, as tarn_torch_allocate() does.
 *
 * Thread-safety: any thread.
 *
 * @param fraction  part of the device's memory, from 0 to 1
 * @param device    number of the device
 * @since 0.2
 */
TARN_API void tarn_torch_set_memory_fraction(double fraction, int device);

/** Begin a capture into a pool of graphs.
 *
 * Until tarn_torch_end_graph_pool() the call relates the captures of streams that allocate
 * on `device` to this pool. Their memory stays with it.
 *
 * Thread-safety: any thread.
 *
 * @param device  number of the device
 * @param id      the pool
 * @param filter  a std::function of PyTorch; ignored
 * @since 0.2
 */
TARN_API void tarn_torch_begin_graph_pool(int device, tarn_torch_pool_id id,
                                          void *filter);

/** End a capture into a pool of graphs.
 *
 * Thread-safety: any thread.
 *
 * @param device  number of the device
 * @param id      the pool
 * @since 0.2
 */
TARN_API void tarn_torch_end_graph_pool(int device, tarn_torch_pool_id id);

/** Release a pool of graphs; call it once for each tarn_torch_begin_graph_pool().
 *
 * The last call releases the memory of all its captures. No graph of the pool may be
 * launched again. The work of earlier launches may still run.
 *
 * Thread-safety: any thread.
 *
 * @param device  number of the device
 * @param id      the pool
 * @since 0.2
 */
TARN_API void tarn_torch_release_graph_pool(int device, tarn_torch_pool_id id);

/** Chooses a resource for a device: the type of a callback, see
 * tarn_torch_set_first_use().
 *
 * It may make a resource current for the device (device.h). It returns true if the current
 * resource is to serve PyTorch, and false for a pool that Tarn makes. It runs on the
 * thread that allocates, without a lock of Tarn. */
typedef bool (*tarn_torch_first_use)(int device);

/** Set a callback for the first allocation of PyTorch on a device.
 *
 * The call runs where no resource of the device was set: neither by
 * tarn_torch_set_resource() nor as its current resource.
 *
 * Thread-safety: any thread.
 *
 * @param call  the callback; NULL: none
 * @since 0.2
 */
TARN_API void tarn_torch_set_first_use(tarn_torch_first_use call);

/** Set the resource for PyTorch's memory on a device.
 *
 * Without this call the first allocation on a device sets the current resource of the
 * device. If nothing has set a current resource, the allocation makes a pool with default
 * options, which becomes the current resource.
 *
 * A pool of this resource, or one beneath its adaptors, keeps the memory of graphs.
 *
 * Thread-safety: any thread.
 *
 * @param device    number of the device
 * @param resource  the resource; retained. NULL: unset it
 * @return
 * - TARN_OK: the resource is set.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `resource` is of another device.
 * - TARN_ALREADY_SET: PyTorch uses another resource of the device, which is not equal
 *   (tarn_resource_is_equal()).
 * - TARN_STILL_IN_USE: `resource` is NULL, and PyTorch has live memory on the device.
 * @since 0.2
 */
TARN_API tarn_status tarn_torch_set_resource(int device, tarn_resource *resource);

/** Return the resource for PyTorch's memory on a device.
 *
 * Thread-safety: any thread.
 *
 * @param device    number of the device
 * @param[out] out  the resource, retained; the caller releases it
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_NOT_FOUND: none is set yet.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `out` is NULL.
 * @since 0.2
 */
TARN_API tarn_status tarn_torch_resource(int device, tarn_resource **out);

/** Check which exceptions tarn_torch_allocate() can throw in this process.
 *
 * The call looks for PyTorch's classes among the loaded libraries.
 *
 * Thread-safety: any thread.
 *
 * @return
 * - TARN_OK: c10::OutOfMemoryError and c10::Error.
 * - TARN_NOT_FOUND: std::runtime_error alone. The message has the missing name.
 * - TARN_NOT_SUPPORTED: none, since no C++ runtime is loaded.
 * @since 0.2
 */
TARN_API tarn_status tarn_torch_check(void);

/** Selects the allocations that a count of tarn_torch_statistics covers. */
enum {
    TARN_TORCH_ALL = 0,   /**< All. */
    TARN_TORCH_SMALL = 1, /**< Allocations of at most 1 MiB. */
    TARN_TORCH_LARGE = 2, /**< Larger ones. */
    TARN_TORCH_SIZES = 3  /**< Number of these values. */
};

/** A count, as in torch.cuda.memory_stats(). */
typedef struct tarn_torch_count {
    uint64_t current,   /**< Value now. */
        peak;           /**< Highest value since the last tarn_torch_reset_peaks(). */
    uint64_t allocated, /**< Sum of all increases since tarn_torch_reset_totals(). */
        freed;          /**< Sum of all decreases since tarn_torch_reset_totals(). */
} tarn_torch_count;

/** Counts of PyTorch's allocations on one device.
 *
 * A block is active until the resource has it: between its free and that, it waits for
 * recorded streams. */
typedef struct tarn_torch_statistics {
    size_t size; /**< The caller sets it to sizeof(tarn_torch_statistics). */
    tarn_torch_count allocations[TARN_TORCH_SIZES];     /**< Live blocks. */
    tarn_torch_count allocated_bytes[TARN_TORCH_SIZES]; /**< Their bytes, in 512s. */
    tarn_torch_count requested_bytes[TARN_TORCH_SIZES]; /**< Their bytes, as requested. */
    tarn_torch_count active[TARN_TORCH_SIZES];          /**< Active blocks. */
    tarn_torch_count active_bytes[TARN_TORCH_SIZES];    /**< Their bytes, in 512s. */
    uint64_t retries;       /**< Allocations that waited for recorded streams. */
    uint64_t out_of_memory; /**< Allocations that failed for lack of memory. */
} tarn_torch_statistics;

/** Fill `*out` with the counts of a device.
 *
 * The call fills as many bytes as `out->size` says. In a forked child the counts are those
 * of its parent.
 *
 * Thread-safety: any thread.
 *
 * @param device    number of the device
 * @param[out] out  the counts; the caller sets `out->size` first
 * @return
 * - TARN_OK: `*out` is filled.
 * - TARN_INVALID_ARGUMENT: there is no such device, `out` is NULL, or `out->size` is not
 *   set.
 * @since 0.2
 */
TARN_API tarn_status tarn_torch_get_statistics(int device, tarn_torch_statistics *out);

/** Set each peak of a device's counts to the current value, and reset the recent peaks of
 * its pool (tarn_pool_reset_peaks()).
 *
 * Thread-safety: any thread.
 *
 * @param device  number of the device
 * @return
 * - TARN_OK: the peaks are reset.
 * - TARN_INVALID_ARGUMENT: there is no such device.
 * @since 0.2
 */
TARN_API tarn_status tarn_torch_reset_peaks(int device);

/** Set the sums `allocated` and `freed`, `retries` and `out_of_memory` of a device to 0.
 *
 * Thread-safety: any thread.
 *
 * @param device  number of the device
 * @return
 * - TARN_OK: the sums are reset.
 * - TARN_INVALID_ARGUMENT: there is no such device.
 * @since 0.2
 */
TARN_API tarn_status tarn_torch_reset_totals(int device);

/** Two functions for one torch.cuda.MemPool. */
typedef struct tarn_torch_segments {
    size_t size; /**< The caller sets it to sizeof(tarn_torch_segments). */
    /** Allocates a segment; NULL on failure, which PyTorch reports as out of memory. */
    void *(*allocate)(size_t bytes, int device, tarn_stream stream);
    /** Frees a segment. A failure is a warning. */
    void (*deallocate)(void *block, size_t bytes, int device, tarn_stream stream);
} tarn_torch_segments;

/** Open functions that allocate from one resource, for a torch.cuda.MemPool.
 *
 * PyTorch's allocator manages the memory in a segment, so it decides when a segment ends.
 * The functions ignore streams and captures: they allocate and free with TARN_STREAM_NONE.
 * PyTorch calls them with a lock of its allocator held. So an out-of-memory callback of the
 * resource must not wait for a thread that uses PyTorch.
 *
 * The functions exist until the process ends. 64 resources can be open.
 *
 * Thread-safety: any thread.
 *
 * @param resource  the resource; retained
 * @param[out] out  the functions; the caller sets `out->size` first
 * @return
 * - TARN_OK: `*out` is filled.
 * - TARN_INVALID_ARGUMENT: `resource` or `out` is NULL, or `out->size` is too small.
 * - TARN_NOT_SUPPORTED: the resource has no device, or is unsafe without a stream
 *   (tarn_resource_supports_no_stream()).
 * - TARN_LIMIT_REACHED: 64 resources are open.
 * @since 0.2
 */
TARN_API tarn_status tarn_torch_open_segments(tarn_resource *resource,
                                              tarn_torch_segments *out);

/** Close functions of tarn_torch_open_segments().
 *
 * Later allocations fail. PyTorch may free segments later: the resource is released after
 * the last one.
 *
 * Thread-safety: any thread.
 *
 * @param segments  the functions
 * @return
 * - TARN_OK: they are closed.
 * - TARN_INVALID_ARGUMENT: `segments` is NULL, or not open.
 * @since 0.2
 */
TARN_API tarn_status tarn_torch_close_segments(const tarn_torch_segments *segments);

/** @} */

TARN_END_DECLS
#endif
