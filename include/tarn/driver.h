/* driver.h -- the GPU driver as Tarn sees it: which one is loaded, devices, streams.
 *
 * Tarn links no CUDA. It opens a driver library once a process: the path given to
 * tarn_driver_open(), else the environment variable TARN_DRIVER (a path, or `sim` for the
 * stand-in that comes with Tarn), else `libcuda.so.1`. There is no silent fall-back to
 * the stand-in. Every other call opens the driver in this order when it needs one.
 */
#ifndef TARN_DRIVER_H
#define TARN_DRIVER_H

#include <tarn/status.h>

TARN_BEGIN_DECLS

/** An address on a device; the same type as CUdeviceptr. Host resources return host
 *  addresses in it. */
typedef unsigned long long tarn_device_ptr;

/**
 * A stream, by value: one pointer-sized word.
 *
 * It is a raw `CUstream` (cast it; 0, 1 and 2 mean what they mean to CUDA: default,
 * legacy, per-thread), or a stream that was opened once with tarn_stream_register(), or
 * TARN_STREAM_NONE: no stream is named. Resources that other people
 * write get the value as it came; tarn_stream_handle() gives the CUstream in it.
 */
typedef struct tarn__stream *tarn_stream;

#define TARN_STREAM_DEFAULT ((tarn_stream)0)
#define TARN_STREAM_LEGACY ((tarn_stream)1)
#define TARN_STREAM_PER_THREAD ((tarn_stream)2)
#define TARN_STREAM_NONE ((tarn_stream)UINTPTR_MAX)

/** The CUstream that a stream names; TARN_STREAM_NONE gives the default stream, 0. So does
 *  the value of a stream that was closed, which is misuse: tarn_error_last() then says so.
 * No driver call; any thread. */
TARN_API void *tarn_stream_handle(tarn_stream stream);

/** Make a stream in `device`'s primary context; `non_blocking` ones do not wait for the
 * default stream, nor it for them. Destroy it when nothing uses it any more. Any thread.
 */
TARN_API tarn_status tarn_stream_create(int device, bool non_blocking, tarn_stream *out);

/** Destroy a stream of tarn_stream_create(). Work that is queued on it still runs. A
 *  default stream and an opened value are TARN_INVALID_ARGUMENT; a stream that is open is
 * TARN_STILL_IN_USE. Any thread. */
TARN_API tarn_status tarn_stream_destroy(int device, tarn_stream stream);

/** Open a stream: name it by a value whose owner promises two things, so that a resource
 * need not ask the driver at every call. First, it closes the value before it destroys the
 * stream. Second, it says when the stream begins to capture and when that has ended, also
 * where the stream joins a capture of another one (tarn_stream_announce_capture()).
 * `raw` is a CUstream of `device`'s primary context; the default streams 0 and 1 can be
 * opened too, 2 cannot. A stream may be opened more than once. While it captures it is
 * TARN_STILL_IN_USE. Any thread. */
TARN_API tarn_status tarn_stream_register(int device, tarn_stream raw, tarn_stream *out);

/** Close a value of tarn_stream_register(). Nobody may be using it; afterwards each call that
 * is given it is TARN_INVALID_ARGUMENT. The stream itself lives on. Any thread. */
TARN_API tarn_status tarn_stream_unregister(tarn_stream opened);

/** The owner's word that an opened stream is about to capture, given before it begins or
 * joins one, or that this has ended. Given later, work of others may have been drawn into
 * the capture, which then is lost. The end is TARN_STILL_IN_USE, and the announcement
 * stands, while the stream captures. What is said on one value of a stream counts for all of
 * them, until it ends on that value, or this is closed. Any thread. */
TARN_API tarn_status tarn_stream_announce_capture(tarn_stream opened, bool capturing);

/** Open the driver: `path`, or with NULL the default order above; `sim` is a path here
 * too. Once a process: opening the same one again is TARN_OK, another one
 * TARN_STILL_IN_USE. TARN_NO_DRIVER if it cannot be loaded, is no driver, is older than
 * CUDA 12.0, has no device, or if the process has another driver loaded already. Any
 * thread. */
TARN_API tarn_status tarn_driver_open(const char *path);

/** What is known about the driver that is open. */
typedef struct tarn_driver_info {
    char path[512];    /**< file that defines cuInit */
    int version;       /**< as cuDriverGetVersion: 13000 is 13.0 */
    bool is_simulator; /**< it is the stand-in: kernels do not run */
    int device_count;  /**< at least 1 */
} tarn_driver_info;

/** Fill `out`; opens the driver if none is open. Any thread. */
TARN_API tarn_status tarn_driver_get_info(tarn_driver_info *out);

/** What is known about one device. */
typedef struct tarn_device_info {
    char name[128];
    char uuid[48];     /**< "GPU-xxxxxxxx-xxxx-..." */
    int compute_major; /**< compute capability */
    int compute_minor;
    size_t total_bytes; /**< device memory in all */
    size_t free_bytes;  /**< free at the moment of the call; makes the primary context */
    bool has_memory_pools;       /**< cuMemAllocAsync works */
    bool has_vmm;                /**< cuMemCreate/cuMemMap work */
    bool has_managed;            /**< cuMemAllocManaged works */
    bool has_host_mapping;       /**< host memory can be mapped into the device */
    bool has_legacy_ipc;         /**< cuIpcGetMemHandle works */
    bool has_concurrent_managed; /**< host and device may touch managed memory at once */
} tarn_device_info;

/** Fill `out` for device `device` (0-based, as the driver numbers them). Any thread. */
TARN_API tarn_status tarn_driver_device_info(int device, tarn_device_info *out);

/** The device of the calling thread's current context; 0 where no context is current.
 *  Any thread. */
TARN_API tarn_status tarn_driver_current_device(int *out);

/** Which life `device`'s primary context is in: another number after each reset of it. 0
 * where it has none that Tarn knows of, once exit has begun, and in a forked child. Memory
 * of another life than the present one is gone, and its address may be somebody else's: a
 * finalizer that calls the driver compares first, and does nothing at 0. Makes no context.
 * Any thread. */
TARN_API uint64_t tarn_context_generation(int device);

/** Wait until all work of `device`'s primary context is done. Any thread. Ends every
 * stream capture in that context. */
TARN_API tarn_status tarn_driver_synchronize(int device);

/** Wait for all work queued on `stream` of `device`. Any thread. Ends no capture but one
 * that `stream` is in, or where it is the legacy one, those of blocking streams. */
TARN_API tarn_status tarn_stream_synchronize(int device, tarn_stream stream);

/** Queue a copy of `bytes` between any two addresses (host pageable, pinned, device,
 *  managed) on `stream` of `device`, as cuMemcpyAsync. Not for TARN_STREAM_NONE, which
 *  copies and waits. Any thread. */
TARN_API tarn_status tarn_memcpy_async(int device, tarn_device_ptr to,
                                       tarn_device_ptr from, size_t bytes,
                                       tarn_stream stream);

/** Queue a fill of `bytes` with the byte `value`, as cuMemsetD8Async. */
TARN_API tarn_status tarn_memset_async(int device, tarn_device_ptr to,
                                       unsigned char value, size_t bytes,
                                       tarn_stream stream);

/** Ask the driver whether `bytes` at `address` can be a block of `device`: for code that
 *  was given the address by code that it does not trust. TARN_INVALID_ARGUMENT, with the
 *  numbers: the allocation at `address` ends before the block does, or it is memory of
 *  another device. TARN_OK: neither, or the driver does not say, as of system memory and of
 *  memory that was mapped in parts (cuMemMap). Makes the primary context. Any thread. */
TARN_API tarn_status tarn_driver_check_allocation(int device, tarn_device_ptr address,
                                                  size_t bytes);

TARN_END_DECLS
#endif
