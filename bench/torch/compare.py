"""PyTorch's memory and time on Tarn, beside its own allocator: three training programs.

    python bench/torch/compare.py                 all programs under all allocators, in turns
    python bench/torch/compare.py --programs resnet50 --allocators expandable tarn:policy=tight
    python bench/torch/compare.py --few-shapes 8 --allocators expandable tarn tarn:plan=learn
    python bench/torch/compare.py --in-turns --few-shapes 8 --warm-up 48 --steps 240
    python bench/torch/compare.py --one PROGRAM ALLOCATOR

The programs are an MLP, a transformer with changing lengths, and ResNet-50 with changing sizes. The
allocators are PyTorch's default, PyTorch's with expandable_segments:True, and Tarn for the whole
program, with options of the pool after a colon. "control" is expandable segments beside a pool of
Tarn that nobody uses. Each run is a process of its own. The table has the mean time of a step after
the warm-up, and the peaks of reserved and of live memory. The loss of the last step shows that the
runs did the same work. The programs need PyTorch and Tarn alone; a run of 18 processes takes under
240 s.

With --few-shapes N each program has N shapes, which come in a new order in each N steps. Then
`tarn:plan=learn` can learn them: the optimizer marks its steps. The table has the peaks of the steps
after the warm-up, and beside them the peak of reserved memory over all steps.

With --in-turns all allocators of a program run at once, in turns of a few steps, on the same four
cores. The table has the medians of the time of a step, and of that until its work is queued, with
ratios to the first allocator. A wait for the device is busy, so that CPU time tells nothing.
Processes of one allocator differ by some percent. So name each allocator several times, and not in
a row: the last table has the mean ratio of its processes, with the standard error. The ratio of
"control" tells what such a ratio is worth.
--call-times build/release/bench/libbench_call_times.so measures all allocations and frees, those of
PyTorch's own allocator, too, each with 25 ns for the clock: milliseconds a step, nanoseconds a call.

On the driver simulator a run has the allocations of PyTorch, and shows memory, not time. It needs
PYTHONPATH=tools/without_kernels, and the library of python/tests/torch_cudart.c in LD_PRELOAD:
`./check torch` makes that, build/release/libtarn-cudart.so.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import turns

GIB = 1 << 30
PROGRAMS = ("mlp", "transformer", "resnet50")
ALLOCATORS = ("default", "expandable", "tarn")
LONGEST = 180  # seconds of a run
CORES = 4  # of steps in turns


# --- the programs ---------------------------------------------------------------------------------


def make_mlp(torch):
    """Eight layers of 4,096; batches of 512 to 1,535 rows."""
    nn = torch.nn
    layers = [layer for _ in range(8) for layer in (nn.Linear(4096, 4096), nn.GELU())]
    model = nn.Sequential(*layers, nn.Linear(4096, 1)).cuda()

    def step(rng):
        x = torch.randn(rng.randint(512, 1535), 4096, device="cuda")
        return model(x).float().square().mean()

    return model, step


def make_transformer(torch):
    """Twelve layers of width 1,024; sequences of 128 to 1,024 tokens, 8 at once."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.1, batch_first=True)
    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(16384, 1024),
            "layers": nn.TransformerEncoder(layer, 12, enable_nested_tensor=False),
            "head": nn.Linear(1024, 16384),
        }
    ).cuda()

    def step(rng):
        tokens = torch.randint(0, 16384, (8, rng.randrange(128, 1025, 8)), device="cuda")
        logits = model["head"](model["layers"](model["embedding"](tokens)))
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())

    return model, step


def make_resnet50(torch):
    """ResNet-50; 64 images of 160 to 288 pixels."""
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, inside, width, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inside, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, 4 * width, 1, bias=False),
                nn.BatchNorm2d(4 * width),
            )
            self.shortcut = nn.Identity()
            if stride != 1 or inside != 4 * width:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inside, 4 * width, 1, stride, bias=False),
                    nn.BatchNorm2d(4 * width),
                )

        def forward(self, x):
            return nn.functional.relu(self.body(x) + self.shortcut(x))

    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    model = model.cuda()

    def step(rng):
        size = rng.randrange(160, 289, 16)
        x = torch.randn(64, 3, size, size, device="cuda")
        wanted = torch.randint(0, 1000, (64,), device="cuda")
        return nn.functional.cross_entropy(model(x).float(), wanted)

    return model, step


class FewShapes:
    """Numbers of which each range has a few, all different, in a new order in each round."""

    def __init__(self, rng, count):
        self.rng, self.count = rng, count
        self.values, self.order = {}, {}

    def randrange(self, *bounds):
        if not self.order.get(bounds):
            if bounds not in self.values:
                self.values[bounds] = self.rng.sample(range(*bounds), self.count)
            self.order[bounds] = self.rng.sample(self.values[bounds], self.count)
        return self.order[bounds].pop()

    def randint(self, least, most):
        return self.randrange(least, most + 1)


# --- one run --------------------------------------------------------------------------------------


PLAN = ("plan_state", "planned_share", "steps_learned", "plans_made", "plans_worse")
WORK = ("allocations", "driver_calls", "moves", "growths", "device_synchronizations")


def figures_of(pool, names):
    """Return the statistics of a pool with these names; {} without a pool."""
    if pool is None:
        return {}
    found = pool.statistics()
    return {name: getattr(found, name) for name in names}


class CallTimes:
    """The times of PyTorch's allocations and frees, whatever its allocator is; see call_times.c."""

    def __init__(self, path, torch):
        library = ctypes.CDLL(os.path.abspath(path))
        c10 = ctypes.CDLL(str(pathlib.Path(torch.__file__).with_name("lib") / "libc10_cuda.so"))
        name = "_ZN3c104cuda20CUDACachingAllocator9allocatorE"
        allocator = ctypes.c_void_p.in_dll(c10, name)  # CUDACachingAllocator::allocator
        if library.call_times_measure(allocator):
            sys.exit("--call-times: the allocator's table of functions cannot be written")
        two = ctypes.c_ulonglong * 2
        self.ns = two.in_dll(library, "call_times_ns")
        self.counts = two.in_dll(library, "call_times_counts")

    def take(self):
        """Return the ns of an allocation and of a free since the last call, and their number."""
        ns, counts = list(self.ns), list(self.counts)
        self.ns[:] = self.counts[:] = [0, 0]
        return [ns[0] / (counts[0] or 1), ns[1] / (counts[1] or 1), counts[0]]


class Training:
    """A program under an allocator. Each step waits for the device before and behind it."""

    def __init__(self, program, allocator, few_shapes=None, call_times=None, seed=1):
        kind, _, options = allocator.partition(":")
        options = turns.pool_options(options)
        self.pool = None
        if kind in ("tarn", "control"):
            import tarn.torch

            self.pool = tarn.mr.PoolMemoryResource(device=0, **options)
        if kind == "tarn":
            tarn.torch.use(self.pool)
        import torch

        self.torch = torch
        self.call_times = CallTimes(call_times, torch) if call_times else None
        torch.manual_seed(1)
        rng = random.Random(seed)
        self.rng = FewShapes(rng, few_shapes) if few_shapes else rng
        model, self.loss_of = globals()[f"make_{program}"](torch)
        self.work_before = figures_of(self.pool, WORK)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        if options.get("plan") == "learn":
            tarn.torch.mark_steps(self.optimizer)

    def step(self):
        """Take a step; return its milliseconds, and those until all its work was queued."""
        torch = self.torch
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            self.loss = self.loss_of(self.rng)
        self.loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        queued = time.perf_counter()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) * 1e3, (queued - began) * 1e3

    def reset_peaks(self):
        """Let memory() return figures of the steps from here on."""
        self.torch.cuda.reset_peak_memory_stats()
        self.work_before = figures_of(self.pool, WORK)

    def memory(self):
        """Return the peaks in GiB, the pool's figures, and the loss."""
        cuda = self.torch.cuda
        work = figures_of(self.pool, WORK)
        return {
            **{name: count - self.work_before[name] for name, count in work.items()},
            "reserved": cuda.max_memory_reserved() / GIB,
            "live": cuda.max_memory_allocated() / GIB,
            **figures_of(self.pool, PLAN),
            "loss": self.loss.item(),
            "torch": self.torch.__version__,
        }


def run_one(program, allocator, steps, warm_up, few_shapes=None, seed=1):
    """Train for a number of steps, and return the figures."""
    training = Training(program, allocator, few_shapes, seed=seed)
    cuda = training.torch.cuda
    times, all_reserved = [], 0
    for at in range(steps):
        if few_shapes and at == warm_up:
            all_reserved = cuda.max_memory_reserved() / GIB
            training.reset_peaks()
        times.append(training.step()[0])
    memory = training.memory()
    return {
        "program": program,
        "allocator": allocator,
        "ms": statistics.mean(times[warm_up:]),
        "first_ms": sum(times[:warm_up]),
        "median_ms": statistics.median(times[warm_up:]),
        "reserved_in_all": max(all_reserved, memory["reserved"]),
        **memory,
    }


# --- processes ------------------------------------------------------------------------------------


def environment_of(allocator):
    """Return the environment of a run."""
    settings = turns.environment()
    if allocator in ("expandable", "control"):
        settings["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    return settings


def command_of(program, allocator, arguments, *names):
    """Return the arguments of Python for a run, with those options of `names` that are given."""
    command = [os.path.abspath(__file__), "--one", program, allocator]
    return command + turns.options(arguments, *names)


# --- steps in turns -------------------------------------------------------------------------------


def serve_turns(program, allocator, arguments):
    """Take as many steps as each line of the input says, and print their milliseconds.

    These are the times of the steps, and the times until their work was queued; behind them are
    those of calls. The first line is the warm-up. The figures of memory are those behind it, and
    come last.
    """
    training = Training(
        program, allocator, arguments.few_shapes, arguments.call_times, arguments.seed
    )
    for at, line in enumerate(sys.stdin):
        if at == 1:
            training.reset_peaks()
        times = [training.step() for _ in range(int(line))]
        calls = training.call_times.take() if training.call_times else []
        print(json.dumps([sum(column) for column in zip(*times)] + calls), flush=True)
    print(json.dumps(training.memory()), flush=True)


class Peer:
    """A process that takes steps under an allocator on request."""

    def __init__(self, program, allocator, arguments):
        self.allocator, self.taken = allocator, []
        command = command_of(program, allocator, arguments, "few_shapes", "call_times", "seed")
        self.process = subprocess.Popen(
            [sys.executable, *command, "--serve-turns"], env=environment_of(allocator), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.allocator}: the process ended with {self.process.wait()}")
        return json.loads(line)

    def take(self, steps):
        """Return what serve_turns() prints of so many steps."""
        print(steps, file=self.process.stdin, flush=True)
        return self._read()

    def end(self):
        """Return the figures of memory."""
        self.process.stdin.close()
        found = self._read()
        self.process.wait()
        return found


def means_of_first(peers):
    """Return, for each turn, the means of each figure of all processes of the first allocator."""
    taken = [peer.taken for peer in peers if peer.allocator == peers[0].allocator]
    return [[statistics.mean(column) for column in zip(*same)] for same in zip(*taken)]


def run_turns(program, arguments):
    """Train under all allocators at once, one turn of steps after another; print a table.

    Each turn has all shapes once, and its own order of the processes. The ratios are those of turns
    that follow each other, so that other work on the machine meets all allocators alike. They are
    ratios to the mean of all processes of the first allocator.
    """
    length = arguments.few_shapes or 8
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # cores are not alike
    peers = [Peer(program, allocator, arguments) for allocator in arguments.allocators]
    for peer in peers:
        peer.take(arguments.warm_up)
    rng = random.Random(arguments.seed)
    for _ in range(arguments.steps // length):
        for peer in rng.sample(peers, len(peers)):
            peer.taken.append(peer.take(length))
    print(f"{program}: {arguments.steps // length} turns of {length} steps")
    print("allocator             until   ms a step   ratio to the first: median (quartiles)")
    first = means_of_first(peers)
    medians = {}  # of the ratios, by kind and allocator: one of each process
    for peer in peers:
        for at, kind in enumerate(("all", "queued")):
            values = [turn[at] / length for turn in peer.taken]
            ratios = [turn[at] / mean[at] for turn, mean in zip(peer.taken, first)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            medians.setdefault((peer.allocator, kind), []).append(middle)
            print(
                f"{peer.allocator:20}  {kind:6}  {statistics.median(values):9.2f}   "
                f"{middle:.4f} ({low:.4f}, {high:.4f})"
            )
        if len(peer.taken[0]) > 2:
            allocate, free, count = (
                statistics.median(turn[at] for turn in peer.taken) for at in (2, 3, 4)
            )
            print(
                f"{peer.allocator:20}  calls   {(allocate + free) * count / length / 1e6:9.3f}   "
                f"{allocate:.0f} ns an allocation, {free:.0f} ns a free, {count / length:.0f} a step"
            )
    for (allocator, kind), ratios in medians.items():
        if len(ratios) > 1:
            error = statistics.stdev(ratios) / len(ratios) ** 0.5
            print(
                f"{allocator:20}  {kind:6}  {len(ratios)} processes: "
                f"{statistics.mean(ratios):.4f} ± {error:.4f}"
            )
    for peer in peers:
        print(f"{peer.allocator}: {json.dumps(peer.end())}", flush=True)


# --- all runs -------------------------------------------------------------------------------------


def run_process(program, allocator, arguments):
    """Run one program in a process, and return its figures; None if it failed."""
    command = command_of(program, allocator, arguments, "steps", "warm_up", "few_shapes", "seed")
    return turns.run_process(f"{program} {allocator}", command, environment_of(allocator), LONGEST)


def print_table(runs, programs, allocators):
    """Print a line for each program and allocator: the median of the rounds."""
    wide = max(11, *map(len, allocators))
    print(
        f"program      {'allocator':{wide}}  ms a step (each round)  reserved GiB     live GiB  "
        "ratio   in all  loss"
    )
    for program in programs:
        for allocator in allocators:
            found = [
                run for run in runs if (run["program"], run["allocator"]) == (program, allocator)
            ]
            if not found:
                continue
            times = ", ".join(f"{run['ms']:.1f}" for run in found)
            reserved = ", ".join(f"{run['reserved']:.3f}" for run in found)
            live = max(run["live"] for run in found)
            print(
                f"{program:12} {allocator:{wide}}  {times:22}  {reserved:15} {live:9.3f}  "
                f"{max(run['reserved'] for run in found) / live:.4f}  "
                f"{max(run['reserved_in_all'] for run in found):.3f}  {found[-1]['loss']:.4f}"
            )
            if found[-1].get("plans_made"):
                print(" " * 13 + ", ".join(f"{name} {found[-1][name]}" for name in PLAN))


def main():
    parser = turns.parser(
        __doc__.splitlines()[0], PROGRAMS,
        allocators=ALLOCATORS, steps=40, warm_up=10, seconds=230,
    )  # fmt: skip
    parser.add_argument("--few-shapes", type=int, help="shapes of each program; see above")
    parser.add_argument("--seed", type=int, default=1, help="another one has other shapes")
    parser.add_argument("--in-turns", action="store_true", help="compare times; see above")
    parser.add_argument("--call-times", metavar="LIBRARY", help="see above")
    parser.add_argument("--serve-turns", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_turns:
        serve_turns(*arguments.one, arguments)
        return
    if arguments.in_turns:
        for program in arguments.programs:
            run_turns(program, arguments)
        return
    if arguments.one:
        figures = run_one(
            *arguments.one, arguments.steps, arguments.warm_up, arguments.few_shapes, arguments.seed
        )
        print(json.dumps(figures), flush=True)
        return
    runs = turns.run_all(arguments, lambda program: arguments.allocators, run_process)
    print_table(runs, arguments.programs, arguments.allocators)
    turns.save(runs, arguments.json)


if __name__ == "__main__":
    main()
