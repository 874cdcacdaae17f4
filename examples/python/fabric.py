"""Share a block with another node: the program carries the messages of the lease.

On the simulator the importer is on another node. On a GPU both processes are on this node, and need
an IMEX channel.
"""

import multiprocessing
import os

import tarn
import tarn.ipc


def importer(connection, options):
    """Open the block of the owner, read it, and write into it."""
    os.environ["TARN_SIM"] = options  # only the simulator reads it

    def ask(request):
        connection.send_bytes(request)
        return connection.recv_bytes()

    handle = connection.recv()
    with tarn.ipc.open(handle, ask=ask, lease=30) as memory:
        buffer = tarn.DeviceBuffer(size=memory.size)
        buffer.copy_from_device(memory)
        print(buffer.tobytes()[:5])
        print(f"the lease lasts another {memory.renew(30):.0f} s")
    connection.send_bytes(b"")


def main():
    """Own the block, and answer the importer's messages."""
    connection, other = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=importer, args=(other, "fabric=on,node=1"))
    process.start()
    pool = tarn.mr.PoolMemoryResource(tarn.mr.ExportableMemoryResource())
    buffer = tarn.DeviceBuffer(size=1 << 20, mr=pool)
    buffer.copy_from_host(b"hello" + bytes((1 << 20) - 5))
    with tarn.ipc.serve(buffer) as served:
        connection.send(served.handle)
        while message := connection.recv_bytes():
            connection.send_bytes(tarn.ipc.answer(message))
            print(f"{len(tarn.ipc.leases())} leases")
    process.join()


if __name__ == "__main__":
    os.environ["TARN_SIM"] = "fabric=on"  # only the simulator reads it
    main()
