"""Two processes with a pool each on one GPU: each returns what it does not use.

The pools have a background thread. python/tests and tests/unit/pool/background.c test the
same with two pools of one process on the simulator, whose processes do not share memory.
"""

import multiprocessing
import time

import pytest
import tarn

pytestmark = pytest.mark.skipif(
    tarn.driver_info().is_simulator, reason="the simulator's devices belong to one process"
)

BLOCK = 256 << 20
INITIAL = 64 << 20
SCARCE_PART = 10  # of the device's memory: docs/design/pool.md


class Pool:
    """The pool of a worker."""

    def __init__(self):
        self.pool = tarn.mr.PoolMemoryResource(initial_pool_size=INITIAL, background_thread=True)
        self.stream = tarn.Stream()
        self.blocks = []

    def allocate(self, nbytes):
        """Allocate blocks of BLOCK bytes; return the seconds that it took."""
        start = time.monotonic()
        while nbytes >= BLOCK:
            self.blocks.append(self.pool.allocate(BLOCK, self.stream))
            nbytes -= BLOCK
        return time.monotonic() - start

    def free(self):
        while self.blocks:
            self.pool.deallocate(self.blocks.pop(), BLOCK, self.stream)
        self.stream.synchronize()

    def statistics(self):
        return self.pool.statistics()._asdict()

    def available(self):
        """Return the free and the total bytes of the device."""
        return tarn.mr.available_device_memory()


def serve(connection):
    """Run the methods of a Pool that the other end names."""
    pool = Pool()
    connection.send("ready")
    while True:
        try:
            name, *arguments = connection.recv()
        except EOFError:
            pool.free()
            return
        try:
            connection.send(getattr(pool, name)(*arguments))
        except Exception as error:
            connection.send(error)


class Worker:
    """A process with a pool; `call` runs a method of Pool there."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.connection, remote = context.Pipe()
        self.process = context.Process(target=serve, args=(remote,), daemon=True)
        self.process.start()
        remote.close()
        assert self.connection.recv() == "ready"

    def call(self, name, *arguments):
        self.connection.send((name, *arguments))
        result = self.connection.recv()
        if isinstance(result, Exception):
            raise result
        return result

    def count(self, name):
        return self.call("statistics")[name]

    def close(self):
        self.connection.close()
        self.process.join(60)
        assert self.process.exitcode == 0


@pytest.fixture
def workers():
    workers = [Worker(), Worker()]
    yield workers
    for worker in workers:
        worker.close()


def seconds_until(condition, limit):
    """Return the seconds until `condition()` holds; fail after `limit` seconds."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < limit
        time.sleep(0.01)
    return time.monotonic() - start


def test_idle_memory_of_one_process_returns_to_the_device_when_another_makes_it_scarce(workers):
    idle, busy = workers
    free, total = idle.call("available")
    idle.call("allocate", free // 2)
    idle.call("free")
    assert idle.count("reserved") >= free // 2 - BLOCK

    # All but a twentieth of the device: less than what makes memory scarce.
    busy.call("allocate", idle.call("available")[0] - total // (2 * SCARCE_PART))
    assert busy.call("available")[0] < total // SCARCE_PART

    took = seconds_until(lambda: idle.count("reserved") <= INITIAL, 5)
    print(f"returned after {took:.3f} s: {free // 2 >> 20} MiB")
    assert idle.count("live") == 0


def test_two_processes_get_most_of_the_device_in_turns(workers):
    free, total = workers[0].call("available")
    scarce = total // (2 * SCARCE_PART)
    workers[1].call("allocate", free * 8 // 10)
    workers[1].call("free")
    for turn in range(4):
        worker, other = workers[turn % 2], workers[1 - turn % 2]
        worker.call("allocate", worker.call("available")[0] - scarce)
        took = seconds_until(lambda other=other: other.count("reserved") <= INITIAL, 10)
        print(f"turn {turn}: the other process returned its memory after {took:.3f} s")
        worker.call("allocate", free * 8 // 10 - worker.count("live"))
        worker.call("free")


def test_two_processes_that_use_memory_in_turns_soon_keep_it(workers):
    free, total = workers[0].call("available")
    # Together they leave so little that memory is scarce, but both fit.
    each = (free - total // (2 * SCARCE_PART)) // 2
    grown = []
    for _ in range(24):
        turn = []
        for worker in workers:
            before = worker.count("growths")
            worker.call("allocate", each)
            worker.call("free")
            turn.append(worker.count("growths") > before)
            time.sleep(0.3)
        grown.append(turn)
    first, last = ([sum(t[i] for t in half) for i in (0, 1)] for half in (grown[:12], grown[12:]))
    print(f"turns that grew, by process: {first} of the first 12, {last} of the last 12")
    # The time until the next return doubles whenever a program took its memory back.
    assert max(last) <= 2
