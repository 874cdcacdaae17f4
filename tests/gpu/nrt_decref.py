#!/usr/bin/env python3
"""Checks whether numba-cuda's device runtime, or Tarn's, ends a block more than once.

numba-cuda's NRT_decref() decrements the count and then reads it again, so two threads that release
the last two references can both see 0. Here 16,384 threads release one reference each of the same
MemInfos, and the destructor counts its calls. Both runtimes are checked:

    counted   how often each MemInfo ends, with the following free removed from the source, so that
              a second end is counted and does not crash
    freed     the same with the unchanged runtime: a second end frees twice
    rules     sizes, alignments, destructors and failures, in one thread
    suite     numba-cuda's own tests of its runtime, and of arrays made in kernels

Each is a process of its own, because a kernel that crashes ends its context. Exit 1: Tarn's runtime
failed.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

RUNTIMES = ("numba-cuda", "tarn")
QUESTIONS = ("counted", "freed", "rules", "suite")
LIMIT_S = 45  # a process
LINES = 40  # of the message of a failure
MEMINFOS, BLOCKS, THREADS, ROUNDS = 512, 64, 256, 20

PROBE = """
typedef void (*destructor)(void *data, size_t size, void *info);
struct meminfo { /* numba-cuda's */
    unsigned long long count;
    destructor end;
    void *info, *data;
    size_t size;
};
extern "C" __device__ meminfo *NRT_MemInfo_new(void *, size_t, destructor, void *info);
extern "C" __device__ meminfo *NRT_MemInfo_alloc_aligned(size_t, unsigned);
extern "C" __device__ meminfo *NRT_MemInfo_new_varsize_dtor(size_t, destructor);
extern "C" __device__ void NRT_decref(meminfo *);
extern "C" __device__ void *NRT_Allocate(size_t);
extern "C" __device__ void NRT_Free(void *);

static __device__ meminfo *made[512];
static __device__ unsigned ended[512];

static __device__ void note(void *data, size_t, void *)
{
    atomicAdd((unsigned *)data, 1);
}

extern "C" __device__ int probe_make(int *result, int which, int references)
{
    ended[which] = 0;
    made[which] = NRT_MemInfo_new(&ended[which], 0, note, nullptr);
    *result = made[which] != nullptr;
    if (*result)
        made[which]->count = references;
    return 0;
}

extern "C" __device__ int probe_release(int *result, int which)
{
    *result = 0;
    NRT_decref(made[which]);
    return 0;
}

extern "C" __device__ int probe_ended(int *result, int which)
{
    *result = (int)ended[which];
    return 0;
}

static __device__ unsigned seen_by_destructor;

static __device__ void see(void *, size_t, void *info)
{
    if (info)
        seen_by_destructor = *(unsigned *)info;
}

static __device__ void end_elements(void *data, size_t, void *)
{
    seen_by_destructor = *(unsigned *)data;
}

/* Is the data of this many bytes inside its block, and as aligned as it should be? */
static __device__ bool lies_right(size_t size, unsigned align)
{
    meminfo *mi = NRT_MemInfo_alloc_aligned(size, align);
    if (!mi)
        return false;
    size_t place = (size_t)mi->data, begin = (size_t)mi;
    bool right = place >= begin + sizeof *mi && place - begin <= sizeof *mi + 2 * align + 16 &&
                 place % (align ? align : 8) == 0 && mi->size == size;
    NRT_decref(mi);
    return right;
}

/* One bit for each rule that holds. */
extern "C" __device__ int probe_rules(int *result)
{
    int right = 0;
    unsigned seven = 7;

    right |= !NRT_MemInfo_alloc_aligned(~(size_t)0 - 30, 16) << 0;
    right |= !NRT_MemInfo_alloc_aligned(~(size_t)0 - 70, 64) << 1;
    right |= lies_right(1000, 0) << 2;
    right |= (lies_right(1, 1) && lies_right(100, 24) && lies_right(5000, 4096)) << 3;

    meminfo *mi = NRT_MemInfo_new(nullptr, 0, see, &seven);
    NRT_decref(mi);
    right |= (seen_by_destructor == 7) << 4;

    mi = NRT_MemInfo_new_varsize_dtor(4, end_elements);
    *(unsigned *)mi->data = 8;
    NRT_decref(mi);
    right |= (seen_by_destructor == 8) << 5;

    void *nothing = NRT_Allocate(0); /* one block; the two failures above are none */
    right |= (nothing != nullptr) << 6;
    NRT_Free(nothing);
    NRT_Free(nullptr);
    *result = right;
    return 0;
}
"""

RULES = (
    "a size that wraps with its header is refused",
    "a size that wraps with its alignment is refused",
    "alignment 0 is any",
    "data is aligned, to 1, 24 and 4096",
    "a destructor gets its argument",
    "the elements of a varsize block are looked after",
    "a block of no bytes is one",
)


# --- in a process of its own -------------------------------------------------------------


def put_in_place(whose, harmless=False):
    """Choose the runtime; harmless: without the free() in its NRT_Free()."""
    import tarn.nrt
    from tarn.nrt import _device

    if whose == "tarn":
        tarn.nrt.use_device_runtime()
        assert tarn.nrt.device_runtime_in_use()
    if harmless:
        from numba.cuda.memory_management.nrt import NRT_LIBRARY

        source, places = re.subn(r"\bfree\((\w+)\);", r"(void)\1;", NRT_LIBRARY.data)
        assert places == 1, places
        _device.put_in_place(source, "harmless.cu")


def probe_kernel():
    from numba import cuda, types

    make = cuda.declare_device("probe_make", types.int32(types.int32, types.int32))
    release = cuda.declare_device("probe_release", types.int32(types.int32))
    ended = cuda.declare_device("probe_ended", types.int32(types.int32))

    # One kernel, because each has device variables of its own.
    @cuda.jit("void(int32, int32[:])", link=[cuda.CUSource(PROBE, nrt=True)])
    def work(step, out):
        place = cuda.grid(1)
        if step == 0 and place < MEMINFOS:
            out[place] = make(place, BLOCKS * THREADS)
        elif step == 1:
            for which in range(MEMINFOS):
                release(which)
        elif step == 2 and place < MEMINFOS:
            out[place] = ended(place)

    return work[BLOCKS, THREADS]


def ends(work):
    """Return how often each MemInfo of a round ended, and the milliseconds of the releases."""
    import numpy as np
    from numba import cuda

    out = cuda.device_array(MEMINFOS, np.int32)
    begin, end = cuda.event(), cuda.event()
    work(0, out)
    assert out.copy_to_host().all(), "no device memory for MemInfos"
    begin.record()
    work(1, out)
    end.record()
    work(2, out)
    return out.copy_to_host(), begin.elapsed_time(end)


def releases(whose, harmless):
    """Check that every MemInfo of every round ended once."""
    import numpy as np

    put_in_place(whose, harmless)
    began = time.monotonic()
    work = probe_kernel()
    took = time.monotonic() - began
    rounds = [ends(work) for _ in range(ROUNDS)]
    seen = np.concatenate([counts for counts, _ in rounds])
    print(
        f"of {seen.size} MemInfos {int((seen == 1).sum())} ended once, {int((seen == 0).sum())} "
        f"never, {int((seen > 1).sum())} more often; {int(seen.sum())} ends in all, at most "
        f"{seen.max()} of one"
    )
    print(
        f"   {MEMINFOS * BLOCKS * THREADS} releases in {np.median([ms for _, ms in rounds]):.2f} ms "
        f"(median; others use the GPU too), the kernel compiled in {took:.2f} s"
    )
    return bool((seen == 1).all())


def counted(whose):
    return releases(whose, harmless=True)


def freed(whose):
    return releases(whose, harmless=False)


def rules(whose):
    """Check all rules, and that the statistics are those of the seven created blocks."""
    import numpy as np
    from numba import cuda, types
    from numba.cuda.memory_management import rtsys

    put_in_place(whose)
    ask = cuda.declare_device("probe_rules", types.int32())

    @cuda.jit("void(int32[:])", link=[cuda.CUSource(PROBE, nrt=True)])
    def work(out):
        out[0] = ask()

    out = cuda.device_array(1, np.int32)
    rtsys.initialize()
    work[1, 1](out)
    held = int(out.copy_to_host()[0])
    stats = tuple(int(count) for count in rtsys.get_allocation_stats())
    kept = [bool(held >> bit & 1) for bit in range(len(RULES))]
    for rule, right in zip(RULES, kept):
        print(f"{'yes' if right else 'NO '} {rule}")
    wanted = (8, 8, 6, 6)  # 4 aligned, 1 without a block, 2 of varsize, 1 raw of no bytes
    print(f"{'yes' if stats == wanted else 'NO '} statistics: {stats} counted, {wanted} true")
    return all(kept) and stats == wanted


def suite(whose):
    """Check that none of numba-cuda's own tests fails."""
    import unittest

    put_in_place(whose)
    names = ["numba.cuda.tests.nrt", "numba.cuda.tests.cudapy.test_array_methods"]
    loader, found = unittest.TestLoader(), unittest.TestSuite()
    for name in names:
        found.addTests(loader.loadTestsFromName(name))
    result = unittest.TextTestRunner(stream=sys.stdout).run(found)
    return result.wasSuccessful() and result.testsRun > 0


# --- all checks ---------------------------------------------------------------------------


def environment(whose, folder):
    """Run with NRT on; programs that numba-cuda's tests start get Tarn's runtime as well."""
    env = {
        **os.environ,
        "NUMBA_CUDA_ENABLE_NRT": "1",
        "PYTHONUNBUFFERED": "1",
        "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
    }
    if whose == "tarn":
        (folder / "sitecustomize.py").write_text("import tarn.nrt; tarn.nrt.use_device_runtime()\n")
        env["PYTHONPATH"] = str(folder)
    return env


def ask(whose, question, folder):
    """Run a check in its own process; return its result and its output."""
    env = environment(whose, folder) if question == "suite" else environment("", folder)
    if question == "rules":
        env["NUMBA_CUDA_NRT_STATS"] = "1"
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, __file__, whose, question],
            env=env,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as late:
        return False, f"not done after {LIMIT_S} s\n{(late.output or b'').decode(errors='replace')}"
    lines = done.stdout.rstrip().splitlines()[-LINES:]
    if done.returncode and question != "suite" and not done.stdout.startswith(("of ", "yes", "NO")):
        lines = [f"it DIED, exit {done.returncode}: {lines[-1] if lines else ''}", *lines]
    words = "\n".join(lines)
    return done.returncode == 0, f"({time.monotonic() - began:.0f} s) {words}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(len(RUNTIMES) * len(QUESTIONS)) as pool:
            asked = {
                (question, whose): pool.submit(ask, whose, question, pathlib.Path(folder))
                for question in QUESTIONS
                for whose in RUNTIMES
            }
    bad = 0
    for (question, whose), answer in asked.items():
        right, words = answer.result()
        print(f"== {question}, {whose}: {'right' if right else 'WRONG'} {words}", flush=True)
        bad += whose == "tarn" and not right
    print(
        f"tarn's device runtime: {bad} of {len(QUESTIONS)} wrong"
        if bad
        else "tarn's device runtime: right"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) == 3:
        sys.exit(0 if globals()[sys.argv[2]](sys.argv[1]) else 1)
    sys.exit(main())
