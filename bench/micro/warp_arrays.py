"""The time of an array of Warp: its own pool, CUDA's default allocator, RMM's pool and Tarn's.

    python bench/micro/warp_arrays.py [--pairs 3000] [--rounds 5]

Each pair makes an array with wp.empty() and deletes it. The figures are medians of the rounds, in
nanoseconds a pair; the allocators take turns. With a second stream, Warp's own pool and Tarn free
behind the work of both streams, and RMM does not. It needs Warp and a GPU; RMM is optional.
"""

import argparse
import gc
import statistics
import time

import tarn
import tarn.warp
import warp as wp

DEVICE = "cuda:0"
SIZES = (256, 1 << 20, 1 << 28)


def allocators():
    """Yield (name, context in which it serves Warp)."""
    yield "Warp's pool", lambda: wp.ScopedMempool(DEVICE, True)
    yield "default", lambda: wp.ScopedMempool(DEVICE, False)
    try:
        import rmm
    except ImportError:
        pass
    else:
        rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
        theirs = wp.utils.AllocatorRmm()
        yield "RMM's pool", lambda: wp.ScopedAllocator(DEVICE, theirs)
    ours = tarn.warp.Allocator(tarn.mr.PoolMemoryResource(device=0))
    yield "Tarn's pool", lambda: wp.ScopedAllocator(DEVICE, ours)


def pair_ns(size, pairs):
    began = time.perf_counter_ns()
    for _ in range(pairs):
        one = wp.empty(size, dtype=wp.uint8, device=DEVICE)
        del one
    wp.synchronize()
    return (time.perf_counter_ns() - began) / pairs


def measure(found, pairs, rounds):
    """Return {(name, size): median ns}."""
    times = {}
    for _ in range(rounds):
        for name, serve in found:
            with serve():
                for size in SIZES:
                    pair_ns(size, 20)
                    times.setdefault((name, size), []).append(pair_ns(size, pairs))
    return {key: statistics.median(values) for key, values in times.items()}


def print_table(title, found, figures):
    print(f"{title:14}" + "".join(f"{name:>14}" for name, _ in found))
    for size in SIZES:
        row = "".join(f"{figures[name, size]:14.0f}" for name, _ in found)
        print(f"{size:>12} B" + row, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    wp.config.quiet = True
    wp.init()
    gc.disable()  # each array is deleted by its last reference
    found = list(allocators())
    print_table("one stream", found, measure(found, arguments.pairs, arguments.rounds))
    other = wp.Stream(DEVICE)
    print_table("two streams", found, measure(found, arguments.pairs, arguments.rounds))
    del other


if __name__ == "__main__":
    main()
