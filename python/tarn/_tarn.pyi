"""The C extension of Tarn's Python package: types and documentation of its names.

Sizes are bytes. A parameter `stream` takes a Stream, an int (a CUstream), an object with
`__cuda_stream__`, or a stream of PyTorch or CuPy; its default is the default stream. None
raises TypeError. A call that needs the driver opens it, and raises NoDriverError if that fails.
After a failed driver call it raises TarnError, or one of the classes derived from it.
"""

from collections.abc import Callable, Iterable
from os import PathLike
from typing import (
    Any,
    Generic,
    Literal,
    Protocol,
    Self,
    SupportsIndex,
    TypedDict,
    TypeVar,
    final,
    overload,
)

from _typeshed import structseq
from typing_extensions import Buffer

__version__: str

class _HasCudaStream(Protocol):
    """An object with the CUDA stream protocol."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (version, handle); Tarn accepts version 0."""

_S = TypeVar("_S", bound="Stream")

_StreamLike = Stream | SupportsIndex | _HasCudaStream  # noqa: F821

class _CudaArrayInterface(TypedDict):
    """The array interface of a DeviceBuffer, version 3."""

    data: tuple[int, bool]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    typestr: str
    version: int
    stream: int | None

class _HasDlpack(Protocol):
    """An object with DLPack's methods."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return (type, number) of the device."""
    def __dlpack__(self, *, stream: Any = None) -> Any:
        """Return a capsule."""

class _HasCudaArrayInterface(Protocol):
    """An object with the CUDA array interface."""

    @property
    def __cuda_array_interface__(self) -> Any:
        """A dict with the address, the shape and the type of the array."""

class TarnError(RuntimeError):
    """A call of Tarn failed.

    The message has the component, the problem and the numbers.

    Attributes
    ----------
    status : int
        The `tarn_status`, see include/tarn/status.h.
    native : int
        The driver's CUresult, or errno; 0 if there is none.
    """

    status: int
    native: int

class OutOfMemoryError(TarnError, MemoryError):
    """Memory is unavailable, or the allocation is over a limit."""

class InvalidArgumentError(TarnError, ValueError):
    """An argument is invalid, for example an unknown address, a second free, or a wrong size."""

class NotSupportedError(TarnError, NotImplementedError):
    """This device or resource does not support the operation."""

class NoDriverError(TarnError):
    """No GPU driver can be loaded.

    TARN_DRIVER=sim selects the driver simulator that comes with Tarn.
    """

@final
class DriverInfo(structseq[Any], tuple[str, int, bool, int]):
    """Properties of the open driver, as the driver reports them."""

    @property
    def path(self) -> str:
        """Path of the loaded library."""
    @property
    def version(self) -> int:
        """Version as in cuDriverGetVersion: 13000 is CUDA 13.0."""
    @property
    def is_simulator(self) -> bool:
        """Whether it is the driver simulator, which runs no kernels."""
    @property
    def device_count(self) -> int:
        """Number of devices, at least 1."""

@final
class DeviceInfo(
    structseq[Any],
    tuple[
        str,
        str,
        tuple[int, int],
        int,
        int,
        bool,
        bool,
        bool,
        bool,
        bool,
        bool,
        bool,
        bool,
        bool,
    ],
):
    """Properties of one device, as the driver reports them."""

    @property
    def name(self) -> str:
        """Name that the driver reports."""
    @property
    def uuid(self) -> str:
        """UUID of the device, such as "GPU-xxxxxxxx-xxxx-..."."""
    @property
    def compute_capability(self) -> tuple[int, int]:
        """Compute capability, as (major, minor)."""
    @property
    def total_bytes(self) -> int:
        """Device memory in total, in bytes."""
    @property
    def free_bytes(self) -> int:
        """Free device memory at the time of the call, in bytes."""
    @property
    def has_memory_pools(self) -> bool:
        """Whether cuMemAllocAsync works."""
    @property
    def has_vmm(self) -> bool:
        """Whether cuMemCreate and cuMemMap work."""
    @property
    def has_managed(self) -> bool:
        """Whether cuMemAllocManaged works."""
    @property
    def has_host_mapping(self) -> bool:
        """Whether the device can map host memory."""
    @property
    def has_legacy_ipc(self) -> bool:
        """Whether cuIpcGetMemHandle works."""
    @property
    def has_concurrent_managed(self) -> bool:
        """Whether host and device may use managed memory at once."""
    @property
    def has_rdma(self) -> bool:
        """Whether exportable memory is capable of GPUDirect RDMA."""
    @property
    def has_dma_buf(self) -> bool:
        """Whether tarn.ipc.dma_buf() works."""
    @property
    def has_fabric(self) -> bool:
        """Whether the device has fabric handles. A process also needs an IMEX channel."""

def open_driver(path: str | PathLike[str] | None = None) -> None:
    """Open the GPU driver of this process.

    Opening the same driver again has no effect.

    Parameters
    ----------
    path : str or path, optional
        A library, or "sim" for the driver simulator that comes with Tarn. None: the environment
        variable TARN_DRIVER, else libcuda.so.1.

    Raises
    ------
    NoDriverError
        The driver cannot be loaded, is older than CUDA 12.0, or has no device.
    TarnError
        Another driver is open.
    """

def driver_info() -> DriverInfo:
    """Return the properties of the driver.

    Raises
    ------
    NoDriverError
        No driver can be opened.
    """

def device_info(device: int = 0) -> DeviceInfo:
    """Return the properties of a device.

    The call creates the primary context of the device.

    Parameters
    ----------
    device : int
        Number of the device.

    Raises
    ------
    InvalidArgumentError
        There is no such device.
    """

def current_device() -> int:
    """Return the number of the device of this thread's current context.

    It is 0 if no context is current.
    """

def synchronize(device: int = 0) -> None:
    """Wait until all work of a device's primary context is done.

    The call ends every stream capture in that context. It releases the GIL.

    Parameters
    ----------
    device : int
        Number of the device.

    Raises
    ------
    InvalidArgumentError
        There is no such device.
    TarnError
        The driver reports an error of earlier work.
    """

@final
class Announcement(Generic[_S]):
    """The announcement of a capture, as Stream.capturing() returns it."""

    def __enter__(self) -> _S:
        """Announce the capture and return the stream.

        Raises
        ------
        InvalidArgumentError
            The stream is not registered.
        """
    def __exit__(self, *args: object) -> Literal[False]:
        """Announce that the capture has ended.

        Raises
        ------
        TarnError
            The stream still captures, and no other exception is active. The announcement remains.
        """

class Stream:
    """A CUDA stream.

    Parameters
    ----------
    obj : Stream, int or object with __cuda_stream__, optional
        The stream, which is kept alive. None: a new stream on the current device, destroyed with
        the object.
    flags : CudaStreamFlags, optional
        For a new stream: 0, or 1 for one that does not wait for the default stream.

    Raises
    ------
    TypeError
        `obj` is no stream.
    ValueError
        `flags` is another number, or is given with `obj`.
    TarnError
        A driver call failed.
    """

    def __new__(cls, obj: _StreamLike | None = None, flags: int | None = None) -> Self: ...
    def register(self) -> Self:
        """Register the stream, so that a pool need not query the driver at every call.

        The caller announces each capture before the stream begins or joins it, and again when it has
        ended: see capturing() and announce_capture().

        Returns
        -------
        Stream
            A new object for the same CUstream, which keeps this one alive. It is unregistered with
            the object, by unregister(), or at the end of a with statement.

        Raises
        ------
        InvalidArgumentError
            The stream is the per-thread default stream, or is registered.
        TarnError
            The stream captures.
        """
    def unregister(self) -> None:
        """Unregister a registered stream.

        From then on the object is the raw stream, also for the buffers on it. Other streams can reuse
        memory that was freed on it once its work is done. A second call does nothing. No other thread
        may be using the stream.

        Raises
        ------
        InvalidArgumentError
            register() did not return this stream.
        """
    def __enter__(self) -> Self:
        """Return the registered stream.

        Raises
        ------
        InvalidArgumentError
            The stream is not registered.
        """
    def __exit__(self, *args: object) -> Literal[False]:
        """Unregister the stream."""
    def capturing(self) -> Announcement[Self]:
        """Announce a capture on a registered stream for the length of a with statement.

        The capture begins and ends inside the statement. It is the program's own capture, or that of
        another stream, which this stream joins::

            with stream.capturing(), torch.cuda.graph(graph, stream=torch_stream):
                ...

        Entering raises InvalidArgumentError for a stream that is not registered; such a stream needs
        no announcement.
        """
    def announce_capture(self, capturing: bool, /) -> None:
        """Announce that a registered stream is about to capture, or that the capture has ended.

        Parameters
        ----------
        capturing : bool
            True before the stream begins or joins a capture, False after the end.

        Raises
        ------
        InvalidArgumentError
            The stream is not registered.
        TarnError
            `capturing` is False and the stream still captures. The announcement remains.
        """
    def synchronize(self) -> None:
        """Wait for all work that is queued on the stream.

        The call releases the GIL.

        Raises
        ------
        TarnError
            The driver reports an error.
        """
    def is_default(self) -> bool:
        """Return True for the default stream (handle 0 or 1) and for NO_STREAM."""
    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (0, handle): the CUDA stream protocol, version 0."""
    @property
    def handle(self) -> int:
        """The CUstream; 0 for NO_STREAM."""
    @property
    def is_registered(self) -> bool:
        """Whether register() returned it and it is still registered."""

DEFAULT_STREAM: Stream
LEGACY_DEFAULT_STREAM: Stream
PER_THREAD_DEFAULT_STREAM: Stream
NO_STREAM: Stream

class DeviceMemoryResource:
    """The base class of all memory resources.

    A class derived from it in Python defines allocate(nbytes, stream) and deallocate(ptr, nbytes,
    stream). Its objects work wherever a resource does. Calls may come from any thread. Two methods
    are optional: memory_info(), which returns (free, total) in bytes, and trim(keep_bytes), which
    releases cached memory over that and returns the released bytes. The attribute `supports_streams`
    is True for a class whose memory is ready on the stream of its allocation alone. Without it,
    memory counts as ready for every stream.

    Notes
    -----
    Tarn checks each address that such a class returns to C code. It raises ValueError and frees the
    block in these cases:

    - The address is not a multiple of 256.
    - The address belongs to a live block.
    - The driver reports fewer bytes, or another device.
    """

    def allocate(self, nbytes: int, stream: _StreamLike = ...) -> int:
        """Allocate a block, aligned to 256 bytes.

        The caller frees it with deallocate().

        Parameters
        ----------
        nbytes : int
            Size in bytes. 0 allocates nothing.
        stream : Stream, int or object with __cuda_stream__
            The block is ready for work that is queued on this stream from now on.

        Returns
        -------
        int
            The address; 0 for 0 bytes.

        Raises
        ------
        OutOfMemoryError
            The resource has no more memory.
        OverflowError
            The size is negative or too large.
        TypeError
            `stream` is None, or the resource has no allocate() and called no super().__init__().
        """
    def deallocate(self, ptr: int, nbytes: int, stream: _StreamLike = ...) -> None:
        """Free a block of this resource, in the order of a stream.

        Parameters
        ----------
        ptr : int
            The address.
        nbytes : int
            Size in bytes, as at the allocation.
        stream : Stream, int or object with __cuda_stream__
            All work on the block is queued on it, or ordered before it. The memory may be reused at
            once on this stream.

        Raises
        ------
        InvalidArgumentError
            The address is unknown, the block is free already, or the size is wrong, if the resource
            can detect it. Then nothing has changed.
        """
    @property
    def device(self) -> int | None:
        """Number of the device; None before the first use, and if there is none."""

class UpstreamResourceAdaptor(DeviceMemoryResource):
    """The base class of the resources that have an upstream.

    It passes all calls to upstream. A class derived from it in Python defines allocate() and
    deallocate(), and may call those of super().

    Parameters
    ----------
    upstream_mr : DeviceMemoryResource
        The resource beneath, which is kept alive.

    Raises
    ------
    TypeError
        `upstream_mr` is no resource.
    """

    def __init__(self, upstream_mr: DeviceMemoryResource) -> None: ...
    @property
    def upstream_mr(self) -> DeviceMemoryResource:
        """The resource beneath, which this one keeps alive."""
    def get_upstream(self) -> DeviceMemoryResource:
        """Return the resource beneath, as `upstream_mr`."""

@final
class Statistics(structseq[Any], tuple[int, int, int, int, int, int]):
    """One set of counts of a StatisticsResourceAdaptor.

    The adaptor counts requested bytes. Current values may be negative after a push, if a block from
    before the push is freed.
    """

    @property
    def current_bytes(self) -> int:
        """Bytes of the live blocks, as requested."""
    @property
    def current_count(self) -> int:
        """Number of live blocks."""
    @property
    def peak_bytes(self) -> int:
        """The most bytes that were live at once."""
    @property
    def peak_count(self) -> int:
        """The most blocks that were live at once."""
    @property
    def total_bytes(self) -> int:
        """Sum of the bytes of all allocations."""
    @property
    def total_count(self) -> int:
        """Number of all allocations."""

def get_current_device_resource() -> DeviceMemoryResource:
    """Return the current device resource of the current device.

    It is a CudaMemoryResource if none was set.
    """

def get_per_device_resource(device: int) -> DeviceMemoryResource:
    """Return the current device resource of a device.

    Parameters
    ----------
    device : int
        Number of the device.

    Raises
    ------
    InvalidArgumentError
        There is no such device.
    ValueError
        The number is negative.
    """

def set_current_device_resource(mr: DeviceMemoryResource | None) -> DeviceMemoryResource:
    """Make a resource the current device resource of the current device.

    Live blocks return to the resource that they came from.

    Parameters
    ----------
    mr : DeviceMemoryResource or None
        The resource, which the registry keeps alive. None: the default one.

    Returns
    -------
    DeviceMemoryResource
        The previous resource.

    Raises
    ------
    InvalidArgumentError
        The resource is of another device.
    TypeError
        `mr` is no resource.
    """

def set_per_device_resource(device: int, mr: DeviceMemoryResource | None) -> DeviceMemoryResource:
    """Make a resource the current device resource of a device.

    Parameters
    ----------
    device : int
        Number of the device.
    mr : DeviceMemoryResource or None
        As in set_current_device_resource().

    Returns
    -------
    DeviceMemoryResource
        The previous resource.

    Raises
    ------
    InvalidArgumentError
        The resource is of another device, or there is no such device.
    TypeError
        `mr` is no resource.
    ValueError
        The number is negative.
    """

def _resource_was_set(device: int, /) -> bool:
    """Return True if Python code has set a C resource for a device, also the default one."""

_Host = TypeVar("_Host", bound=Buffer)

class DeviceBuffer:
    """A block of device memory as an object.

    The block is freed with the object, in the order of its stream. The object can be pickled.

    Parameters
    ----------
    ptr : int
        Address of host or device memory whose first `size` bytes are copied. 0: no copy.
    size : int
        Size in bytes.
    stream : Stream, int or object with __cuda_stream__
        The stream of the allocation, of the copy and of the free. The buffer keeps the object
        alive, so pass the owner of the stream and not its number.
    mr : DeviceMemoryResource, optional
        The resource, which the buffer keeps alive. None: the current device resource.

    Raises
    ------
    OutOfMemoryError
        The resource has no more memory.
    OverflowError
        `size` is negative or too large.
    TypeError
        `stream` is None, or `mr` is no resource.

    Notes
    -----
    The buffer synchronizes the default stream after a copy on it. On another stream the source has
    to stay unchanged until the copy is done.
    """

    def __new__(
        cls,
        *,
        ptr: int = 0,
        size: int = 0,
        stream: _StreamLike = ...,
        mr: DeviceMemoryResource | None = None,
    ) -> Self: ...
    @classmethod
    def to_device(
        cls, b: Buffer, stream: _StreamLike = ..., mr: DeviceMemoryResource | None = None
    ) -> Self:
        """Return a new buffer with a copy of the bytes of a host object.

        Parameters
        ----------
        b : object with a contiguous buffer
            The bytes. On a stream other than the default one they have to stay unchanged until the
            stream is synchronized.
        stream, mr
            As in DeviceBuffer().
        """
    @classmethod
    def from_dlpack(
        cls,
        x: _HasDlpack,
        *,
        stream: _StreamLike = ...,
        mr: DeviceMemoryResource | None = None,
        copy: bool = False,
    ) -> Self:
        """Return a buffer over the memory of an array of another library.

        The memory stays the producer's. At the end of the buffer Tarn waits for the buffer's stream
        and then releases the array.

        Parameters
        ----------
        x : object with __dlpack__
            A contiguous array in CUDA's memory, such as one of CuPy, PyTorch or JAX.
        stream : Stream, int or object with __cuda_stream__
            The stream of the buffer. It waits for the work of the producer.
        mr : DeviceMemoryResource, optional
            The resource of blocks to which the buffer grows. None: the current one of the device.
        copy : bool
            Return a copy that is allocated from `mr` instead.

        Raises
        ------
        BufferError
            The array is on the host, not contiguous or read-only, or its description is invalid.
        InvalidArgumentError
            The driver does not know the memory, or `mr` is of another device.
        TypeError
            `x` has no `__dlpack__()`, or `stream` is None.
        """
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a DLPack capsule of the buffer as an array of bytes; libraries call it.

        Parameters
        ----------
        stream : int, optional
            The stream that will use the bytes, and that waits for the buffer's stream. 1 or None: the
            legacy default stream. 2: the per-thread default stream. -1: the caller waits. Any other
            number: a CUstream.
        max_version : tuple of (int, int), optional
            The newest version that the caller knows. From (1, 0) on the capsule is that of DLPack 1.
        dl_device : tuple of (int, int), optional
            The device that the caller requests.
        copy : bool, optional
            True: the capsule has a copy. Otherwise nothing is copied.

        Raises
        ------
        BufferError
            The bytes are not on `dl_device`, or not in CUDA's memory.
        ValueError
            `stream` is 0 or less than -1.
        TypeError
            `stream` is no number, or another argument no pair.
        InvalidArgumentError
            The stream is of another device.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """Return (type, number) of the device.

        Type 2 is device memory, 3 pinned memory of the host, and 13 managed memory.

        Raises
        ------
        BufferError
            The bytes are not in CUDA's memory.
        """
    def copy(self) -> Self:
        """Return a new buffer with the same bytes, resource and stream."""
    def __copy__(self) -> Self:
        """Return a new buffer with the same bytes, resource and stream."""
    @overload
    def copy_to_host(self, ary: None = None, stream: _StreamLike = ...) -> Any:
        """Copy all bytes to the host.

        Parameters
        ----------
        ary : object with a writable buffer, optional
            At least as many bytes as the buffer has. After a copy on a stream other than the
            default one, synchronize the stream before you read it. None: a new numpy array of
            uint8, or a bytearray if numpy is not installed. It is complete on return.
        stream : Stream, int or object with __cuda_stream__
            The stream of the copy.

        Returns
        -------
        object
            `ary`, or the new array.

        Raises
        ------
        ValueError
            `ary` is too small.
        """

    @overload
    def copy_to_host(self, ary: _Host, stream: _StreamLike = ...) -> _Host: ...
    def copy_from_host(self, ary: Buffer, stream: _StreamLike = ...) -> None:
        """Copy the bytes of a host object to the beginning of the buffer.

        Parameters
        ----------
        ary : object with a contiguous buffer
            The bytes. On a stream other than the default one they have to stay unchanged until the
            stream is synchronized.
        stream : Stream, int or object with __cuda_stream__
            The stream of the copy.

        Raises
        ------
        ValueError
            `ary` has more bytes than the buffer.
        """
    def copy_from_device(self, cuda_ary: _HasCudaArrayInterface, stream: _StreamLike = ...) -> None:
        """Queue a copy of a device array to the beginning of the buffer.

        If the array names a stream, the call waits for that stream first. It does not wait for the copy.

        Parameters
        ----------
        cuda_ary : object with __cuda_array_interface__
            An array of one dimension and without gaps.
        stream : Stream, int or object with __cuda_stream__
            The stream of the copy.

        Raises
        ------
        ValueError
            The array has more bytes than the buffer, or another shape.
        """
    def prefetch(self, device: int | None = None, stream: _StreamLike | None = None) -> None:
        """Queue the migration of managed memory to a device; other memory stays where it is.

        Parameters
        ----------
        device : int, optional
            Number of the device, -1 for the host. None: the current device.
        stream : Stream, int or object with __cuda_stream__, optional
            The stream of the prefetch. None: the buffer's own stream.

        Raises
        ------
        InvalidArgumentError
            The device does not exist.
        """
    def tobytes(self, stream: _StreamLike = ...) -> bytes:
        """Return a copy of all bytes, complete on return."""
    def reserve(self, new_capacity: int, stream: _StreamLike = ...) -> None:
        """Increase the capacity; the size stays.

        Parameters
        ----------
        new_capacity : int
            Bytes. A smaller number than the capacity changes nothing but the stream.
        stream : Stream, int or object with __cuda_stream__
            The stream of the copy into a new block. It becomes the stream of the buffer.

        Raises
        ------
        OutOfMemoryError
            The resource has no more memory. Nothing has changed.
        """
    def resize(self, new_size: int, stream: _StreamLike = ...) -> None:
        """Change the size.

        Up to the capacity the block stays. Above it the buffer gets a new block. Arrays made of
        `__cuda_array_interface__` before then have the old address: do not use them any more.

        Parameters
        ----------
        new_size : int
            Bytes.
        stream : Stream, int or object with __cuda_stream__
            The stream of the copy into a new block. It becomes the stream of the buffer.

        Raises
        ------
        OutOfMemoryError
            The resource has no more memory. Nothing has changed.
        """
    def capacity(self) -> int:
        """Return the bytes that fit without another allocation."""
    def __len__(self) -> int:
        """Return the size in bytes."""
    def __bytes__(self) -> bytes:
        """Return a copy of all bytes, as tobytes()."""
    @property
    def size(self) -> int:
        """Size in bytes."""
    @property
    def nbytes(self) -> int:
        """Size in bytes, the same as `size`."""
    @property
    def ptr(self) -> int:
        """Address on the device; 0 for 0 bytes."""
    @property
    def mr(self) -> DeviceMemoryResource:
        """The resource that the block came from; the buffer keeps it alive."""
    @property
    def stream(self) -> Stream:
        """The stream on which the block is freed."""
    @property
    def __cuda_array_interface__(self) -> _CudaArrayInterface:
        """The buffer as an array of bytes, version 3 of the interface.

        Its `stream` is that of the buffer, or None on a default stream.
        """

# For tarn/numba.py.
class Pointer:
    """A block of memory of a Manager, or a view of one; it is freed with the object."""

    @property
    def address(self) -> int:
        """Address for the device; it stays readable after the free."""
    @property
    def host(self) -> int | None:
        """Address for the host, or None."""
    @property
    def bytes(self) -> int:
        """Size in bytes."""
    @property
    def device(self) -> int:
        """Number of the device of the memory."""
    @property
    def kind(self) -> str:
        """Kind of the memory: "device", "mapped", "pinned" or "managed"."""
    @property
    def alive(self) -> bool:
        """Whether this object still has its reference to the block."""
    @property
    def count(self) -> int:
        """Number of references to the block; 0 after the free."""
    def release(self) -> bool:
        """Free the block now; return False if it was freed before.

        Raises
        ------
        BufferError
            Views of the block are alive.
        TarnError
            The free failed. It is tried again later, see deferred_frees().
        """
    def view(self, offset: int, bytes: int, /) -> Pointer:
        """Return a Pointer to a part of the block, which keeps the block alive.

        Parameters
        ----------
        offset : int
            Bytes from the beginning of the block.
        bytes : int
            Size in bytes.

        Raises
        ------
        ValueError
            A number is negative, or the block was freed.
        InvalidArgumentError
            The part is not inside the block.
        """

class MemoryPointer(Pointer):
    """A Pointer for Numba's arrays: the base of the MemoryPointers of tarn.numba.

    Attributes
    ----------
    context : object
        Weak proxy of Numba's context.
    refct : int
        The count of Numba's views; the lifetime of the memory does not depend on it.
    _cuda_memsize_ : object
        Size in bytes, or the value that was assigned.
    """

    context: Any
    refct: int
    _cuda_memsize_: Any
    @property
    def device_pointer(self) -> Any:
        """Address for the device, in Numba's type."""
    @property
    def handle(self) -> Any:
        """Address for the device, in Numba's type; the same as `device_pointer`."""
    @property
    def device_pointer_value(self) -> int | None:
        """Address for the device; None if the block is empty."""
    @property
    def size(self) -> int:
        """Size in bytes."""
    @property
    def owner(self) -> Self:
        """This object."""
    @property
    def is_managed(self) -> bool:
        """True: the object frees its memory."""
    def free(self) -> None:
        """Free the block now.

        Raises
        ------
        RuntimeError
            The block was freed before.
        TarnError
            The free failed.
        """

@final
class Manager:
    """Tarn's memory manager for one device, from which tarn.numba serves Numba.

    Parameters
    ----------
    device : int
        Number of the device.
    logging : bool
        Write blocks to the log.

    Attributes
    ----------
    logging : bool
        Whether new blocks are written to the log.
    single_stream : bool
        Whether new blocks are allocated and freed on the default stream.

    Raises
    ------
    InvalidArgumentError
        There is no such device.
    """

    logging: bool
    single_stream: bool
    def __new__(cls, device: int, logging: bool = True) -> Self: ...
    @property
    def device(self) -> int:
        """Number of the device."""
    @property
    def name(self) -> str:
        """Name of the C manager."""
    @property
    def live(self) -> int:
        """Number of live blocks that are not empty."""
    def memalloc(self, bytes: int, stream: _StreamLike | None = None, /) -> Pointer:
        """Allocate device memory from the device's current resource.

        Parameters
        ----------
        bytes : int
            Size in bytes.
        stream : Stream, int or object with __cuda_stream__, optional
            The block is allocated and freed in the order of this stream, and keeps it alive. None: no
            work of any stream is pending behind the memory, unless `single_stream` is set.

        Raises
        ------
        OutOfMemoryError
            The resource has no more memory.
        """
    def memhostalloc(
        self, bytes: int, mapped: bool = False, portable: bool = False, wc: bool = False
    ) -> Pointer:
        """Allocate page-locked host memory.

        Parameters
        ----------
        bytes : int
            Size in bytes.
        mapped : bool
            Map the memory into the device.
        portable : bool
            Make the memory page-locked for all contexts.
        wc : bool
            Use write-combined memory.

        Raises
        ------
        OutOfMemoryError
            Host memory is unavailable.
        """
    def mempin(self, owner: object, address: int, bytes: int, mapped: bool = False) -> Pointer:
        """Page-lock existing host memory.

        Parameters
        ----------
        owner : object
            The object that owns the memory; it is kept until the memory is unlocked.
        address : int
            Address of the memory.
        bytes : int
            Size in bytes.
        mapped : bool
            Map the memory into the device.

        Raises
        ------
        TarnError
            The driver cannot lock the memory.
        """
    def memallocmanaged(self, bytes: int, attach_global: bool = True) -> Pointer:
        """Allocate managed memory, which host and device can use.

        Parameters
        ----------
        bytes : int
            Size in bytes.
        attach_global : bool
            As in cuMemAllocManaged.

        Raises
        ------
        OutOfMemoryError
            Memory is unavailable.
        NotSupportedError
            The device has no managed memory.
        """
    def get_ipc_handle(self, pointer: Pointer, /) -> tuple[bytes, int, int]:
        """Return (handle, bytes, offset) for another process.

        Returns
        -------
        tuple of (bytes, int, int)
            64 bytes that name an allocation; size of the block; offset of the block in the
            allocation. Sizes are bytes.

        Raises
        ------
        NotSupportedError
            The memory has no handles.
        ValueError
            The block was freed.
        """
    def get_memory_info(self) -> tuple[int, int]:
        """Return (free, total) in bytes.

        They come from the current resource. If that reports none, they come from the driver.
        """
    def initialize(self) -> None:
        """Prepare the manager for use; repeated calls have no effect."""
    def reset(self) -> None:
        """Free all blocks but pinned ones.

        Pinned blocks are ordinary memory for the host, where an access to freed memory ends the
        process. The call may come before initialize(), and with no context current.
        """
    def defer_cleanup_begin(self) -> None:
        """Defer expensive cleanup from now on; it nests."""
    def defer_cleanup_end(self) -> None:
        """End deferred cleanup; the last end does the cleanup that waited."""

class Plugin:
    """The base of the managers of tarn.numba: the calls that Numba makes for every array."""

    @property
    def _manager(self) -> Any:
        """The Manager that it serves from, or None."""
    def initialize(self) -> None:
        """Prepare the manager; Numba calls it before each of its own calls."""
    def memalloc(self, size: int, stream: Any = 0) -> Any:
        """Allocate device memory, as Numba's MemoryPointer.

        Parameters
        ----------
        size : int
            Size in bytes. `nbytes`, the name in NBEP 7's draft, is another name of it.
        stream : object
            The block is allocated and freed in the order of this stream, and keeps it alive. 0 or
            None: the memory is safe on all streams.

        Raises
        ------
        OutOfMemoryError
            Memory is unavailable, also after Numba's pending deallocations were freed. The error is
            Numba's CudaAPIError too.
        """
    def _allocate(self, size: int, stream: Any = 0) -> Any:
        """Allocate once, as memalloc(), and raise Tarn's own error on failure."""
    def _prepare(self, manager: Manager, type: type[MemoryPointer], context: object, /) -> None:
        """Serve from a Manager, with memory of `type` in `context`, until _unprepare()."""
    def _unprepare(self) -> None:
        """Have the next call begin with _begin()."""

@final
class DeferredFrees(structseq[Any], tuple[int, int, int, int]):
    """Counts of deferred frees: blocks without a reference that are not freed yet."""

    @property
    def failed(self) -> int:
        """Number of blocks whose free failed; later calls try it again."""
    @property
    def failed_bytes(self) -> int:
        """Bytes of the blocks whose free failed."""
    @property
    def waiting(self) -> int:
        """Number of blocks whose free waits."""
    @property
    def waiting_bytes(self) -> int:
        """Bytes of the blocks whose free waits."""

def deferred_frees() -> DeferredFrees:
    """Return the counts of deferred frees.

    These are blocks that have lost their last reference and are not freed yet. The free failed, and
    sys.unraisablehook has received the error. Or it waits: for the end of defer_cleanup(), or for
    other frees that share one wait for the device.
    """

def reclaim_deferred_frees() -> None:
    """Free all blocks that deferred_frees() counts, those that wait included.

    Raises
    ------
    TarnError
        The first failure, after all were tried. The blocks whose free failed stay counted.
    """

def csv_log() -> str:
    """Return the log of this process as text of comma-separated values.

    It has NBEP 7's twelve columns, and a row for each block that a manager of tarn.numba allocated
    or freed; under TARN_LOG, for each block of a resource, too. It has the last 65,536 rows.

    Raises
    ------
    TarnError
        Host memory for the text is unavailable.
    """

def log_set_file(
    path: str | PathLike[str], owner: int, format: int, depth: int = 0, ring: int = 0, /
) -> None:
    """Write the rows to a file as well, which is opened with the next row.

    Parameters
    ----------
    path : str or path
        The file.
    owner : int
        The process that has the name itself; others, also forked children, have PATH.PID.
    format : int
        A `tarn_trace_format`.
    depth : int
        Most frames of a call stack, for a binary log.
    ring : int
        Bytes of a ring, for a binary log; 0: the log keeps all rows.
    """

def log_open_file() -> None:
    """Open the file of log_set_file() now, unless it is open.

    Raises
    ------
    TarnError
        The file cannot be written.
    """

def log_observe() -> None:
    """Add rows for the blocks of all resources to the log, from now on.

    Raises
    ------
    TarnError
        The program has set an observer of its own.
    """

def log_set_depth(frames: int, /) -> None:
    """Set the most frames of the call stack of a row."""

def log_flush() -> None:
    """Write all complete rows to the file.

    Raises
    ------
    TarnError
        The file failed since the last flush.
    """

def log_close() -> None:
    """Close the file and drop all rows.

    Raises
    ------
    TarnError
        The file could not be written.
    """

def log_counts() -> tuple[int, int, int]:
    """Return (rows, kept, live): all rows, rows in memory, and live blocks."""

def log_internal(paths: Iterable[str], /) -> None:
    """Set the path prefixes of files that are not the user's program.

    The Location of a row skips their frames.
    """

def log_collecting(phase: str, info: dict[str, int], /) -> None:
    """Record a garbage collection; an entry of gc.callbacks.

    Blocks that are freed between "start" and "stop" have the Location `<gc>`.
    """

def log_exiting() -> None:
    """Record that exit has begun: later frees have the Location `<exit>`.

    A binary log gets the mark `<exit>`.
    """

def _live_mark(limit: int = -1, /) -> int:
    """Begin to measure, and return the live bytes of the log.

    `limit` is the number of bytes above the live ones at which a copy of the blocks is taken
    (_live_over()); -1: none.
    """

def _live_counts() -> tuple[int, int, int]:
    """Return (bytes, peak, lost).

    They are the live bytes, the most since the mark, and the blocks for which there was no host
    memory.
    """

def _live_blocks() -> list[tuple[int, int, int, str, int, int]]:
    """Return the live blocks since the mark, as (address, bytes, device, file, line, stack)."""

def _live_over() -> list[tuple[int, int, int, str, int, int]]:
    """Return the blocks that were live when the limit of the mark was first exceeded."""

# For tarn/nrt.
def nrt_stats() -> tuple[int, int, int, int, int, int, int, int, int, int, int, tuple[int, ...]]:
    """Return the counters of the default runtime, in the order of tarn.nrt.Stats."""

def nrt_modes() -> int:
    """Return the debug modes of the default runtime, a sum of bits."""

def nrt_set_modes(modes: int, /) -> None:
    """Set the debug modes; InvalidArgumentError for an unknown bit."""

def nrt_modes_parse(text: str, /) -> int:
    """Return the sum of the modes that are named; InvalidArgumentError for an unknown name."""

def nrt_trim() -> int:
    """Return unused memory to its allocator; return the number of bytes."""

def nrt_sites() -> list[tuple[int, str, str, int, int]]:
    """Return the sites of live memory, as (address, label, symbol, blocks, bytes)."""

def nrt_set_names(names: list[tuple[int, str]], /) -> None:
    """Set the names of compiled functions, a list of (address, name) in order."""

def nrt_use_resource(resource: DeviceMemoryResource, /) -> None:
    """Allocate the memory of compiled code from a resource of host memory.

    Raises
    ------
    InvalidArgumentError
        The host cannot reach the memory of the resource.
    """

def nrt_use_python() -> None:
    """Allocate the memory of compiled code from CPython's raw allocator."""

# For tarn/mr.py.
_resource_types: dict[str, type[DeviceMemoryResource]]

@final
class IpcMemory:
    """Memory of another process that is open here, or memory of this process that others may open."""

    @property
    def address(self) -> int:
        """Address for the device; it stays readable after close()."""
    @property
    def bytes(self) -> int:
        """Size in bytes."""
    @property
    def device(self) -> int:
        """Number of the device that uses the memory."""
    @property
    def closed(self) -> bool:
        """Whether close() was called."""
    def close(self) -> None:
        """Release the memory; the call may wait for the device.

        Raises
        ------
        ValueError
            The memory is released already.
        """

def ipc_hold(address: int, bytes: int, device: int, owner: Any, /) -> IpcMemory:
    """Return existing device memory as an IpcMemory.

    The owner of the memory is kept alive until close() and the end of the last lease.
    """

def ipc_retain(pointer: Pointer | IpcMemory, /) -> IpcMemory:
    """Return an IpcMemory with another reference to the block of a Pointer.

    Raises
    ------
    ValueError
        The block was freed.
    """

def ipc_export(memory: Pointer | IpcMemory, served: bool, /) -> tuple[bytes, int, int, int, bytes]:
    """Return (reserved, bytes, offset, device, uuid): a handle for another process.

    Parameters
    ----------
    memory : Pointer or IpcMemory
        The memory.
    served : bool
        True: the handle names the block, and a lease keeps that allocated. False: it names memory.

    Raises
    ------
    NotSupportedError
        The memory has no handles.
    InvalidArgumentError
        The memory is empty.
    ValueError
        The memory was released.
    TarnError
        The server does not start, or a driver call failed.
    """

def ipc_open(handle: tuple[Any, ...], device: int, copy: bool, timeout_ms: int, /) -> IpcMemory:
    """Open a handle of ipc_export() of another process.

    Parameters
    ----------
    handle : tuple
        The result of ipc_export().
    device : int
        Number of the device that uses the memory. -1: the device of the memory.
    copy : bool
        Copy the block in any case.
    timeout_ms : int
        Milliseconds to wait for the owner's answer.

    Raises
    ------
    InvalidArgumentError, NotSupportedError, OutOfMemoryError, TarnError, ValueError
        As in tarn.ipc.open().
    """

def ipc_dma_buf(memory: Pointer | IpcMemory, over_pcie: bool, /) -> tuple[int, int, int]:
    """Return (fd, offset, size): a dma-buf descriptor, which the caller closes.

    Parameters
    ----------
    memory : Pointer or IpcMemory
        The memory.
    over_pcie : bool
        A mapping over PCIe.

    Raises
    ------
    NotSupportedError, InvalidArgumentError, TarnError, ValueError
        As in tarn.ipc.dma_buf().
    """

def fabric_export(memory: Pointer | IpcMemory, /) -> bytes:
    """Return a fabric handle of a Pointer or an IpcMemory.

    Raises
    ------
    NotSupportedError, InvalidArgumentError, TarnError, ValueError
        The memory has no fabric handle, or is released.
    """

def fabric_begin(handle: bytes, milliseconds: int, /) -> bytes:
    """Return the request for a lease, for fabric_answer() of the owner.

    Raises
    ------
    InvalidArgumentError, TypeError, ValueError
        The bytes are no handle of another process.
    """

def fabric_renew(granted: bytes, milliseconds: int, /) -> bytes:
    """Return the request to renew the lease that a reply granted.

    Raises
    ------
    InvalidArgumentError, TypeError, ValueError
        The bytes are no reply that grants a lease.
    """

def fabric_end(granted: bytes, /) -> bytes:
    """Return the request to end the lease that a reply granted.

    Raises
    ------
    InvalidArgumentError, TypeError, ValueError
        The bytes are no reply that grants a lease.
    """

def fabric_answer(request: bytes, /) -> bytes:
    """Return the reply to a request of an importer.

    Raises
    ------
    InvalidArgumentError, TypeError, ValueError
        The bytes are no request to this process.
    TarnError
        Exit has begun, or this is a forked child.
    """

def fabric_check(reply: bytes, /) -> int:
    """Return the time of the lease that a reply grants, in milliseconds; 0: it has ended.

    Raises
    ------
    TarnError
        The owner rejects the lease.
    InvalidArgumentError, TypeError, ValueError
        The bytes are no reply to this process.
    """

def fabric_open(handle: bytes, granted: bytes | None, device: int, /) -> IpcMemory:
    """Open a fabric handle of another process.

    Parameters
    ----------
    handle : bytes
        The result of fabric_export().
    granted : bytes, optional
        The reply that granted a lease. None: without a lease.
    device : int
        Number of the device that uses the memory.

    Raises
    ------
    InvalidArgumentError, NotSupportedError, OutOfMemoryError, TarnError, TypeError, ValueError
        As in tarn.ipc.open().
    """

def ipc_leases() -> list[tuple[int, int, int, int]]:
    """Return the leases of other processes, as (process, since_ns, address, bytes)."""

def ipc_counts() -> dict[str, int]:
    """Return the numbers of `tarn_ipc_counts`, by name."""

def _open_cuda(mr: DeviceMemoryResource, device: int, /) -> None:
    """Create the resource of a CudaMemoryResource."""

def _open_managed(mr: DeviceMemoryResource, device: int, /) -> None:
    """Create the resource of a ManagedMemoryResource."""

def _open_exportable(mr: DeviceMemoryResource, device: int, cache: int, /) -> None:
    """Create the resource of an ExportableMemoryResource."""

def _open_pinned(mr: DeviceMemoryResource, device: int, /) -> None:
    """Create the resource of a PinnedHostMemoryResource."""

def _open_async(
    mr: DeviceMemoryResource,
    device: int,
    initial: int,
    threshold: int,
    use_default: bool,
    exportable: bool,
    managed: bool,
    pool: int,
    /,
) -> None:
    """Create the resource of a class over a pool of the driver; sizes are bytes."""

def _open_system(mr: DeviceMemoryResource, device: int, advise: bool, headroom: int, /) -> None:
    """Create the resource of a SystemMemoryResource; `headroom` is bytes."""

def _async_pool(mr: DeviceMemoryResource, /) -> int:
    """Return the CUmemoryPool of a class over a pool of the driver."""

def _wrap_logger(
    mr: UpstreamResourceAdaptor,
    path: str,
    format: int,
    auto_flush: bool,
    stack_depth: int,
    ring_bytes: int,
    /,
) -> None:
    """Put a logger over the upstream of an adaptor; `format` is a `tarn_trace_format`."""

def _wrap_limiter(mr: UpstreamResourceAdaptor, limit: int, /) -> None:
    """Put a limiter of `limit` bytes over the upstream of an adaptor."""

def _wrap_counter(mr: UpstreamResourceAdaptor, /) -> None:
    """Put a counter over the upstream of an adaptor."""

def _wrap_failure_callback(mr: UpstreamResourceAdaptor, /) -> None:
    """Put an adaptor over the upstream, which calls `mr._ask(nbytes)` when memory is short."""

def _wrap_prefetcher(mr: UpstreamResourceAdaptor, /) -> None:
    """Put a prefetcher over the upstream of an adaptor."""

def _wrap_guard(mr: UpstreamResourceAdaptor, options: str, /) -> None:
    """Put a guard over the upstream of an adaptor."""

def _guard_check(mr: UpstreamResourceAdaptor | None, /) -> int:
    """Check all blocks of a guard, or of the process's (None); return its reports."""

def _guard_counts(mr: UpstreamResourceAdaptor | None, /) -> tuple[int, ...]:
    """Return the counts of a guard, or of the process's (None)."""

def _guard_enable(options: str, /) -> None:
    """Switch guard mode on for all resources of the process."""

def _wrap_tracker(mr: UpstreamResourceAdaptor, stack_depth: int, /) -> None:
    """Put a tracker over the upstream of an adaptor."""

def _tracker_bytes(mr: UpstreamResourceAdaptor, /) -> int:
    """Return the bytes of the live blocks of a tracker."""

def _tracker_blocks(mr: UpstreamResourceAdaptor, /) -> list[tuple[int, int, int]]:
    """Return (address, nbytes, stack) of each live block of a tracker, by address."""

def _tracker_write(mr: UpstreamResourceAdaptor, path: str | bytes, /) -> None:
    """Write a binary log with a row for each live block of a tracker."""

def _tracker_stacks(mr: UpstreamResourceAdaptor, /) -> list[tuple[int, int, int]]:
    """Return (stack, nbytes, blocks) for each stack with live blocks of a tracker."""

def _stack_frames(stack: int, /) -> list[tuple[str, str, int, int, str | None]]:
    """Return the frames of a call stack, the innermost first.

    A frame is a tuple (function, file, line, offset, build_id). `build_id` is
    None in a frame of Python. An unknown stack has no frames.
    """

def _copy(to: int, src: int, nbytes: int, stream: _StreamLike, /) -> None:
    """Queue a copy between two addresses on the current device."""

def _copy_to_host(ary: Buffer, src: int, stream: _StreamLike, /) -> None:
    """Queue a copy from an address into a writable host object."""

def _copy_from_host(to: int, ary: Buffer, stream: _StreamLike, /) -> None:
    """Queue a copy of a host object to an address."""

def _limiter_used(mr: UpstreamResourceAdaptor, /) -> int:
    """Return the bytes that a limiter has charged."""

def _limiter_limit(mr: UpstreamResourceAdaptor, /) -> int:
    """Return the limit of a limiter in bytes."""

def _counter_read(mr: UpstreamResourceAdaptor, /) -> Statistics:
    """Return the topmost set of counts."""

def _counter_push(mr: UpstreamResourceAdaptor, /) -> Statistics:
    """Push a new set of counts; return the one before."""

def _counter_pop(mr: UpstreamResourceAdaptor, /) -> Statistics:
    """Pop the topmost set of counts and return it."""

def _logger_flush(mr: UpstreamResourceAdaptor, /) -> None:
    """Write the buffered lines of a logger to its file."""

def _resource_capsule(mr: DeviceMemoryResource, /) -> object:
    """Return a capsule with a reference to the C resource of `mr`."""

def _adopt_capsule(mr: DeviceMemoryResource, capsule: object, /) -> None:
    """Give a resource object without a C resource that of a capsule."""

def _deallocate_or_report(mr: DeviceMemoryResource, ptr: int, nbytes: int, stream: Any, /) -> None:
    """Free a block; pass an exception to `sys.unraisablehook`."""

def _open_pool(
    mr: UpstreamResourceAdaptor,
    upstream: DeviceMemoryResource | None,
    device: int,
    initial: int,
    maximum: int,
    growth: int = 0,
    threshold: int = 0,
    grow_first: bool = False,
    fail_on_oom: bool = False,
    resume_on_use: bool = False,
    no_stream: int = 0,
    no_stream_limit: int = 0,
    tight: bool = False,
    never_moves: bool = False,
    background_thread: bool = False,
    plan: str | PathLike[str] | None = None,
    learn: bool = False,
    detect_steps: bool = False,
    /,
) -> None:
    """Create the resource of a PoolMemoryResource; sizes are bytes."""

def _open_slab(
    mr: UpstreamResourceAdaptor,
    upstream: DeviceMemoryResource | None,
    device: int,
    block_bytes: int,
    initial_blocks: int,
    maximum_blocks: int,
    /,
) -> None:
    """Create the resource of a FixedSizeMemoryResource."""

def _open_binning(
    mr: UpstreamResourceAdaptor, upstream: DeviceMemoryResource, low: int, high: int, /
) -> None:
    """Create the resource of a BinningMemoryResource; 0, 0: no bins."""

def _binning_add(
    mr: UpstreamResourceAdaptor, bytes: int, bin: DeviceMemoryResource | None, /
) -> None:
    """Add a bin for requests of up to `bytes` bytes."""

def _trim(mr: DeviceMemoryResource, keep: int, /) -> int:
    """Release free memory over `keep` bytes; return the released bytes."""

def _pool_set_maximum(mr: UpstreamResourceAdaptor, bytes: int, /) -> None:
    """Set the maximum of a pool in bytes; 0: none."""

def _pool_suspend(mr: UpstreamResourceAdaptor, keep: bool, /) -> None:
    """Suspend a pool, and keep the contents of live blocks if `keep` is true."""

def _pool_resume(mr: UpstreamResourceAdaptor, /) -> None:
    """Resume a suspended pool."""

def _pool_generation(mr: UpstreamResourceAdaptor, /) -> int:
    """Return how often the pool has removed physical memory from its addresses."""

def _pool_set_peer_access(mr: UpstreamResourceAdaptor, peer: int, access: bool, /) -> None:
    """Allow or forbid another device to use the memory of a pool."""

def _pool_mark_step(mr: UpstreamResourceAdaptor, /) -> None:
    """Mark the begin of a step, for a pool that follows or learns plans."""

def _pool_reset_peaks(mr: UpstreamResourceAdaptor, /) -> None:
    """Restart the recent peaks of a pool."""

def _pool_statistics(mr: UpstreamResourceAdaptor, /) -> dict[str, Any]:
    """Return the statistics of a pool, by the names of `tarn_pool_statistics`."""

def _pool_last_oom_report() -> dict[str, Any] | None:
    """Return this thread's last out-of-memory report, or None."""

def _pool_snapshot(mr: UpstreamResourceAdaptor, /) -> list[tuple[int, int, int, int, int, int]]:
    """Return all blocks as (address, bytes, requested_bytes, state, stream_id, segment)."""

@final
class GraphMemory:
    """The handle in a tarn.mr.PoolCapture."""

    def release(self, stream: _StreamLike, /) -> None:
        """Release the memory in the order of a stream."""
    def statistics(self) -> tuple[int, int, int, int, bool]:
        """Return (retained, live, live_blocks, streams, has_ended); zeros once released."""
    @property
    def is_released(self) -> bool:
        """Whether release() has released the memory."""

def _pool_get_capture(mr: UpstreamResourceAdaptor, stream: _StreamLike, /) -> GraphMemory:
    """Return the memory of the capture in progress on a stream."""

def _pool_begin_oom_callbacks(mr: UpstreamResourceAdaptor, /) -> object:
    """Have the pool call the callables in the list `mr._callbacks`.

    It does so while the returned object and `mr` exist.
    """

# --- torch.c ---

def _torch_functions() -> dict[str, int]:
    """Return the addresses of the functions for PyTorch, by name."""

def _torch_check() -> str | None:
    """Return None, or what is missing of PyTorch's exceptions."""

def _torch_set_resource(device: int, mr: DeviceMemoryResource, /) -> None:
    """Set the resource for PyTorch's memory on a device."""

def _torch_resource(device: int, /) -> DeviceMemoryResource | None:
    """Return the resource for PyTorch's memory on a device, or None."""

def _torch_set_first_use(call: Callable[[int], bool], /) -> None:
    """Have `call(device)` choose the current resource of a device that has none.

    It returns False where Tarn is to make a pool.
    """

def _torch_statistics(device: int, /) -> dict[str, Any]:
    """Return the counts of PyTorch's allocations on a device."""

def _torch_reset_peaks(device: int, /) -> None:
    """Reset the peaks of these counts and of the pool."""

def _torch_reset_totals(device: int, /) -> None:
    """Reset the sums of these counts."""

def _torch_open_segments(mr: DeviceMemoryResource, /) -> tuple[int, int]:
    """Return the addresses of two functions for a torch.cuda.MemPool."""

def _torch_close_segments(allocate: int, /) -> None:
    """Close the functions, the first of which has this address."""
