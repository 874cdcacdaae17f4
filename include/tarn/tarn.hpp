/* tarn.hpp -- the C++ interface, C++17 or later: resources, streams, buffers, exceptions.
 *
 * The header has no library of its own: each member calls a function of libtarn. An owner
 * returns its C object by get(), so the functions of the other headers work on it, and
 * tarn::check() turns their status into an exception.
 *
 * | Class                      | Owns                                  | Copy          |
 * |----------------------------|---------------------------------------|---------------|
 * | tarn::resource             | a reference to a memory resource      | a reference   |
 * | tarn::host_device_resource | the same; the host can use its memory | a reference   |
 * | tarn::host_resource        | the same; the host alone can use it   | a reference   |
 * | tarn::stream               | a stream                              | no            |
 * | tarn::device_buffer        | a block of a resource, with its size  | with a stream |
 *
 * CCCL. With <cuda/memory_resource>, tarn::resource models
 * cuda::mr::resource_with<cuda::mr::device_accessible>. tarn::host_device_resource is
 * host_accessible, too. tarn::host_resource models
 * cuda::mr::synchronous_resource_with<cuda::mr::host_accessible>.
 *
 * RMM. With RMM's headers, the exceptions of failing allocations are RMM's:
 *
 * | Failure                       | without RMM        | with RMM           |
 * |-------------------------------|--------------------|--------------------|
 * | out of memory                 | std::bad_alloc     | rmm::out_of_memory |
 * | of a class below, otherwise   | std::runtime_error | rmm::bad_alloc     |
 * | any other                     | std::runtime_error | std::runtime_error |
 *
 * A thrown object derives from one of these and from tarn::error. A program selects CCCL and RMM in one of two
 * ways: it includes their headers before this one, or it defines a macro before it:
 *
 *   - TARN_WITH_CCCL: this header includes <cuda/memory_resource>.
 *   - TARN_WITH_RMM: this header includes <rmm/error.hpp>, and CCCL as above.
 *
 * If <cuda/memory_resource> comes later, include this header again after it. Files with
 * and without RMM can be linked into one program. Each file throws its own exceptions. A
 * file without RMM catches those of the other files as tarn::error or std::bad_alloc. If
 * both pass a resource to CCCL, define TARN_WITH_RMM for both.
 */
#ifndef TARN_TARN_HPP
#define TARN_TARN_HPP

#include <tarn/tarn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

/* Each header of RMM defines RMM_EXPORT. TARN_HPP_THROWS marks a function that may throw.
 * With RMM such a function has a symbol of its own, so that the linker does not merge it
 * with that of a file without RMM. */
#if defined(TARN_WITH_RMM) || defined(RMM_EXPORT)
#include <rmm/error.hpp>
#define TARN_HPP_RMM 1
#define TARN_HPP_THROWS __attribute__((abi_tag("rmm")))
#else
#define TARN_HPP_RMM 0
#define TARN_HPP_THROWS
#endif

struct CUstream_st; /* of the CUDA headers: cudaStream_t and CUstream point to it */

namespace tarn
{

/** @addtogroup tarn_cpp
 * @{ */

/**
 * A failure: the base class of every exception that Tarn throws.
 *
 * It is no std::exception by itself. A thrown object has a second base class, which is
 * one: see the table in the head of tarn.hpp.
 *
 * Thread-safety: as of any constant object.
 */
class TARN_API error
{
  public:
    /** Copy the failure.
     *
     * Thread-safety: any thread.
     *
     * @param other  The failure to copy.
     * @since 0.2 */
    error(const error &other) noexcept = default;
    /** Copy the failure.
     *
     * Thread-safety: one thread at a time for one object.
     *
     * @param other  The failure to copy.
     * @return This object.
     * @since 0.2 */
    error &operator=(const error &other) noexcept = default;
    /** Destroy the failure.
     *
     * Thread-safety: one thread.
     *
     * @since 0.2 */
    virtual ~error() = default;

    /** Return the status of the failure.
     *
     * Thread-safety: any thread.
     *
     * @return The status; never TARN_OK.
     * @since 0.2 */
    tarn_status status() const noexcept
    {
        return failure_.status;
    }

    /** Return the error code of the driver or of the system.
     *
     * Thread-safety: any thread.
     *
     * @return A CUresult or an errno; 0: none.
     * @since 0.2 */
    int native() const noexcept
    {
        return failure_.native;
    }

    /** Return the message of the failure.
     *
     * Thread-safety: any thread.
     *
     * @return One line, such as `limiter: 101 bytes exceed the limit`; borrowed from this
     *         object.
     * @since 0.2 */
    const char *message() const noexcept
    {
        return failure_.message;
    }

    /** Return the message of the failure, as std::exception::what().
     *
     * Thread-safety: any thread.
     *
     * @return The same as message().
     * @since 0.2 */
    virtual const char *what() const noexcept = 0;

  protected:
    /** Create a failure; for the classes that are thrown.
     *
     * Thread-safety: any thread.
     *
     * @param failure  The failure; copied.
     * @since 0.2 */
    explicit error(const tarn_error &failure) noexcept : failure_(failure)
    {
    }

  private:
    tarn_error failure_;
};

namespace detail
{

/* What is thrown: an exception that callers of other libraries catch, and an error. */
template <class Standard> class TARN_API exception : public Standard, public error
{
  public:
    explicit exception(const tarn_error &failure)
        : Standard(standard(failure.message)), error(failure)
    {
    }

    const char *what() const noexcept override
    {
        return message();
    }

  private:
    static Standard standard([[maybe_unused]] const char *message)
    {
        if constexpr (std::is_constructible_v<Standard, const char *>)
            return Standard(message);
        else
            return Standard();
    }
};

#if TARN_HPP_RMM
using memory_exhausted = ::rmm::out_of_memory;
using allocation_failed = ::rmm::bad_alloc;
#else
using memory_exhausted = std::bad_alloc;
using allocation_failed = std::runtime_error;
#endif

} // namespace detail

/**
 * The exception for TARN_OUT_OF_MEMORY: a std::bad_alloc and a tarn::error.
 *
 * With RMM it is a rmm::out_of_memory, which derives from std::bad_alloc.
 */
using out_of_memory = detail::exception<detail::memory_exhausted>;

namespace detail
{

/* An int if get() of an object of this class returns a stream. */
template <class Stream>
using if_has_stream = std::enable_if_t<
    std::is_same_v<decltype(std::declval<const Stream &>().get()), CUstream_st *>, int>;

/* Return the last failure of the thread. If it has another status, then one whose message
 * describes this status. */
inline tarn_error failure_of(tarn_status status) noexcept
{
    tarn_error failure = *tarn_error_last();

    if (failure.status != status) {
        failure = {status, 0, {}};
        std::snprintf(failure.message, sizeof failure.message, "%s",
                      tarn_status_string(status));
    }
    return failure;
}

/* Throw the failure of this thread. `Other` is thrown unless memory is exhausted. */
template <class Other> [[noreturn]] TARN_HPP_THROWS void raise(tarn_status status)
{
    const tarn_error failure = failure_of(status);

    if (status == TARN_OUT_OF_MEMORY)
        throw out_of_memory(failure);
    throw exception<Other>(failure);
}

TARN_HPP_THROWS inline void check_allocation(tarn_status status)
{
    if (status != TARN_OK)
        raise<allocation_failed>(status);
}

inline tarn_device_ptr address_of(const void *block) noexcept
{
    return reinterpret_cast<std::uintptr_t>(block);
}

inline void *pointer_to(tarn_device_ptr address) noexcept
{
    return reinterpret_cast<void *>(static_cast<std::uintptr_t>(address));
}

/* Wait until a block that was allocated without a stream is ready for every stream. A
 * resource that orders memory by stream prepared it on the default stream. */
inline tarn_status wait_until_ready(const tarn_resource *resource) noexcept
{
    const int device = tarn_resource_device(resource);

    if (device == TARN_DEVICE_NONE || tarn_resource_supports_no_stream(resource))
        return TARN_OK;
    if (tarn_resource_supports_streams(resource))
        return tarn_stream_synchronize(device, reinterpret_cast<tarn_stream>(1));
    return tarn_driver_synchronize(device);
}

} // namespace detail

/**
 * Throw an exception if a function of the C interface has failed.
 *
 * Thread-safety: the thread that called the function, since the message is per thread.
 *
 * @param status  The result of the call.
 * @throws tarn::out_of_memory  `status` is TARN_OUT_OF_MEMORY.
 * @throws tarn::error          `status` is another failure; also a std::runtime_error.
 * @since 0.2
 */
TARN_HPP_THROWS inline void check(tarn_status status)
{
    if (status != TARN_OK)
        detail::raise<std::runtime_error>(status);
}

/**
 * A stream, by value: what the members below take. It owns nothing.
 *
 * It converts from a tarn_stream, a cudaStream_t or a CUstream, and from a class whose
 * get() returns a cudaStream_t, such as cuda::stream_ref.
 *
 * Thread-safety: as of a pointer.
 */
class stream_view
{
  public:
    /** Create a view of the default stream, the CUstream 0.
     *
     * Thread-safety: any thread.
     *
     * @since 0.2 */
    stream_view() noexcept = default;

    /** Create a view of a stream of the C interface.
     *
     * Thread-safety: any thread.
     *
     * @param stream  The stream, or TARN_STREAM_NONE; borrowed.
     * @since 0.2 */
    stream_view(tarn_stream stream) noexcept : stream_(stream)
    {
    }

    /** Create a view of a CUDA stream.
     *
     * Thread-safety: any thread.
     *
     * @param stream  A cudaStream_t or a CUstream; borrowed.
     * @since 0.2 */
    stream_view(CUstream_st *stream) noexcept
        : stream_(reinterpret_cast<tarn_stream>(stream))
    {
    }

    /** Create a view of the stream of another library's class.
     *
     * Thread-safety: any thread.
     *
     * @param stream  An object whose get() returns a cudaStream_t, such as a
     *                cuda::stream_ref; borrowed.
     * @since 0.2 */
    template <class Stream, detail::if_has_stream<Stream> = 0>
    stream_view(const Stream &stream) noexcept : stream_view(stream.get())
    {
    }

    stream_view(int) = delete;
    stream_view(std::nullptr_t) = delete;

    /** Return the view that names no stream.
     *
     * Thread-safety: any thread.
     *
     * @return TARN_STREAM_NONE.
     * @since 0.2 */
    static stream_view none() noexcept
    {
        return reinterpret_cast<tarn_stream>(UINTPTR_MAX);
    }

    /** Return the stream for functions of the C interface.
     *
     * Thread-safety: any thread.
     *
     * @return The stream; borrowed.
     * @since 0.2 */
    tarn_stream get() const noexcept
    {
        return stream_;
    }

  private:
    tarn_stream stream_ = nullptr;
};

/**
 * The owner of a stream.
 *
 * It converts to stream_view, and to a class of one pointer that converts from
 * cudaStream_t, such as cuda::stream_ref.
 *
 * Thread-safety: any thread may use the stream. One thread at a time may move or destroy
 * the object.
 */
class stream
{
  public:
    /** Create a stream in the primary context of a device.
     *
     * Thread-safety: any thread.
     *
     * @param device        The device number.
     * @param non_blocking  true: the stream and the default stream do not wait for each
     *                      other.
     * @throws tarn::out_of_memory  The driver has no memory.
     * @throws tarn::error          Another failure, see tarn_stream_create().
     * @since 0.2 */
    TARN_HPP_THROWS explicit stream(int device = 0, bool non_blocking = false)
        : device_(device)
    {
        check(tarn_stream_create(device, non_blocking, &stream_));
    }

    stream(const stream &) = delete;
    stream &operator=(const stream &) = delete;

    /** Take the stream of another owner, which is empty afterwards.
     *
     * Thread-safety: one thread at a time for one object.
     *
     * @param other  The owner.
     * @since 0.2 */
    stream(stream &&other) noexcept
        : stream_(std::exchange(other.stream_, nullptr)), device_(other.device_)
    {
    }

    /** Exchange the streams of two owners.
     *
     * Thread-safety: one thread at a time for one object.
     *
     * @param other  The other owner.
     * @return This object.
     * @since 0.2 */
    stream &operator=(stream &&other) noexcept
    {
        std::swap(stream_, other.stream_);
        std::swap(device_, other.device_);
        return *this;
    }

    /** Destroy the stream. Its queued work still runs.
     *
     * A failure goes to the warning handler.
     *
     * Thread-safety: one thread.
     *
     * @since 0.2 */
    ~stream()
    {
        if (stream_ && tarn_stream_destroy(device_, stream_) != TARN_OK)
            tarn_warn("%s", tarn_error_last()->message);
    }

    /** Return the stream for functions of the C interface.
     *
     * Thread-safety: any thread.
     *
     * @return The stream; borrowed. After a move the default stream.
     * @since 0.2 */
    tarn_stream get() const noexcept
    {
        return stream_;
    }

    /** Return the stream for CUDA's functions.
     *
     * Thread-safety: any thread.
     *
     * @return A cudaStream_t or CUstream; borrowed. After a move the default stream.
     * @since 0.2 */
    CUstream_st *handle() const noexcept
    {
        return reinterpret_cast<CUstream_st *>(stream_);
    }

    /** Return a view of the stream.
     *
     * Thread-safety: any thread.
     *
     * @return The view; it borrows the stream.
     * @since 0.2 */
    operator stream_view() const noexcept
    {
        return stream_;
    }

    /** Return another library's view of the stream, such as a cuda::stream_ref.
     *
     * Thread-safety: any thread.
     *
     * @return The view; it borrows the stream.
     * @since 0.2 */
    template <class View, std::enable_if_t<std::is_class_v<View> &&
                                               std::is_trivially_copyable_v<View> &&
                                               sizeof(View) == sizeof(void *) &&
                                               !std::is_same_v<View, stream_view> &&
                                               std::is_convertible_v<CUstream_st *, View>,
                                           int> = 0>
    operator View() const noexcept
    {
        return handle();
    }

    /** Wait until all work that is queued on the stream is done.
     *
     * Thread-safety: any thread.
     *
     * @throws tarn::error  The driver reports a failure, see tarn_stream_synchronize().
     * @since 0.2 */
    TARN_HPP_THROWS void synchronize() const
    {
        check(tarn_stream_synchronize(device_, stream_));
    }

  private:
    tarn_stream stream_ = nullptr;
    int device_;
};

/**
 * A counted reference to a memory resource whose memory the device can use.
 *
 * It has the size of a pointer. A copy is another reference. After a move the object is
 * empty: it can be destroyed and assigned to, and get() returns NULL.
 *
 * Thread-safety: any thread may call the members. One thread at a time may assign to,
 * move from or destroy one object.
 */
class resource
{
  public:
    /** Own a reference that the caller has.
     *
     * Thread-safety: any thread.
     *
     * @param handle  A reference of the C interface; transferred.
     * @return The owner.
     * @since 0.2 */
    static resource adopt(tarn_resource *handle) noexcept
    {
        return resource(handle);
    }

    /** Add a reference to a resource and own it.
     *
     * Thread-safety: any thread.
     *
     * @param handle  A resource of the C interface; retained.
     * @return The owner.
     * @since 0.2 */
    static resource share(tarn_resource *handle) noexcept
    {
        return resource(tarn_resource_retain(handle));
    }

    /** Add a reference to the resource of another object.
     *
     * Thread-safety: any thread.
     *
     * @param other  The other object.
     * @since 0.2 */
    resource(const resource &other) noexcept
        : handle_(tarn_resource_retain(other.handle_))
    {
    }

    /** Take the reference of another object, which is empty afterwards.
     *
     * Thread-safety: one thread at a time for one object.
     *
     * @param other  The other object.
     * @since 0.2 */
    resource(resource &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
    {
    }

    /** Release the present reference and own that of another object.
     *
     * Thread-safety: one thread at a time for one object.
     *
     * @param other  The other object.
     * @return This object.
     * @since 0.2 */
    resource &operator=(resource other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }

    /** Release the reference; the last one destroys the resource.
     *
     * If blocks are live, the last release fails: the resource then exists until the end
     * of the process, and the warning handler gets a message.
     *
     * Thread-safety: one thread.
     *
     * @since 0.2 */
    ~resource()
    {
        if (tarn_resource_release(handle_) != TARN_OK)
            tarn_warn("resource: the last owner is gone: %s", tarn_error_last()->message);
    }

    /** Return the resource for functions of the C interface.
     *
     * Thread-safety: any thread.
     *
     * @return The resource; borrowed. NULL after a move.
     * @since 0.2 */
    tarn_resource *get() const noexcept
    {
        return handle_;
    }

    /** Return the device of the memory.
     *
     * Thread-safety: any thread.
     *
     * @return The device number; TARN_DEVICE_NONE: none.
     * @since 0.2 */
    int device() const noexcept
    {
        return tarn_resource_device(handle_);
    }

    /** Allocate memory in the order of a stream.
     *
     * The block is ready for work that is queued on `stream` from now on. The caller owns
     * it, and calls deallocate().
     *
     * Thread-safety: any thread.
     *
     * @param stream     The stream.
     * @param bytes      Size in bytes; 0 gives NULL.
     * @param alignment  Alignment in bytes, a power of two; less than 256 counts as 256.
     * @return The block.
     * @throws tarn::out_of_memory  The resource cannot obtain the memory.
     * @throws tarn::error          Another failure, see tarn_resource_allocate(). With
     *                              RMM also a rmm::bad_alloc.
     * @since 0.2 */
    TARN_HPP_THROWS void *allocate(stream_view stream, std::size_t bytes,
                                   std::size_t alignment = TARN_ALIGNMENT)
    {
        tarn_device_ptr block = 0;

        detail::check_allocation(
            tarn_resource_allocate(handle_, bytes, alignment, stream.get(), &block));
        return detail::pointer_to(block);
    }

    /** Deallocate a block in the order of a stream.
     *
     * The resource may reuse the block on `stream` at once. If other streams used it, the
     * caller has `stream` wait for them before: see tarn_resource_deallocate(). If the call
     * fails, the block stays live and the warning handler gets a message.
     *
     * Thread-safety: any thread.
     *
     * @param stream     The stream.
     * @param block      The block; transferred. NULL with 0 bytes does nothing.
     * @param bytes      Size in bytes, as in the allocation.
     * @param alignment  Alignment in bytes, as in the allocation.
     * @since 0.2 */
    void deallocate(stream_view stream, void *block, std::size_t bytes,
                    std::size_t alignment = TARN_ALIGNMENT) noexcept
    {
        if (tarn_resource_deallocate(handle_, detail::address_of(block), bytes, alignment,
                                     stream.get()) != TARN_OK)
            tarn_warn("resource: %zu bytes at %p are not freed: %s", bytes, block,
                      tarn_error_last()->message);
    }

    /** Allocate memory that is ready for every stream when the call returns.
     *
     * The call waits if the resource needs that: see tarn_resource_supports_no_stream().
     * The caller owns the block, and calls deallocate_sync().
     *
     * Thread-safety: any thread.
     *
     * @param bytes      Size in bytes; 0 gives NULL.
     * @param alignment  Alignment in bytes, a power of two; less than 256 counts as 256.
     * @return The block.
     * @throws tarn::out_of_memory  The resource cannot obtain the memory.
     * @throws tarn::error          Another failure, also of the wait. With RMM also a
     *                              rmm::bad_alloc.
     * @since 0.2 */
    TARN_HPP_THROWS void *allocate_sync(std::size_t bytes,
                                        std::size_t alignment = TARN_ALIGNMENT)
    {
        void *block = allocate(stream_view::none(), bytes, alignment);
        tarn_status status = block ? detail::wait_until_ready(handle_) : TARN_OK;

        if (status != TARN_OK) {
            tarn_error failure = *tarn_error_last();
            deallocate(stream_view::none(), block, bytes, alignment);
            tarn_error_set_native(status, failure.native, "%s", failure.message);
            detail::check_allocation(status);
        }
        return block;
    }

    /** Deallocate a block that no queued work uses.
     *
     * That the work is done is CCCL's condition. A resource for which
     * tarn_resource_supports_no_stream() is true does not need it: it reuses the block
     * only after the work that all streams have queued. A failure is handled as in
     * deallocate().
     *
     * Thread-safety: any thread.
     *
     * @param block      The block; transferred. NULL with 0 bytes does nothing.
     * @param bytes      Size in bytes, as in the allocation.
     * @param alignment  Alignment in bytes, as in the allocation.
     * @since 0.2 */
    void deallocate_sync(void *block, std::size_t bytes,
                         std::size_t alignment = TARN_ALIGNMENT) noexcept
    {
        deallocate(stream_view::none(), block, bytes, alignment);
    }

    /** Test whether each of two resources can deallocate the blocks of the other.
     *
     * Thread-safety: any thread.
     *
     * @param one    A resource.
     * @param other  Another resource.
     * @return The result of tarn_resource_is_equal().
     * @since 0.2 */
    friend bool operator==(const resource &one, const resource &other) noexcept
    {
        return tarn_resource_is_equal(one.handle_, other.handle_);
    }

    /** Test whether one of two resources cannot deallocate the blocks of the other.
     *
     * Thread-safety: any thread.
     *
     * @param one    A resource.
     * @param other  Another resource.
     * @return The opposite of ==.
     * @since 0.2 */
    friend bool operator!=(const resource &one, const resource &other) noexcept
    {
        return !(one == other);
    }

  protected:
    /** Own a reference.
     *
     * Thread-safety: any thread.
     *
     * @param handle  The reference; transferred.
     * @since 0.2 */
    explicit resource(tarn_resource *handle) noexcept : handle_(handle)
    {
    }

  private:
    tarn_resource *handle_;
};

/**
 * A resource whose memory the device and the host can use: pinned and managed memory.
 *
 * It converts to tarn::resource, as each derived class does.
 */
class host_device_resource : public resource
{
  public:
    /** Own a reference that the caller has.
     *
     * Thread-safety: any thread.
     *
     * @param handle  A reference to a resource of such memory; transferred.
     * @return The owner.
     * @since 0.2 */
    static host_device_resource adopt(tarn_resource *handle) noexcept
    {
        return host_device_resource(handle);
    }

    /** Add a reference to a resource and own it.
     *
     * Thread-safety: any thread.
     *
     * @param handle  A resource of such memory; retained.
     * @return The owner.
     * @since 0.2 */
    static host_device_resource share(tarn_resource *handle) noexcept
    {
        return host_device_resource(tarn_resource_retain(handle));
    }

  private:
    using resource::resource;
};

/**
 * A counted reference to a resource of ordinary host memory, which the device cannot use.
 *
 * It orders nothing by stream, so it has no allocate(). It does not convert to
 * tarn::resource.
 *
 * Thread-safety: as of tarn::resource.
 */
class host_resource
{
  public:
    /** Own a reference that the caller has.
     *
     * Thread-safety: any thread.
     *
     * @param handle  A reference to a resource of host memory; transferred.
     * @return The owner.
     * @since 0.2 */
    static host_resource adopt(tarn_resource *handle) noexcept
    {
        return host_resource(resource::adopt(handle));
    }

    /** Add a reference to a resource and own it.
     *
     * Thread-safety: any thread.
     *
     * @param handle  A resource of host memory; retained.
     * @return The owner.
     * @since 0.2 */
    static host_resource share(tarn_resource *handle) noexcept
    {
        return host_resource(resource::share(handle));
    }

    /** Return the resource for functions of the C interface.
     *
     * Thread-safety: any thread.
     *
     * @return The resource; borrowed. NULL after a move.
     * @since 0.2 */
    tarn_resource *get() const noexcept
    {
        return resource_.get();
    }

    /** Allocate memory.
     *
     * Thread-safety: any thread.
     *
     * @param bytes      Size in bytes; 0 gives NULL.
     * @param alignment  Alignment in bytes, a power of two; less than 256 counts as 256.
     * @return The block; the caller owns it.
     * @throws tarn::out_of_memory  The resource cannot obtain the memory.
     * @throws tarn::error          Another failure, see tarn_resource_allocate().
     * @since 0.2 */
    TARN_HPP_THROWS void *allocate_sync(std::size_t bytes,
                                        std::size_t alignment = TARN_ALIGNMENT)
    {
        return resource_.allocate_sync(bytes, alignment);
    }

    /** Deallocate a block.
     *
     * Thread-safety: any thread.
     *
     * @param block      The block; transferred. NULL with 0 bytes does nothing.
     * @param bytes      Size in bytes, as in the allocation.
     * @param alignment  Alignment in bytes, as in the allocation.
     * @since 0.2 */
    void deallocate_sync(void *block, std::size_t bytes,
                         std::size_t alignment = TARN_ALIGNMENT) noexcept
    {
        resource_.deallocate_sync(block, bytes, alignment);
    }

    /** Test whether each of two resources can deallocate the blocks of the other.
     *
     * Thread-safety: any thread.
     *
     * @param one    A resource.
     * @param other  Another resource.
     * @return The result of tarn_resource_is_equal().
     * @since 0.2 */
    friend bool operator==(const host_resource &one, const host_resource &other) noexcept
    {
        return one.resource_ == other.resource_;
    }

    /** Test whether one of two resources cannot deallocate the blocks of the other.
     *
     * Thread-safety: any thread.
     *
     * @param one    A resource.
     * @param other  Another resource.
     * @return The opposite of ==.
     * @since 0.2 */
    friend bool operator!=(const host_resource &one, const host_resource &other) noexcept
    {
        return !(one == other);
    }

  private:
    explicit host_resource(resource owner) noexcept : resource_(std::move(owner))
    {
    }

    resource resource_;
};

/**
 * Return the resource of cuMemAlloc on a device; one object per device.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number.
 * @return A reference to the resource.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_cuda_create().
 * @since 0.2
 */
TARN_HPP_THROWS inline resource make_cuda(int device = 0)
{
    tarn_resource *handle = nullptr;

    check(tarn_cuda_create(device, &handle));
    return resource::adopt(handle);
}

/**
 * Create a resource over a stream-ordered pool of the driver.
 *
 * Thread-safety: any thread.
 *
 * @param device   The device number.
 * @param options  The options; the call sets their `size`.
 * @return A reference to the resource.
 * @throws tarn::out_of_memory  The initial bytes or host memory are unavailable.
 * @throws tarn::error          Another failure, see tarn_async_create().
 * @since 0.2
 */
TARN_HPP_THROWS inline resource make_async(int device = 0,
                                           tarn_async_options options = {})
{
    tarn_resource *handle = nullptr;

    options.size = sizeof options;
    check(tarn_async_create(device, &options, &handle));
    return resource::adopt(handle);
}

/**
 * Return the resource of managed memory on a device; one object per device.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number.
 * @return A reference to the resource.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_managed_create().
 * @since 0.2
 */
TARN_HPP_THROWS inline host_device_resource make_managed(int device = 0)
{
    tarn_resource *handle = nullptr;

    check(tarn_managed_create(device, &handle));
    return host_device_resource::adopt(handle);
}

/**
 * Return the resource of page-locked host memory for a device; one object per device.
 *
 * Thread-safety: any thread.
 *
 * @param device  The device number.
 * @return A reference to the resource.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_pinned_create().
 * @since 0.2
 */
TARN_HPP_THROWS inline host_device_resource make_pinned(int device = 0)
{
    tarn_resource *handle = nullptr;

    check(tarn_pinned_create(device, &handle));
    return host_device_resource::adopt(handle);
}

/**
 * Return the resource of ordinary host memory; one object per process.
 *
 * Thread-safety: any thread.
 *
 * @return A reference to the resource.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @since 0.2
 */
TARN_HPP_THROWS inline host_resource make_host()
{
    tarn_resource *handle = nullptr;

    check(tarn_host_create(&handle));
    return host_resource::adopt(handle);
}

/**
 * Create a pool that takes its memory from a device.
 *
 * Thread-safety: any thread.
 *
 * @param device   The device number.
 * @param options  The options; the call sets their `size`.
 * @return A reference to the pool.
 * @throws tarn::out_of_memory  The initial memory or host memory is unavailable.
 * @throws tarn::error          Another failure, see tarn_pool_create().
 * @since 0.2
 */
TARN_HPP_THROWS inline resource make_pool(int device = 0, tarn_pool_options options = {})
{
    tarn_resource *handle = nullptr;

    options.size = sizeof options;
    check(tarn_pool_create(device, nullptr, &options, &handle));
    return resource::adopt(handle);
}

/**
 * Create a pool that takes its memory from a resource of a device.
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource; retained. The pool is of its class.
 * @param options   The options; the call sets their `size`.
 * @return A reference to the pool.
 * @throws tarn::out_of_memory  The initial memory or host memory is unavailable.
 * @throws tarn::error          Another failure, see tarn_pool_create().
 * @since 0.2
 */
template <class Resource,
          std::enable_if_t<std::is_base_of_v<resource, Resource>, int> = 0>
TARN_HPP_THROWS Resource make_pool(const Resource &upstream,
                                   tarn_pool_options options = {})
{
    tarn_resource *handle = nullptr;

    options.size = sizeof options;
    check(tarn_pool_create(upstream.device(), upstream.get(), &options, &handle));
    return Resource::adopt(handle);
}

/**
 * Create a limiter: a resource that keeps another one within a number of bytes.
 *
 * Thread-safety: any thread.
 *
 * @param upstream     The resource beneath; retained. The limiter is of its class.
 * @param limit_bytes  The limit in bytes.
 * @return A reference to the limiter.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_limiter_create().
 * @since 0.2
 */
template <class Resource>
TARN_HPP_THROWS Resource make_limiter(const Resource &upstream, std::size_t limit_bytes)
{
    tarn_resource *handle = nullptr;

    check(tarn_limiter_create(upstream.get(), limit_bytes, &handle));
    return Resource::adopt(handle);
}

/**
 * Create a counter: a resource that counts the bytes and blocks of another one.
 *
 * tarn_counter_read() reads the counts of the result's get().
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource beneath; retained. The counter is of its class.
 * @return A reference to the counter.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_counter_create().
 * @since 0.2
 */
template <class Resource> TARN_HPP_THROWS Resource make_counter(const Resource &upstream)
{
    tarn_resource *handle = nullptr;

    check(tarn_counter_create(upstream.get(), &handle));
    return Resource::adopt(handle);
}

/**
 * Create a prefetcher: a resource that prefetches each block of another one to its device.
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource beneath; retained. The prefetcher is of its class.
 * @return A reference to the prefetcher.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_prefetcher_create().
 * @since 0.2
 */
template <class Resource>
TARN_HPP_THROWS Resource make_prefetcher(const Resource &upstream)
{
    tarn_resource *handle = nullptr;

    check(tarn_prefetcher_create(upstream.get(), &handle));
    return Resource::adopt(handle);
}

namespace detail
{

/* Return the status of the exception that is handled now, with its message. */
inline tarn_status status_of_exception() noexcept
{
    try {
        throw;
    } catch (const error &caught) {
        return tarn_error_set_native(caught.status(), caught.native(), "%s",
                                     caught.message());
    } catch (const std::bad_alloc &caught) {
        return tarn_error_set(TARN_OUT_OF_MEMORY, "failure_callback: %s", caught.what());
    } catch (const std::exception &caught) {
        return tarn_error_set(TARN_PLUGIN_FAILURE, "failure_callback: %s", caught.what());
    } catch (...) {
        return tarn_error_set(TARN_PLUGIN_FAILURE, "failure_callback: an exception");
    }
}

/* The function of a failure callback, for the C interface. */
template <class Function> struct failure_function {
    static tarn_status call(void *data, std::size_t bytes, bool *again_out) noexcept
    {
        try {
            *again_out = (*static_cast<Function *>(data))(bytes);
            return TARN_OK;
        } catch (...) {
            return status_of_exception();
        }
    }

    static void end(void *data) noexcept
    {
        delete static_cast<Function *>(data);
    }
};

} // namespace detail

/**
 * Create a failure callback: a resource that calls a function before an allocation of
 * another one fails for lack of memory.
 *
 * `function(bytes)` returns true to have the upstream asked again. An exception in it fails
 * the allocation: with the status and the message of a tarn::error, as TARN_OUT_OF_MEMORY
 * of a std::bad_alloc, as TARN_PLUGIN_FAILURE otherwise.
 *
 * Thread-safety: any thread. Several threads may call the function at once.
 *
 * @param upstream  The resource beneath; retained. The adaptor is of its class.
 * @param function  The function; moved into the adaptor, and destroyed with it.
 * @return A reference to the adaptor.
 * @throws std::bad_alloc  Host memory is exhausted; mostly a tarn::out_of_memory.
 * @throws tarn::error     Another failure, see tarn_failure_callback_create().
 * @since 0.2
 */
template <class Resource, class Function>
TARN_HPP_THROWS Resource make_failure_callback(const Resource &upstream,
                                               Function function)
{
    using calls = detail::failure_function<Function>;
    auto held = std::make_unique<Function>(std::move(function));
    tarn_resource *handle = nullptr;

    check(tarn_failure_callback_create(upstream.get(), calls::call, held.get(),
                                       calls::end, &handle));
    (void)held.release(); /* the adaptor owns it */
    return Resource::adopt(handle);
}

/**
 * Create a logger: a resource that writes the calls of another one to a log.
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource beneath; retained. The logger is of its class.
 * @param writer    The log; retained.
 * @return A reference to the logger.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_logger_create().
 * @since 0.2
 */
template <class Resource>
TARN_HPP_THROWS Resource make_logger(const Resource &upstream, tarn_trace_writer *writer)
{
    tarn_resource *handle = nullptr;

    check(tarn_logger_create(upstream.get(), writer, &handle));
    return Resource::adopt(handle);
}

/**
 * Create a logger that writes to a file of its own.
 *
 * The last reference to the logger closes the file. A failure to write then is lost. A
 * program that needs it keeps a tarn_trace_writer and flushes that.
 *
 * Thread-safety: any thread.
 *
 * @param upstream  The resource beneath; retained. The logger is of its class.
 * @param path      The file; created, or emptied if it exists.
 * @param format    The format of the log.
 * @return A reference to the logger.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_trace_writer_open() and
 *                              tarn_logger_create().
 * @since 0.2
 */
template <class Resource>
TARN_HPP_THROWS Resource make_logger(const Resource &upstream, const std::string &path,
                                     tarn_trace_format format = TARN_TRACE_NBEP7)
{
    tarn_trace_writer *writer = nullptr;
    tarn_resource *handle = nullptr;

    check(tarn_trace_writer_open(path.c_str(), format, &writer));
    tarn_status status = tarn_logger_create(upstream.get(), writer, &handle);
    (void)tarn_trace_writer_release(writer); /* the logger retains it */
    check(status);
    return Resource::adopt(handle);
}

/**
 * Return the current resource of the current device.
 *
 * Thread-safety: any thread.
 *
 * @return A reference to the resource.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_current_device_resource().
 * @since 0.2
 */
TARN_HPP_THROWS inline resource current_device_resource()
{
    tarn_resource *handle = nullptr;

    check(tarn_current_device_resource(&handle));
    return resource::adopt(handle);
}

/**
 * Set the current resource of the current device.
 *
 * Thread-safety: any thread.
 *
 * @param next  The resource; retained. It belongs to the current device.
 * @return A reference to the previous resource.
 * @throws tarn::out_of_memory  Host memory is exhausted.
 * @throws tarn::error          Another failure, see tarn_set_current_device_resource().
 * @since 0.2
 */
TARN_HPP_THROWS inline resource set_current_device_resource(const resource &next)
{
    tarn_resource *previous = nullptr;

    check(tarn_set_current_device_resource(next.get(), &previous));
    return resource::adopt(previous);
}

/**
 * The owner of a block of memory, with a size that can change.
 *
 * The stream of the buffer is that of its last operation. The destructor frees the memory
 * on it, so it has to outlive the buffer.
 *
 * Thread-safety: one thread at a time for one buffer.
 */
class device_buffer
{
  public:
    /** Allocate a buffer; its bytes are not initialized.
     *
     * Thread-safety: any thread.
     *
     * @param bytes   Size in bytes.
     * @param stream  The stream of the buffer; borrowed.
     * @param memory  The resource of the memory; retained.
     * @throws tarn::out_of_memory  The resource or the host has no memory.
     * @throws tarn::error          Another failure, see tarn_pointer_allocate(). With RMM
     *                              also a rmm::bad_alloc.
     * @since 0.2 */
    TARN_HPP_THROWS explicit device_buffer(std::size_t bytes, stream_view stream = {},
                                           resource memory = current_device_resource())
        : memory_(std::move(memory)), stream_(stream), bytes_(bytes)
    {
        detail::check_allocation(
            tarn_pointer_allocate(memory_.get(), bytes, stream.get(), &block_));
    }

    /** Allocate a buffer and copy memory into it.
     *
     * The copy is queued on `stream`, as by tarn_memcpy_async().
     *
     * Thread-safety: any thread.
     *
     * @param source  Memory of the host or of a device; borrowed until the copy is done.
     * @param bytes   Size in bytes.
     * @param stream  The stream of the buffer; borrowed.
     * @param memory  The resource of the memory; retained.
     * @throws tarn::out_of_memory  The resource or the host has no memory.
     * @throws tarn::error          Another failure, also of the copy. With RMM also a
     *                              rmm::bad_alloc, if the allocation fails.
     * @since 0.2 */
    TARN_HPP_THROWS device_buffer(const void *source, std::size_t bytes,
                                  stream_view stream = {},
                                  resource memory = current_device_resource())
        : device_buffer(bytes, stream, std::move(memory))
    {
        copy_from(source, bytes);
    }

    /** Allocate a buffer and copy another one into it.
     *
     * The copy is queued on `stream`. The caller orders it after the work on `other`, and
     * before later changes of `other`.
     *
     * Thread-safety: one thread at a time for one buffer.
     *
     * @param other   The other buffer; borrowed until the copy is done.
     * @param stream  The stream of the new buffer; borrowed.
     * @param memory  The resource of the memory; retained.
     * @throws tarn::out_of_memory  The resource or the host has no memory.
     * @throws tarn::error          Another failure, also of the copy. With RMM also a
     *                              rmm::bad_alloc, if the allocation fails.
     * @since 0.2 */
    TARN_HPP_THROWS device_buffer(const device_buffer &other, stream_view stream,
                                  resource memory = current_device_resource())
        : device_buffer(other.data(), other.size(), stream, std::move(memory))
    {
    }

    device_buffer(const device_buffer &) = delete;
    device_buffer &operator=(const device_buffer &) = delete;

    /** Take the memory of another buffer, which is empty afterwards.
     *
     * Thread-safety: one thread at a time for one buffer.
     *
     * @param other  The other buffer. It still has its resource and its stream.
     * @since 0.2 */
    device_buffer(device_buffer &&other) noexcept
        : memory_(other.memory_), stream_(other.stream_),
          bytes_(std::exchange(other.bytes_, 0)),
          block_(std::exchange(other.block_, nullptr))
    {
    }

    /** Exchange the memory of two buffers.
     *
     * Thread-safety: one thread at a time for one buffer.
     *
     * @param other  The other buffer.
     * @return This buffer.
     * @since 0.2 */
    device_buffer &operator=(device_buffer &&other) noexcept
    {
        std::swap(memory_, other.memory_);
        std::swap(stream_, other.stream_);
        std::swap(bytes_, other.bytes_);
        std::swap(block_, other.block_);
        return *this;
    }

    /** Free the memory in the order of the stream of the buffer.
     *
     * If the free fails, the warning handler gets a message, and Tarn tries again later:
     * see tarn_pointer_deferred_frees().
     *
     * Thread-safety: one thread.
     *
     * @since 0.2 */
    ~device_buffer()
    {
        tarn_pointer_release(block_);
    }

    /** Return the start of the memory.
     *
     * Thread-safety: one thread at a time for one buffer.
     *
     * @return The address; borrowed until the buffer is destroyed or its capacity
     *         changes. NULL if the capacity is 0.
     * @since 0.2 */
    void *data() noexcept
    {
        return block_ ? detail::pointer_to(tarn_pointer_address(block_)) : nullptr;
    }

    /** Return the start of the memory.
     *
     * Thread-safety: any thread, while no other one changes the buffer.
     *
     * @return The address; borrowed until the buffer is destroyed or its capacity
     *         changes. NULL if the capacity is 0.
     * @since 0.2 */
    const void *data() const noexcept
    {
        return block_ ? detail::pointer_to(tarn_pointer_address(block_)) : nullptr;
    }

    /** Return the size of the buffer.
     *
     * Thread-safety: any thread, while no other one changes the buffer.
     *
     * @return The size in bytes.
     * @since 0.2 */
    std::size_t size() const noexcept
    {
        return bytes_;
    }

    /** Return the size that the buffer can have without another allocation.
     *
     * Thread-safety: any thread, while no other one changes the buffer.
     *
     * @return The capacity in bytes; at least size().
     * @since 0.2 */
    std::size_t capacity() const noexcept
    {
        return block_ ? tarn_pointer_bytes(block_) : 0;
    }

    /** Return the stream of the buffer.
     *
     * Thread-safety: any thread, while no other one changes the buffer.
     *
     * @return The stream; borrowed.
     * @since 0.2 */
    stream_view stream() const noexcept
    {
        return stream_;
    }

    /** Return the resource of the memory.
     *
     * Thread-safety: any thread, while no other one changes the buffer.
     *
     * @return A reference to the resource.
     * @since 0.2 */
    resource memory_resource() const noexcept
    {
        return memory_;
    }

    /** Set the stream of the buffer, on which its memory is freed.
     *
     * Thread-safety: one thread at a time for one buffer.
     *
     * @param stream  The stream; borrowed. It is ordered after all work on the buffer.
     * @throws tarn::error  The stream belongs to another context, or another failure, see
     *                      tarn_pointer_set_stream(). The buffer is unchanged.
     * @since 0.2 */
    TARN_HPP_THROWS void set_stream(stream_view stream)
    {
        if (capacity() > 0)
            check(tarn_pointer_set_stream(block_, stream.get()));
        stream_ = stream;
    }

    /** Change the size of the buffer; the first bytes stay.
     *
     * More bytes than the capacity cause an allocation and a copy on `stream`. New bytes
     * are not initialized.
     *
     * Thread-safety: one thread at a time for one buffer.
     *
     * @param bytes   New size in bytes.
     * @param stream  New stream of the buffer; borrowed. It is ordered after all work on
     *                the buffer.
     * @throws tarn::out_of_memory  The resource or the host has no memory.
     * @throws tarn::error          Another failure, also of the copy. After every
     *                              exception the data and the size are unchanged; the
     *                              stream may be the new one.
     * @since 0.2 */
    TARN_HPP_THROWS void resize(std::size_t bytes, stream_view stream)
    {
        reserve(bytes, stream);
        bytes_ = bytes;
    }

    /** Increase the capacity of the buffer, unless it suffices.
     *
     * Thread-safety: one thread at a time for one buffer.
     *
     * @param bytes   Capacity in bytes.
     * @param stream  New stream of the buffer, as in resize().
     * @throws tarn::out_of_memory  The resource or the host has no memory.
     * @throws tarn::error          Another failure, as in resize().
     * @since 0.2 */
    TARN_HPP_THROWS void reserve(std::size_t bytes, stream_view stream)
    {
        set_stream(stream);
        if (bytes > capacity())
            reallocate(bytes);
    }

    /** Reduce the capacity of the buffer to its size, by an allocation and a copy.
     *
     * Thread-safety: one thread at a time for one buffer.
     *
     * @param stream  New stream of the buffer, as in resize().
     * @throws tarn::out_of_memory  The resource or the host has no memory.
     * @throws tarn::error          Another failure, as in resize().
     * @since 0.2 */
    TARN_HPP_THROWS void shrink_to_fit(stream_view stream)
    {
        set_stream(stream);
        if (bytes_ < capacity())
            reallocate(bytes_);
    }

  private:
    TARN_HPP_THROWS void copy_from(const void *source, std::size_t bytes)
    {
        check(tarn_memcpy_async(memory_.device(), detail::address_of(data()),
                                detail::address_of(source), bytes, stream_.get()));
    }

    TARN_HPP_THROWS void reallocate(std::size_t bytes)
    {
        device_buffer next(bytes, stream_, memory_);

        next.copy_from(data(), bytes_);
        std::swap(block_, next.block_);
    }

    resource memory_;
    stream_view stream_;
    std::size_t bytes_;
    tarn_pointer *block_ = nullptr;
};

/** @} */

} // namespace tarn

#endif

/* Outside of the guard, so that a second include after CCCL's header has an effect. */
#if !defined(TARN_HPP_CCCL) && (defined(TARN_WITH_CCCL) || defined(TARN_WITH_RMM) || \
                                defined(_CUDA_MEMORY_RESOURCE))
#define TARN_HPP_CCCL
#include <cuda/memory_resource>

namespace tarn
{

/** @addtogroup tarn_cpp
 * @{ */

/**
 * Declare that the device can use the memory of a resource; for CCCL.
 *
 * Thread-safety: any thread.
 *
 * @param memory    The resource.
 * @param property  The property.
 * @since 0.2
 */
constexpr void get_property(
    [[maybe_unused]] const resource &memory,
    [[maybe_unused]] ::cuda::mr::device_accessible property) noexcept
{
}

/**
 * Declare that the host can use the memory of a resource; for CCCL.
 *
 * Thread-safety: any thread.
 *
 * @param memory    The resource.
 * @param property  The property.
 * @since 0.2
 */
constexpr void get_property(
    [[maybe_unused]] const host_device_resource &memory,
    [[maybe_unused]] ::cuda::mr::host_accessible property) noexcept
{
}

/**
 * Declare that the host can use the memory of a resource; for CCCL.
 *
 * Thread-safety: any thread.
 *
 * @param memory    The resource.
 * @param property  The property.
 * @since 0.2
 */
constexpr void get_property(
    [[maybe_unused]] const host_resource &memory,
    [[maybe_unused]] ::cuda::mr::host_accessible property) noexcept
{
}

/** @} */

} // namespace tarn

#endif
