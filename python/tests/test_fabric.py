"""tarn.ipc between nodes: fabric handles, and leases whose messages the program carries."""

import gc
import os
import subprocess
import sys

import ipc_support
import pytest
import tarn
import tarn.ipc

pytestmark = pytest.mark.skipif(
    not tarn.driver_info().is_simulator, reason="needs nodes of a fabric"
)

# The process of the tests has no fabric, so each owner is a process, too.
OWNER = """
import gc, multiprocessing, os, pickle
os.environ.setdefault("TARN_SIM", "fabric=on")  # a child has it from its parent
import ipc_support, tarn, tarn.ipc

class Importer:
    def __init__(self, options="fabric=on,node=1"):
        self.line, other = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        target = ipc_support.import_over
        self.process = context.Process(target=target, args=(other,), daemon=True)
        os.environ["TARN_SIM"] = options
        self.process.start()

    def __call__(self, *order):
        self.line.send((order + (None,))[:2])
        while request := self.line.recv_bytes():
            self.line.send_bytes(tarn.ipc.answer(request))
        return self.line.recv()

    def end(self):
        self.line.send(None)
        self.process.join()

def buffer_of(resource, size=1 << 20):
    buffer = tarn.DeviceBuffer(size=size, mr=resource)
    buffer.copy_from_host(bytes([7]) * size)
    return buffer

if __name__ == "__main__":
    exportable = tarn.mr.ExportableMemoryResource()
"""


@pytest.fixture
def owner(tmp_path):
    def run(code):
        body = "\n".join("    " + line for line in code.strip().splitlines())
        (tmp_path / "owner.py").write_text(OWNER + body)
        done = subprocess.run(
            [sys.executable, str(tmp_path / "owner.py")],
            capture_output=True,
            text=True,
            timeout=100,
            env={**ipc_support.os.environ, "PYTHONPATH": ipc_support.os.path.dirname(__file__)},
        )
        assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
        return done.stdout.strip()

    return run


def test_another_node_reads_a_block_under_a_lease(owner):
    assert (
        owner("""
importer = Importer()
buffer = buffer_of(tarn.mr.PoolMemoryResource(exportable))
served = tarn.ipc.serve(buffer)
assert pickle.loads(pickle.dumps(served.handle)) == served.handle
assert importer("open", served.handle) is None
(lease,) = tarn.ipc.leases()
assert (lease.process, lease.address, lease.size) == (importer.process.pid, buffer.ptr, 1 << 20)
assert importer("renew", 30) == 30
del buffer
served.close()
gc.collect()
assert importer("read") == bytes([7]) * (1 << 20)
assert len(tarn.ipc.leases()) == 1
assert importer("close") is None
assert tarn.ipc.leases() == [] and tarn.ipc.counts()["served"] == 0
print(importer("open", served.handle))
importer.end()
""")
        == "('TarnError', 'fabric: the owner rejects the lease: the block was freed, or the lease "
        "has expired')"
    )


def test_a_process_of_the_machine_takes_the_socket(owner):
    assert (
        owner("""
importer = Importer("fabric=on")
buffer = buffer_of(exportable)
with tarn.ipc.serve(buffer) as served:
    assert importer("open", served.handle) is None
    print(tarn.ipc.counts()["connections"], importer("renew", 1))
    importer("close")
importer.end()
""")
        == "1 ('ValueError', 'ipc: this memory has no lease to renew')"
    )


def test_without_a_way_to_the_owner_there_is_no_lease(owner):
    assert (
        owner("""
importer = Importer()
buffer = buffer_of(exportable)
for handle in tarn.ipc.serve(buffer).handle, tarn.ipc.export(buffer):
    assert importer("open without a lease", handle) is None
    assert importer("read") == bytes([7]) * (1 << 20)
    print(len(tarn.ipc.leases()))
    importer("close")
importer.end()
""")
        == "0\n0"
    )


def test_what_is_missing_is_an_error_in_words(owner):
    out = owner("""
buffer, cuda = buffer_of(exportable), buffer_of(tarn.mr.CudaMemoryResource())
served = tarn.ipc.serve(buffer)
handle = served.handle
without_fabric = tarn.ipc.export(cuda)
assert without_fabric.fabric == b""
importer = Importer("fabric=no-channel,node=1")
print(importer("open", handle))
assert tarn.ipc.leases() == []
importer.end()
importer = Importer()
print(importer("open", without_fabric))
damaged = bytes([handle.fabric[0] ^ 1]) + handle.fabric[1:]
print(importer("open", handle._replace(fabric=damaged)))
print(importer("open", handle._replace(fabric=b"short")))
importer.end()
for request in b"", bytes(96):
    try:
        tarn.ipc.answer(request)
    except ValueError as error:
        print(error)
""")
    lines = out.splitlines()
    assert lines[0].startswith(
        "('NotSupportedError', \"fabric: this process lacks the IMEX channel"
    )
    assert lines[1].startswith("('TarnError', 'ipc: this process does not have the device")
    assert lines[2] == "('InvalidArgumentError', 'fabric: the bytes are no handle')"
    assert lines[3] == "('ValueError', 'ipc: a fabric handle has 160 bytes, not 5')"
    assert lines[4:] == ["ipc: a message has 96 bytes, not 0", "fabric: the bytes are no message"]


def test_a_dma_buf_descriptor_has_the_range_of_the_memory():
    for resource in tarn.mr.ExportableMemoryResource(), tarn.mr.PoolMemoryResource():
        buffer = tarn.DeviceBuffer(size=100_000, mr=resource)
        made = tarn.ipc.dma_buf(buffer)
        try:
            assert (made.offset, made.size) == (0, 102400)
            assert os.lseek(made.fd, 0, os.SEEK_END) == made.size
            assert not os.get_inheritable(made.fd)
        finally:
            os.close(made.fd)


def test_memory_without_a_dma_buf_descriptor_is_an_error_in_words(sim_process):
    over_cuda = tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource())
    without = tarn.DeviceBuffer(size=100_000, mr=over_cuda)
    buffer = tarn.DeviceBuffer(size=100_000, mr=tarn.mr.ExportableMemoryResource())
    before = os.listdir("/proc/self/fd")
    with pytest.raises(tarn.NotSupportedError, match="it accepts memory of cuMemCreate"):
        tarn.ipc.dma_buf(without)
    with pytest.raises(tarn.NotSupportedError, match="does not support it over PCIe"):
        tarn.ipc.dma_buf(buffer, over_pcie=True)
    assert os.listdir("/proc/self/fd") == before
    code = """
import tarn, tarn.ipc
try:
    tarn.ipc.dma_buf(tarn.DeviceBuffer(size=5, mr=tarn.mr.ExportableMemoryResource()))
except tarn.NotSupportedError as error:
    print(error)
"""
    assert sim_process(code, TARN_SIM="dma-buf=off").endswith("the driver does not support it")


def test_freed_exportable_blocks_stay_mapped_within_the_cache():
    resource = tarn.mr.ExportableMemoryResource(cache_size="4MiB")
    buffer = tarn.DeviceBuffer(size=3 << 20, mr=resource)
    address = buffer.ptr
    del buffer
    gc.collect()
    assert tarn.DeviceBuffer(size=3 << 20, mr=resource).ptr == address
    gc.collect()
    assert resource.trim() == 4 << 20
    with pytest.raises(OverflowError):
        tarn.mr.ExportableMemoryResource(cache_size=-1)
