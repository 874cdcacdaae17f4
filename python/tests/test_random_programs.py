"""Random programs on resources, adaptors, pools, buffers and exports, beside a plain model.

Each program draws its own options, streams and simulator. It writes a pattern into each block and
reads it back after copies on streams, moves, suspensions and reuse. On the simulator it also has no
race and leaves no memory behind. TARN_TEST_PROGRAMS is the number of programs; then they are others
in each run. A program that failed once is a test of its own below.
"""

import contextlib
import csv
import gc
import os
import sys

import hypothesis
import pytest
import tarn
import tarn.ipc
from driver_support import Simulator
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from program_model import Node
from tarn import mr

PROGRAMS = int(os.environ.get("TARN_TEST_PROGRAMS", "0"))
SETTINGS = hypothesis.settings(
    max_examples=PROGRAMS or 100,
    stateful_step_count=80 if PROGRAMS else 40,
    derandomize=not PROGRAMS,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
MARK = 48  # bytes of the pattern at either end of a block
IMPOSSIBLE = (2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 255)

numbers = st.integers(0, 1 << 16)
sizes = st.one_of(st.integers(1, 4096), st.integers(1, 1 << 16), st.integers(1, 6 << 20))
small_sizes = st.one_of(st.integers(0, 300), st.integers(0, 20000))


class Own(mr.UpstreamResourceAdaptor):
    """A resource written in Python."""

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return super().allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        super().deallocate(ptr, nbytes, stream)


class Block:
    """A live block of a program: raw memory of a node, or a DeviceBuffer."""

    def __init__(self, node, address, nbytes, stream, buffer=None):
        self.node, self.address, self.nbytes, self.stream = node, address, nbytes, stream
        self.buffer = buffer
        self.origin = None  # of a view: the block whose buffer object it keeps
        self.content = None  # of the first and the last MARK bytes, or of all of a buffer

    def parts(self):
        """Return (offset, bytes) of what the pattern covers."""
        if self.nbytes <= 2 * MARK:
            return [(0, self.nbytes)]
        return [(0, MARK), (self.nbytes - MARK, MARK)]


BASES = (
    "cuda",
    "async",
    "async-default",
    "managed",
    "exportable",
    "pinned",
    "pool",
    "pool",
    "pool",
    "slab",
)
ADAPTORS = (
    "limiting",
    "statistics",
    "tracking",
    "logging",
    "logging",
    "guard",
    "prefetch",
    "failure callback",
    "own",
    "callback",
    "binning",
    "pool",
    "slab",
)


class Programs(RuleBasedStateMachine):
    folder = None  # of logs

    def __init__(self):
        super().__init__()
        gc.collect()
        self.simulator = Simulator()
        self.nodes, self.blocks, self.served = [], [], []
        self.views = []  # buffers over the memory of a buffer, which may have ended or moved
        self.errors = []  # of callbacks
        self.serial = 0
        tarn.device_info()
        self.simulator.configure(None)
        self.before = self.simulator.live_bytes(), self.simulator.races()

    # --- the world ---

    @initialize(
        mode=st.sampled_from(
            ("", "races=on", "mode=seeded,seed={},races=on", "mode=seeded,seed={}")
        ),
        seed=numbers,
        streams=st.lists(st.sampled_from(("plain", "non-blocking", "registered")), max_size=4),
        base=st.sampled_from(BASES),
        options=st.lists(numbers, min_size=6, max_size=6),
    )
    def begin(self, mode, seed, streams, base, options):
        self.simulator.configure(mode.format(seed))
        self.streams = [tarn.DEFAULT_STREAM, tarn.PER_THREAD_DEFAULT_STREAM]
        for kind in streams:
            stream = tarn.Stream(flags=int(kind != "plain"))
            self.streams.append(stream.register() if kind == "registered" else stream)
        self.add_base(base, options)

    @precondition(lambda self: len(self.nodes) < 8)
    @rule(kind=st.sampled_from(BASES), options=st.lists(numbers, min_size=6, max_size=6))
    def add_base(self, kind, options):
        if kind == "cuda":
            made = Node(mr.CudaMemoryResource(), kind, is_exact=False)
        elif kind == "async":
            ipc = options[0] % 2 == 1
            made = Node(mr.CudaAsyncMemoryResource(enable_ipc=ipc), kind)
        elif kind == "async-default":
            made = Node(mr.CudaAsyncMemoryResource(use_default_pool=True), kind)
        elif kind == "managed":
            made = Node(mr.ManagedMemoryResource(), kind)
        elif kind == "exportable":
            made = Node(mr.ExportableMemoryResource(cache_size=options[0] % 2 * (8 << 20)), kind)
        elif kind == "pinned":
            made = Node(mr.PinnedHostMemoryResource(), kind)
        else:
            made = self.pool(None, options) if kind == "pool" else self.slab(None, options)
        self.nodes.append(made)

    @precondition(lambda self: self.nodes and len(self.nodes) < 8)
    @rule(
        at=numbers,
        kind=st.sampled_from(ADAPTORS),
        options=st.lists(numbers, min_size=6, max_size=6),
    )
    def add_adaptor(self, at, kind, options):
        upstream = self.node(at)
        if upstream.is_asleep() or len(upstream.beneath()) > 5:
            return
        if kind in ("guard", "binning", "pool", "slab"):
            for node in upstream.beneath():
                node.is_exact = False
        try:
            self.nodes.append(self.adaptor(kind, upstream, options))
        except tarn.OutOfMemoryError:  # for the blocks of a slab
            assert any(node.is_bounded or node.limit is not None for node in upstream.beneath())

    def adaptor(self, kind, upstream, options):
        below = upstream.mr
        if kind == "limiting":
            limit = options[0] * 64
            return Node(mr.LimitingResourceAdaptor(below, limit), kind, upstream, True, limit=limit)
        if kind == "failure callback":
            calls = []
            adaptor = mr.FailureCallbackResourceAdaptor(below, lambda n: calls.append(n))
            return Node(adaptor, kind, upstream, True, failures=calls)
        if kind == "logging":
            self.serial += 1
            form = ("rmm", "nbep7", "binary")[options[0] % 3]
            name = self.folder / f"{self.serial}.csv"
            adaptor = mr.LoggingResourceAdaptor(below, name, format=form)
            return Node(adaptor, f"{form} log", upstream, True)
        if kind == "guard":
            items = ["guard", "poison", "quarantine=64KiB", "zone=512", "guard=1/3"]
            chosen = ["guard" if options[0] % 4 else "guard=1/3"]
            chosen += [item for i, item in enumerate(items[1:4]) if options[i + 1] % 2]
            return Node(mr.GuardResourceAdaptor(below, ",".join(chosen)), kind, upstream)
        if kind == "callback":
            resource = mr.CallbackMemoryResource(below.allocate, below.deallocate)
            return Node(resource, kind, upstream, True)
        if kind == "binning":
            made = mr.BinningMemoryResource(below, 8 + options[0] % 4, 12 + options[1] % 6)
            return Node(made, kind, upstream)
        if kind == "pool":
            return self.pool(upstream, options)
        if kind == "slab":
            return self.slab(upstream, options)
        simple = {
            "statistics": mr.StatisticsResourceAdaptor,
            "tracking": mr.TrackingResourceAdaptor,
            "prefetch": mr.PrefetchResourceAdaptor,
            "own": Own,
        }
        return Node(simple[kind](below), kind, upstream, True)

    def pool(self, upstream, options):
        maximum = (None, None, 16 << 20, 40 << 20)[options[0] % 4]
        never = options[3] % 4 == 0
        has_thread = upstream is None and options[5] % 3 == 0
        made = mr.PoolMemoryResource(
            upstream and upstream.mr,
            maximum_pool_size=maximum,
            growth=(0, 2 << 20)[options[1] % 2],
            release_threshold=0 if never else (0, 4 << 20)[options[2] % 2],
            grow_first=options[2] % 3 == 0,
            synchronize_on_oom=options[2] % 5 != 0,
            resume_on_use=options[4] % 2 == 0,
            no_stream=("synchronize", "event")[options[4] % 3 == 0],
            policy=("default", "tight")[options[5] % 2],
            moves=("default", "never")[never],
            background_thread=has_thread,
        )
        return Node(
            made,
            "pool",
            upstream,
            is_bounded=maximum is not None,
            has_thread=has_thread,
            resumes=options[4] % 2 == 0,
        )

    def slab(self, upstream, options):
        size = 1 + options[0] % 20000
        most = (None, 8)[options[1] % 2]
        made = mr.FixedSizeMemoryResource(
            upstream and upstream.mr, size, options[2] % 8, maximum_blocks=most
        )
        return Node(made, "slab", upstream, is_bounded=True, block_size=size)

    def node(self, at):
        return self.nodes[at % len(self.nodes)]

    def stream(self, at):
        return self.streams[at % len(self.streams)]

    def block(self, at):
        return self.blocks[at % len(self.blocks)]

    # --- memory ---

    def allocate(self, node, nbytes, call):
        """Return the result of an allocation that the model allows, or None."""
        may_work, *errors = node.error_of(nbytes)
        awake = [n for n in node.beneath() if n.is_suspended]
        try:
            result = call()
        except tuple(errors) as error:
            if not isinstance(error, tarn.OutOfMemoryError):
                assert awake, error
            self.note_failure(node, nbytes, error)
            return None
        assert may_work, (node.kind, nbytes)
        return result

    def note_failure(self, node, nbytes, error):
        if isinstance(error, tarn.OutOfMemoryError):
            node.note_failure(nbytes)
            return
        for each in node.chain():
            each.rows.append(("allocate failure", 0, nbytes))

    def check_new(self, address, nbytes):
        assert address % 256 == 0
        for block in (*self.blocks, *self.all_views()):
            assert address + nbytes <= block.address or block.address + block.nbytes <= address

    def note_awake(self, node):
        """After an allocation a pool that resumes on use may be awake."""
        for each in node.beneath():
            if each.is_suspended and each.resumes:
                if each.mr.statistics().reserved == 0:
                    each.mr.resume()  # nothing tells whether it was suspended
                each.is_suspended = each.mr.statistics().suspended > 0

    @precondition(lambda self: len(self.blocks) < 40)
    @rule(at=numbers, nbytes=sizes, on=numbers, pattern=st.integers(1, 255))
    def new_block(self, at, nbytes, on, pattern):
        node, stream = self.node(at), self.stream(on)
        if node.block_size:
            nbytes = 1 + nbytes % node.block_size
        address = self.allocate(node, nbytes, lambda: node.mr.allocate(nbytes, stream))
        self.note_awake(node)
        if address is None:
            return
        self.check_new(address, nbytes)
        node.note_allocation(address, nbytes)
        block = Block(node, address, nbytes, stream)
        self.blocks.append(block)
        self.fill(block, pattern)

    @precondition(lambda self: len(self.blocks) < 40)
    @rule(at=numbers, nbytes=small_sizes, on=numbers, pattern=st.integers(1, 255))
    def new_buffer(self, at, nbytes, on, pattern):
        node, stream = self.node(at), self.stream(on)
        if node.block_size:
            nbytes %= node.block_size + 1
        made = self.allocate(
            node, nbytes, lambda: tarn.DeviceBuffer(size=nbytes, stream=stream, mr=node.mr)
        )
        self.note_awake(node)
        if made is None:
            return
        assert made.size == made.capacity() == nbytes and made.mr is node.mr
        assert (made.ptr == 0) == (nbytes == 0)
        self.check_new(made.ptr, nbytes)
        if nbytes:
            node.note_allocation(made.ptr, nbytes)
        block = Block(node, made.ptr, nbytes, stream, made)
        block.capacity = nbytes
        self.blocks.append(block)
        self.fill(block, pattern)

    def fill(self, block, pattern):
        block.content = None
        if block.node.is_asleep():
            return
        if block.buffer is not None:
            content = bytes((pattern + i) % 256 for i in range(block.nbytes))
            block.buffer.copy_from_host(content, block.stream)
            block.kept = content  # until the copy is done
            block.content = [content]
            return
        block.content = []
        for offset, count in block.parts():
            part = bytes((pattern + offset + i) % 256 for i in range(count))
            tarn._tarn._copy_from_host(block.address + offset, part, block.stream)
            block.content.append(part)
        block.kept = list(block.content)

    @precondition(lambda self: self.blocks)
    @rule(at=numbers)
    def read(self, at):
        block = self.block(at)
        if block.content is None or block.node.is_asleep():
            return
        if block.buffer is not None:
            assert [block.buffer.tobytes(block.stream)] == block.content
            return
        for (offset, count), part in zip(block.parts(), block.content, strict=True):
            seen = bytearray(count)
            tarn._tarn._copy_to_host(seen, block.address + offset, block.stream)
            block.stream.synchronize()
            assert bytes(seen) == part

    @precondition(lambda self: self.blocks)
    @rule(at=numbers, on=numbers)
    def move_to_stream(self, at, on):
        block = self.block(at)
        if block.buffer is None and not block.node.is_asleep():
            block.stream.synchronize()
            block.stream = self.stream(on)

    @precondition(lambda self: len(self.blocks) > 1)
    @rule(source=numbers, to=numbers)
    def copy_block(self, source, to):
        """Queue a copy of the first bytes, and wait for nothing."""
        one, two = self.block(source), self.block(to)
        plain = one.buffer is None and two.buffer is None and one is not two
        if not plain or one.content is None or two.content is None:
            return
        if one.node.is_asleep() or two.node.is_asleep():
            return
        if one.stream is not two.stream:
            two.stream.synchronize()
            two.stream = one.stream
        count = min(len(one.content[0]), len(two.content[0]))
        tarn._tarn._copy(two.address, one.address, count, one.stream)
        two.content[0] = one.content[0][:count] + two.content[0][count:]

    @precondition(lambda self: self.blocks)
    @rule(at=numbers, then=st.sampled_from(("", "", "elsewhere", "without a stream")), on=numbers)
    def free(self, at, then, on):
        self.end(self.blocks.pop(at % len(self.blocks)), then, on)

    def end(self, block, then="", on=0):
        if block.buffer is not None:
            block.buffer = None
            if not self.keeps(block):
                self.note_end(block.node, block.address, block.capacity)
            return
        stream = block.stream
        if then:
            stream.synchronize()
            stream = self.stream(on) if then == "elsewhere" else tarn.NO_STREAM
        block.node.mr.deallocate(block.address, block.nbytes, stream)
        block.node.note_free(block.address, block.nbytes)

    @precondition(lambda self: self.nodes)
    @rule(at=numbers, nbytes=st.sampled_from(IMPOSSIBLE), on=numbers)
    def ask_too_much(self, at, nbytes, on):
        node = self.node(at)
        with pytest.raises((tarn.TarnError, OverflowError, MemoryError)) as caught:
            node.mr.allocate(nbytes, self.stream(on))
        if not isinstance(caught.value, (tarn.OutOfMemoryError, OverflowError)):
            assert node.is_asleep(), caught.value
        for each in node.beneath():
            each.knows_rows = False  # which of them see the request is not the model's
            each.expected_failures[:] = each.failures

    @rule(at=numbers, on=numbers)
    def ask_nothing(self, at, on):
        node = self.node(at)
        assert node.mr.allocate(0, self.stream(on)) == 0
        node.mr.deallocate(0, 0, self.stream(on))
        for each in node.beneath():
            each.knows_rows = False

    @precondition(lambda self: any(block.buffer is None for block in self.blocks))
    @rule(at=numbers, wrong=st.sampled_from(("more", "less", "middle", "foreign")), by=numbers)
    def free_wrongly(self, at, wrong, by):
        raw = [block for block in self.blocks if block.buffer is None]
        block = raw[at % len(raw)]
        address, nbytes = block.address, block.nbytes
        if wrong == "more":
            nbytes += 1 + by
        elif wrong == "less":
            nbytes -= 1 + by % nbytes
        elif wrong == "middle":
            address += 1 + by % nbytes
        else:
            address = (1 + by) * 4096
        if nbytes == 0 or (wrong == "middle" and address in block.node.live):
            return
        with pytest.raises(tarn.InvalidArgumentError):
            block.node.mr.deallocate(address, nbytes, block.stream)

    # --- buffers ---

    def buffers(self):
        return [block for block in self.blocks if block.buffer is not None]

    @precondition(lambda self: self.buffers())
    @rule(at=numbers, size=small_sizes, on=numbers, only=st.booleans(), pattern=st.integers(1, 255))
    def resize(self, at, size, on, only, pattern):
        """Resize a buffer, or only reserve."""
        block = self.buffers()[at % len(self.buffers())]
        node, stream, buffer = block.node, self.stream(on), block.buffer
        if node.is_asleep():
            return
        if node.block_size:
            size %= node.block_size + 1
        block.stream.synchronize()
        grows = size > block.capacity
        change = buffer.reserve if only else buffer.resize
        if grows:
            done = self.allocate(node, size, lambda: change(size, stream) or True)
            if done is None:
                assert (buffer.size, buffer.capacity()) == (block.nbytes, block.capacity)
                assert buffer.ptr == block.address and [buffer.tobytes()] == block.content
                return
            address = block.address
            self.blocks.remove(block)
            self.check_new(buffer.ptr, size)
            self.blocks.append(block)
            assert buffer.ptr != address
            node.note_allocation(buffer.ptr, size)
            capacity = block.capacity
            block.address, block.capacity = buffer.ptr, size
            self.note_end(node, address, capacity)
        else:
            change(size, stream)
            assert buffer.ptr == block.address
        block.stream = stream
        assert buffer.capacity() == block.capacity
        if block.content is not None:
            kept = block.content[0] if only else block.content[0][:size]
            assert buffer.tobytes(stream)[: len(kept)] == kept
        if not only:
            block.nbytes = size
        assert buffer.size == len(buffer) == block.nbytes
        self.fill(block, pattern)

    @precondition(lambda self: self.buffers() and len(self.blocks) < 40)
    @rule(at=numbers)
    def copy_buffer(self, at):
        block = self.buffers()[at % len(self.buffers())]
        node = block.node
        if node.is_asleep():
            return
        made = self.allocate(node, block.nbytes, block.buffer.copy)
        if made is None:
            return
        assert made.mr is node.mr and made.size == made.capacity() == block.nbytes
        self.check_new(made.ptr, block.nbytes)
        if block.nbytes:
            node.note_allocation(made.ptr, block.nbytes)
        copy = Block(node, made.ptr, block.nbytes, block.stream, made)
        copy.capacity, copy.content = block.nbytes, block.content and list(block.content)
        self.blocks.append(copy)

    @precondition(lambda self: len(self.buffers()) > 1)
    @rule(source=numbers, to=numbers)
    def copy_between_buffers(self, source, to):
        found = self.buffers()
        one, two = found[source % len(found)], found[to % len(found)]
        if one is two or one.content is None or two.content is None:
            return
        if one.node.is_asleep() or two.node.is_asleep():
            return
        one.stream.synchronize()
        if one.nbytes > two.nbytes:
            with pytest.raises(ValueError):
                two.buffer.copy_from_device(one.buffer, two.stream)
            return
        two.buffer.copy_from_device(one.buffer, two.stream)
        two.content = [one.content[0] + two.content[0][one.nbytes :]]
        two.stream.synchronize()  # a later free of `one` is on another stream

    def all_views(self):
        return [*self.views, *(kept for _, kept in self.served)]

    def keeps(self, block):
        """Return whether a view keeps the object of a buffer, and so the memory it has now."""
        return any(view.origin is block for view in self.all_views())

    def note_end(self, node, address, capacity):
        """Note the free of a buffer's memory, unless another buffer or a view still has it."""
        views = self.all_views()
        for block in (*self.buffers(), *views, *(view.origin for view in views)):
            if block.node is node and block.address == address:
                return
        if capacity:
            node.note_free(address, capacity)

    def note_end_of_view(self, view):
        self.note_end(view.node, view.address, view.capacity)
        origin = view.origin
        if origin.buffer is None and origin.address != view.address and not self.keeps(origin):
            self.note_end(origin.node, origin.address, origin.capacity)

    @precondition(lambda self: self.buffers() and len(self.views) < 6)
    @rule(at=numbers, on=numbers)
    def view(self, at, on):
        """Make a buffer over the memory of another one; it keeps that memory."""
        block = self.buffers()[at % len(self.buffers())]
        if not block.nbytes or block.node.is_asleep():
            return
        stream = self.stream(on)
        try:
            made = tarn.DeviceBuffer.from_dlpack(block.buffer, stream=stream)
        except BufferError:
            assert block.node.beneath()[-1].kind == "pinned"  # not in CUDA's device memory
            return
        assert (made.ptr, made.size) == (block.address, block.nbytes)
        view = Block(block.node, block.address, block.nbytes, stream, made)
        view.capacity, view.origin = block.capacity, block
        self.views.append(view)

    @precondition(lambda self: self.views)
    @rule(at=numbers)
    def read_view(self, at):
        view = self.views[at % len(self.views)]
        if view.node.is_asleep():
            return
        for block in self.buffers():
            if block.address == view.address and block.content is not None:
                block.stream.synchronize()
                count = min(block.nbytes, view.nbytes)
                assert view.buffer.tobytes(view.stream)[:count] == block.content[0][:count]

    @precondition(lambda self: self.views)
    @rule(at=numbers)
    def end_view(self, at):
        view = self.views.pop(at % len(self.views))
        view.buffer = None
        self.note_end_of_view(view)

    @precondition(lambda self: self.buffers() and len(self.served) < 3)
    @rule(at=numbers)
    def serve(self, at):
        """Serve a buffer to other processes, or be refused; this process cannot open it."""
        block = self.buffers()[at % len(self.buffers())]
        if not block.nbytes or block.node.is_asleep():
            return
        try:
            served = tarn.ipc.serve(block.buffer)
        except tarn.NotSupportedError:
            return
        assert served.handle.size == block.nbytes and served.device == 0
        with pytest.raises(tarn.InvalidArgumentError):
            tarn.ipc.open(served.handle)
        kept = Block(block.node, block.address, block.nbytes, None)
        kept.capacity, kept.origin = block.capacity, block
        self.served.append((served, kept))

    @precondition(lambda self: self.served)
    @rule(at=numbers)
    def end_served(self, at):
        served, kept = self.served.pop(at % len(self.served))
        served.close()
        with pytest.raises(ValueError):
            served.close()
        self.note_end_of_view(kept)

    # --- adaptors and pools ---

    def of_kind(self, *kinds):
        return [node for node in self.nodes if node.kind in kinds]

    @precondition(lambda self: self.of_kind("statistics"))
    @rule(at=numbers, push=st.booleans())
    def push_or_pop(self, at, push):
        found = self.of_kind("statistics")
        node = found[at % len(found)]
        if not node.is_exact:
            return
        if push:
            assert tuple(node.mr.push_counters()) == node.counts.push()
        elif len(node.counts.sets) == 1:
            with pytest.raises(IndexError):
                node.mr.pop_counters()
        else:
            assert tuple(node.mr.pop_counters()) == node.counts.pop()

    @precondition(lambda self: self.of_kind("rmm log", "nbep7 log", "binary log"))
    @rule(at=numbers)
    def read_log(self, at):
        found = self.of_kind("rmm log", "nbep7 log", "binary log")
        node = found[at % len(found)]
        node.mr.flush()
        if node.kind == "rmm log" and node.is_exact and node.knows_rows:
            with open(node.mr.get_file_name(), newline="") as file:
                rows = [
                    (row["Action"], int(row["Pointer"].replace("(nil)", "0"), 16), int(row["Size"]))
                    for row in csv.DictReader(file)
                ]
            assert rows == node.rows

    @precondition(lambda self: self.of_kind("pool", "slab", "exportable", "async"))
    @rule(at=numbers, keep=st.sampled_from((0, 1 << 20, "4MiB")))
    def trim(self, at, keep):
        found = self.of_kind("pool", "slab", "exportable", "async")
        node = found[at % len(found)]
        if not node.is_asleep():
            assert node.mr.trim(keep) >= 0

    @precondition(lambda self: self.of_kind("pool"))
    @rule(at=numbers, keep=st.booleans())
    def suspend_or_resume(self, at, keep):
        found = self.of_kind("pool")
        node = found[at % len(found)]
        if node.upstream is not None:
            with pytest.raises(tarn.NotSupportedError):
                node.mr.suspend(keep)
            return
        if node.is_suspended:
            node.mr.resume()
        else:
            if not keep:
                for block in self.blocks:
                    if node in block.node.beneath():
                        block.content = None
            node.mr.suspend(keep)
        node.is_suspended = not node.is_suspended

    @precondition(lambda self: self.of_kind("pool"))
    @rule(at=numbers, maximum=st.sampled_from((None, 0, "12MiB", 64 << 20)))
    def set_maximum(self, at, maximum):
        found = self.of_kind("pool")
        node = found[at % len(found)]
        try:
            node.mr.maximum_pool_size = maximum
        except tarn.InvalidArgumentError:
            assert maximum and node.mr.statistics().live > 0
            return
        node.is_bounded = node.is_bounded or bool(maximum)
        assert (node.mr.maximum_pool_size is None) == (not maximum)

    @precondition(lambda self: self.of_kind("pool", "slab"))
    @rule(at=numbers)
    def compare_snapshot(self, at):
        found = self.of_kind("pool", "slab")
        node = found[at % len(found)]
        blocks = node.mr.snapshot()
        for one, two in zip(blocks, blocks[1:], strict=False):
            assert one.address + one.bytes <= two.address
        if node.is_exact:
            live = {b.address: b.requested_bytes for b in blocks if b.state == "live"}
            assert live == node.live

    @precondition(lambda self: self.of_kind("pool"))
    @rule(at=numbers)
    def add_oom_callback(self, at):
        """Add a callback that frees a block of the program."""
        found = self.of_kind("pool")
        node = found[at % len(found)]
        if node.kept:
            return

        def free_one(nbytes, attempt):
            raw = [block for block in self.blocks if block.buffer is None]
            if not raw:
                return False
            self.blocks.remove(raw[0])
            try:
                self.end(raw[0])
            except Exception as error:  # the pool passes it to sys.unraisablehook
                self.errors.append(error)
            return True

        node.mr.add_oom_callback(free_one)
        node.kept.append(free_one)

    @precondition(lambda self: any(node.kept for node in self.of_kind("pool")))
    @rule()
    def remove_oom_callbacks(self):
        for node in self.of_kind("pool"):
            for callback in node.kept:
                node.mr.remove_oom_callback(callback)
            node.kept.clear()

    @rule(at=numbers)
    def set_current(self, at):
        node = self.node(at)
        if node.kind == "callback":  # it has no device before its first use
            return
        before = mr.get_current_device_resource()
        assert mr.set_current_device_resource(node.mr) is before
        assert mr.get_current_device_resource() is node.mr
        made = self.allocate(node, 100, lambda: tarn.DeviceBuffer(size=100))
        self.note_awake(node)
        if made is not None:
            assert made.mr is node.mr
            node.note_allocation(made.ptr, 100)
            node.note_free(made.ptr, 100)
            del made
        assert mr.set_current_device_resource(before) is node.mr

    @precondition(lambda self: len(self.nodes) > 1)
    @rule(at=numbers)
    def drop(self, at):
        """Forget a resource without live blocks; those above it keep it."""
        node = self.node(at)
        if any(block.node is node for block in (*self.blocks, *self.all_views())):
            return
        if node.is_suspended:
            return
        if any(other.upstream is node for other in self.nodes):
            return
        self.nodes.remove(node)

    @rule()
    def synchronize(self):
        tarn.synchronize()

    @invariant()
    def compare(self):
        assert self.errors == []
        for node in self.nodes:
            node.check()

    def teardown(self):
        if sys.exc_info()[1] is not None:
            self.give_up()
            return
        while self.served:
            self.end_served(0)
        while self.views:
            self.end_view(0)
        while self.blocks:
            self.end(self.blocks.pop())
        self.compare()
        races = self.simulator.races()
        self.nodes.clear()
        self.streams.clear()
        gc.collect()
        self.simulator.configure(None)
        live, races_before = self.before
        assert races == races_before, self.simulator.last_race()
        assert self.simulator.live_bytes() == live

    def give_up(self):
        """End what a program that has failed leaves behind."""
        for served, _ in self.served:
            served.close()
        self.views.clear()
        for block in self.blocks:
            block.buffer, raw = None, block.buffer is None
            if raw:
                with contextlib.suppress(tarn.TarnError):
                    block.node.mr.deallocate(block.address, block.nbytes, block.stream)
        self.simulator.configure(None)


def test_random_programs_agree_with_a_model(tmp_path):
    Programs.folder = tmp_path
    run_state_machine_as_test(Programs, settings=SETTINGS)
