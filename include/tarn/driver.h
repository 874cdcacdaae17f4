/* driver.h -- the GPU driver of the process: loading it, devices, streams.
 *
 * Tarn links no CUDA. It opens one driver library per process. The first of these
 * decides:
 *
 * 1. The path given to tarn_driver_open().
 * 2. The environment variable TARN_DRIVER: a path, or `sim` for the driver simulator that
 *    comes with Tarn. A setuid program ignores it.
 * 3. `libcuda.so.1`.
 *
 * Every other call that needs a driver opens it in this order. Tarn never falls back to
 * the driver simulator silently.
 *
 * A function that needs the driver can return these statuses, besides those it lists:
 *
 * | Status              | Condition                                                     |
 * |---------------------|---------------------------------------------------------------|
 * | TARN_NO_DRIVER      | no driver is open, and the call could not open one            |
 * | TARN_DRIVER_FAILURE | a driver call failed, exit has begun, or in a forked child    |
 * | TARN_OUT_OF_MEMORY  | a driver call gave CUDA_ERROR_OUT_OF_MEMORY                   |
 * | TARN_NOT_SUPPORTED  | a driver call gave CUDA_ERROR_NOT_SUPPORTED                   |
 *
 * Exit has begun when exit() has called the handler that Tarn registered with atexit()
 * when the process opened the driver. For "registered stream" see docs/glossary.md.
 */
#ifndef TARN_DRIVER_H
#define TARN_DRIVER_H

#include <tarn/status.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_driver
 * @{ */

/** An address on a device; the same type as CUdeviceptr.
 *
 * Host resources return host addresses in it. */
typedef unsigned long long tarn_device_ptr;

/** @} */

/** @addtogroup tarn_stream
 * @{ */

/**
 * A stream, by value: one pointer-sized word.
 *
 * It is one of these:
 * - A raw stream: a `CUstream`, cast. 0, 1 and 2 are the default streams of CUDA:
 *   default, legacy, per-thread.
 * - A registered stream: a value of tarn_stream_register().
 * - TARN_STREAM_NONE: no stream.
 *
 * A user-written resource receives the value unchanged. tarn_stream_handle() returns its
 * CUstream.
 */
typedef struct tarn__stream *tarn_stream;

/** The default stream: the CUstream 0. */
#define TARN_STREAM_DEFAULT ((tarn_stream)0)
/** The legacy default stream: CU_STREAM_LEGACY. */
#define TARN_STREAM_LEGACY ((tarn_stream)1)
/** The per-thread default stream: CU_STREAM_PER_THREAD. */
#define TARN_STREAM_PER_THREAD ((tarn_stream)2)
/** No stream: an allocation or a free that names no stream. */
#define TARN_STREAM_NONE ((tarn_stream)UINTPTR_MAX)

/**
 * Return the CUstream of a stream.
 *
 * The function makes no driver call.
 *
 * Thread-safety: any thread.
 *
 * @param stream  The stream; borrowed.
 * @return The CUstream. TARN_STREAM_NONE gives the default stream, 0. A value that is not
 *         registered any more is misuse: it gives 0, and tarn_error_last() has the
 *         message.
 * @since 0.1
 */
TARN_API void *tarn_stream_handle(tarn_stream stream);

/**
 * Create a stream in the primary context of a device.
 *
 * Thread-safety: any thread.
 *
 * @param device        The device number.
 * @param non_blocking  true: the stream and the default stream do not wait for each
 *                      other.
 * @param[out] out      The raw stream. The caller owns it and destroys it after its last
 *                      use.
 * @return
 * - TARN_OK: the stream exists.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `out` is NULL.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.1
 */
TARN_API tarn_status tarn_stream_create(int device, bool non_blocking, tarn_stream *out);

/**
 * Destroy a stream of tarn_stream_create().
 *
 * Work that is queued on the stream still runs. After exit has begun, and in a forked
 * child, the call does nothing and returns TARN_OK.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number.
 * @param stream  The raw stream; transferred.
 * @return
 * - TARN_OK: the stream is destroyed.
 * - TARN_INVALID_ARGUMENT: `stream` is a default stream, TARN_STREAM_NONE or a value of
 *   tarn_stream_register(), or there is no such device.
 * - TARN_STILL_IN_USE: the stream is registered.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.1
 */
TARN_API tarn_status tarn_stream_destroy(int device, tarn_stream stream);

/**
 * Register a stream, so that a resource need not query the driver at every call.
 *
 * The owner of the returned value promises two things:
 * - It unregisters the value before it destroys the stream.
 * - It announces when the stream begins to capture and when the capture has ended. This
 *   includes a stream that joins the capture of another: see
 *   tarn_stream_announce_capture().
 *
 * A stream may be registered more than once.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param raw       A CUstream of the primary context of `device`, or one of the default
 *                  streams 0 and 1; borrowed. 2 (per-thread) cannot be registered.
 * @param[out] out  The registered stream. The caller owns it.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `raw` cannot be registered or belongs to another context,
 *   there is no such device, or `out` is NULL.
 * - TARN_STREAM_CAPTURING: the stream captures.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted, or too many streams are registered.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.2
 */
TARN_API tarn_status tarn_stream_register(int device, tarn_stream raw, tarn_stream *out);

/**
 * Unregister a value of tarn_stream_register().
 *
 * No call may be using the value. Afterwards each call with the value returns
 * TARN_INVALID_ARGUMENT. The stream itself continues to exist.
 *
 * Thread-safety: any thread.
 *
 * @param registered The registered stream; transferred.
 * @return
 * - TARN_OK: the value is unregistered.
 * - TARN_INVALID_ARGUMENT: `registered` is not a registered stream.
 * @since 0.2
 */
TARN_API tarn_status tarn_stream_unregister(tarn_stream registered);

/**
 * Announce that a registered stream is about to capture, or that its capture has ended.
 *
 * The owner announces a capture before the stream begins or joins it. If the
 * announcement is late, the capture may already contain work of other owners and is then
 * lost.
 *
 * An announcement on one value of a stream applies to all values of that stream. It lasts
 * until its end is announced on the same value, or that value is unregistered.
 *
 * Thread-safety: any thread.
 *
 * @param registered The registered stream; borrowed.
 * @param capturing  true before the capture, false after its end.
 * @return
 * - TARN_OK: the announcement is recorded.
 * - TARN_INVALID_ARGUMENT: `registered` is not a registered stream.
 * - TARN_STREAM_CAPTURING: `capturing` is false and the stream still captures. The
 *   announcement remains.
 * @since 0.1
 */
TARN_API tarn_status tarn_stream_announce_capture(tarn_stream registered, bool capturing);

/** @} */

/** @addtogroup tarn_driver
 * @{ */

/**
 * Open the driver of the process.
 *
 * The process has one driver. Opening the same driver again has no effect.
 *
 * Thread-safety: any thread.
 *
 * @param path  The path of the driver library, or `sim` for the driver simulator; copied.
 *              NULL: the order in the head of driver.h.
 * @return
 * - TARN_OK: the driver is open. With NULL, any open driver is TARN_OK.
 * - TARN_ALREADY_SET: another driver is open.
 * - TARN_NO_DRIVER: the library cannot be loaded, is no driver, is older than CUDA 12.0,
 *   or has no device. Or the process has another driver loaded already.
 * - TARN_DRIVER_FAILURE: the process was forked while another thread opened the driver.
 * @since 0.1
 */
TARN_API tarn_status tarn_driver_open(const char *path);

/** Properties of the open driver. */
typedef struct tarn_driver_info {
    char path[512];    /**< The file that defines cuInit. */
    int version;       /**< As in cuDriverGetVersion: 13000 is CUDA 13.0. */
    bool is_simulator; /**< It is the driver simulator, which runs no kernels. */
    int device_count;  /**< Number of devices; at least 1. */
} tarn_driver_info;

/**
 * Query the properties of the driver; opens the driver if none is open.
 *
 * Thread-safety: any thread.
 *
 * @param[out] out  The properties; unchanged on failure.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `out` is NULL.
 * - Other statuses: those of tarn_driver_open().
 * @since 0.1
 */
TARN_API tarn_status tarn_driver_get_info(tarn_driver_info *out);

/** Properties of one device. */
typedef struct tarn_device_info {
    char name[128];              /**< The name that the driver reports. */
    char uuid[48];               /**< "GPU-xxxxxxxx-xxxx-..." */
    int compute_major;           /**< Major number of the compute capability. */
    int compute_minor;           /**< Minor number of the compute capability. */
    size_t total_bytes;          /**< Device memory in total. */
    size_t free_bytes;           /**< Free device memory at the time of the call. */
    bool has_memory_pools;       /**< cuMemAllocAsync works. */
    bool has_vmm;                /**< cuMemCreate and cuMemMap work. */
    bool has_managed;            /**< cuMemAllocManaged works. */
    bool has_host_mapping;       /**< The device can map host memory. */
    bool has_legacy_ipc;         /**< cuIpcGetMemHandle works. */
    bool has_concurrent_managed; /**< Host and device may use managed memory at once. */
    /** Exportable memory is capable of GPUDirect RDMA. */
    bool has_rdma;
    bool has_dma_buf; /**< tarn_ipc_export_dma_buf() works. */
    /** The device has fabric handles. A process also needs an IMEX channel for them. */
    bool has_fabric;
} tarn_device_info;

/**
 * Query the properties of a device.
 *
 * The call makes the primary context of the device, in order to query the free memory.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number, from 0, as the driver numbers them.
 * @param[out] out  The properties; unchanged on failure.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `out` is NULL.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.1
 */
TARN_API tarn_status tarn_driver_device_info(int device, tarn_device_info *out);

/**
 * Query the device of the current context of the calling thread.
 *
 * Thread-safety: any thread.
 *
 * @param[out] out  The device number; 0 if no context is current.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: `out` is NULL.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.1
 */
TARN_API tarn_status tarn_driver_current_device(int *out);

/**
 * Return the generation of the primary context of a device.
 *
 * Each reset of the context begins another generation, with another number. A reset frees
 * the memory of earlier generations, and its addresses may belong to other owners. A
 * finalizer that calls the driver compares the generations first. At 0 it does nothing.
 *
 * The function makes no context.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number.
 * @return The generation. 0 if Tarn knows of no primary context of the device, after
 *         exit has begun, and in a forked child.
 * @since 0.2
 */
TARN_API uint64_t tarn_context_generation(int device);

/**
 * Wait until all work of the primary context of a device is done.
 *
 * The call invalidates every stream capture in that context.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number.
 * @return
 * - TARN_OK: the work is done.
 * - TARN_INVALID_ARGUMENT: there is no such device.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.1
 */
TARN_API tarn_status tarn_driver_synchronize(int device);

/** @} */

/** @addtogroup tarn_stream
 * @{ */

/**
 * Wait until all work that is queued on a stream is done.
 *
 * The call invalidates a capture that `stream` belongs to. If `stream` is the legacy
 * default stream, the call invalidates the captures of blocking streams. It invalidates
 * no other capture.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number.
 * @param stream  The stream; borrowed. TARN_STREAM_NONE: the default stream.
 * @return
 * - TARN_OK: the work is done.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `stream` belongs to another
 *   context or is not registered any more.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.1
 */
TARN_API tarn_status tarn_stream_synchronize(int device, tarn_stream stream);

/**
 * Make a stream wait for the work that is queued on another stream now.
 *
 * The call queues the wait and returns. If the streams are the same, it does nothing. If
 * one of them captures, the other has to belong to the same capture.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number of both streams.
 * @param stream  The stream that waits; borrowed. TARN_STREAM_NONE: the default stream.
 * @param other   The stream that it waits for; borrowed. TARN_STREAM_NONE: the default
 *                stream.
 * @return
 * - TARN_OK: work that is queued on `stream` from now on waits.
 * - TARN_INVALID_ARGUMENT: there is no such device, or a stream belongs to another
 *   context or is not registered any more.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.2
 */
TARN_API tarn_status tarn_stream_wait(int device, tarn_stream stream, tarn_stream other);

/** @} */

/** @addtogroup tarn_driver
 * @{ */

/**
 * Queue a copy of `bytes` bytes between two addresses, as cuMemcpyAsync.
 *
 * Each address may be one of pageable host, pinned host, device or managed memory.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number.
 * @param to      The destination.
 * @param from    The source.
 * @param bytes   Size in bytes. 0 does nothing.
 * @param stream  The stream of the copy; borrowed. With TARN_STREAM_NONE the call copies
 *                synchronously instead, as cuMemcpy.
 * @return
 * - TARN_OK: the copy is queued.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `stream` belongs to another
 *   context or is not registered any more.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.2
 */
TARN_API tarn_status tarn_memcpy_async(int device, tarn_device_ptr to,
                                       tarn_device_ptr from, size_t bytes,
                                       tarn_stream stream);

/**
 * Queue a migration of managed memory to a device or to the host, as cuMemPrefetchAsync.
 *
 * A prefetch is a hint. The call does nothing for memory that the driver cannot migrate:
 * memory that is not managed, and any memory if `to` cannot access managed memory while
 * the host does.
 *
 * Thread-safety: any thread.
 *
 * @param device   The device number, for `stream`.
 * @param address  The first byte.
 * @param bytes    Size in bytes. 0 does nothing.
 * @param to       The device number of the destination; -1 for the host.
 * @param stream   The stream of the prefetch; borrowed. TARN_STREAM_NONE: the legacy
 *                 default stream.
 * @return
 * - TARN_OK: the prefetch is queued, or there is nothing to migrate.
 * - TARN_INVALID_ARGUMENT: `device` or `to` does not exist, or `stream` belongs to another
 *   context or is not registered any more.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.2
 */
TARN_API tarn_status tarn_prefetch_async(int device, tarn_device_ptr address,
                                         size_t bytes, int to, tarn_stream stream);

/**
 * Queue a fill of `bytes` bytes with one value, as cuMemsetD8Async.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number.
 * @param to      The destination.
 * @param value   The value of each byte.
 * @param bytes   Size in bytes. 0 does nothing.
 * @param stream  The stream of the fill; borrowed. TARN_STREAM_NONE: the default stream.
 * @return
 * - TARN_OK: the fill is queued.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `stream` belongs to another
 *   context or is not registered any more.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.2
 */
TARN_API tarn_status tarn_memset_async(int device, tarn_device_ptr to,
                                       unsigned char value, size_t bytes,
                                       tarn_stream stream);

/**
 * Check with the driver whether `bytes` bytes at `address` can be a block of a device.
 *
 * The check is for code that received the address from code that it does not trust. The
 * call makes the primary context of the device.
 *
 * Thread-safety: any thread.
 *
 * @param device   The device number.
 * @param address  The start of the block.
 * @param bytes    The size of the block in bytes.
 * @return
 * - TARN_OK: the driver reports no contradiction. It reports nothing about system memory,
 *   and not the full size of memory that was mapped in parts (cuMemMap).
 * - TARN_INVALID_ARGUMENT: the allocation at `address` ends before the block, or the
 *   memory belongs to another device. The message has the numbers. Or there is no such
 *   device.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.2
 */
TARN_API tarn_status tarn_driver_check_allocation(int device, tarn_device_ptr address,
                                                  size_t bytes);

/** The type of the memory at an address. */
typedef enum tarn_memory_type {
    TARN_MEMORY_UNKNOWN = 0, /**< The driver does not know the address. */
    TARN_MEMORY_DEVICE = 1,  /**< Memory of a device. */
    TARN_MEMORY_HOST = 2,    /**< Page-locked memory of the host. */
    TARN_MEMORY_MANAGED = 3  /**< Managed memory. */
} tarn_memory_type;

/**
 * Query the type of the memory at an address.
 *
 * The call makes the primary context of the device.
 *
 * Thread-safety: any thread.
 *
 * @param device           The number of a device that can use the memory.
 * @param address          An address inside the memory.
 * @param[out] type_out    The type. It is TARN_MEMORY_UNKNOWN for pageable memory of the
 *                         host, and for an address that belongs to no allocation.
 * @param[out] device_out  The device of the memory; `device` if the driver reports none.
 * @return
 * - TARN_OK: both outputs are set.
 * - TARN_INVALID_ARGUMENT: an output is NULL, or there is no such device.
 * - Other statuses: those of the driver, see the head of driver.h.
 * @since 0.2
 */
TARN_API tarn_status tarn_driver_memory_type(int device, tarn_device_ptr address,
                                             tarn_memory_type *type_out, int *device_out);

/** @} */

TARN_END_DECLS
#endif
