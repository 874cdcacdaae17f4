"""PyTorch's memory and time on Tarn, beside its own allocator: three training programs.

    python bench/torch/compare.py                 all programs under all allocators, in turns
    python bench/torch/compare.py --programs resnet50 --allocators expandable tarn:policy=tight
    python bench/torch/compare.py --few-shapes 8 --allocators expandable tarn tarn:plan=learn
    python bench/torch/compare.py --one PROGRAM ALLOCATOR

The programs are an MLP, a transformer with changing lengths, and ResNet-50 with changing sizes. The
allocators are PyTorch's default, PyTorch's with expandable_segments:True, and Tarn for the whole
program, with options of the pool after a colon. Each run is a process of its own. The table has the mean time of a step after the warm-up,
and the peaks of reserved and of live memory. The loss of the last step shows that the runs did the
same work. The programs need PyTorch and Tarn alone; a run of 18 processes takes under 240 s.

With --few-shapes N each program has N shapes, which come in a new order in each N steps. Then
`tarn:plan=learn` can learn them: the optimizer marks its steps. The table has the peaks of the steps
after the warm-up, and beside them the peak of reserved memory over all steps.

On the driver simulator a run has the allocations of PyTorch, and shows memory, not time. It needs
PYTHONPATH=tools/without_kernels, and the library of python/tests/torch_cudart.c in LD_PRELOAD:
`./check torch` makes that, build/release/libtarn-cudart.so.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import turns

GIB = 1 << 30
PROGRAMS = ("mlp", "transformer", "resnet50")
ALLOCATORS = ("default", "expandable", "tarn")
LONGEST = 180  # seconds of a run


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


def plan_figures(pool):
    """Return the figures of a pool that learns plans; {} of another."""
    if pool is None:
        return {}
    found = pool.statistics()
    return {name: getattr(found, name) for name in PLAN}


def run_one(program, allocator, steps, warm_up, few_shapes=None):
    """Train for a number of steps, and return the figures."""
    kind, _, options = allocator.partition(":")
    options = turns.pool_options(options)
    pool = None
    if kind == "tarn":
        import tarn.torch

        if options:
            pool = tarn.mr.PoolMemoryResource(device=0, **options)
        tarn.torch.use(pool)
    import torch

    torch.manual_seed(1)
    rng = random.Random(1)
    if few_shapes:
        rng = FewShapes(rng, few_shapes)
    model, step = globals()[f"make_{program}"](torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if options.get("plan") == "learn":
        tarn.torch.mark_steps(optimizer)
    times, all_reserved = [], 0
    for at in range(steps):
        torch.cuda.synchronize()
        if few_shapes and at == warm_up:
            all_reserved = torch.cuda.max_memory_reserved()
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = step(rng)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)
    return {
        "program": program,
        "allocator": allocator,
        "ms": statistics.mean(times[warm_up:]),
        "first_ms": sum(times[:warm_up]),
        "median_ms": statistics.median(times[warm_up:]),
        "reserved": torch.cuda.max_memory_reserved() / GIB,
        "reserved_in_all": max(all_reserved, torch.cuda.max_memory_reserved()) / GIB,
        "live": torch.cuda.max_memory_allocated() / GIB,
        **plan_figures(pool),
        "loss": loss.item(),
        "torch": torch.__version__,
    }


# --- all runs -------------------------------------------------------------------------------------


def run_process(program, allocator, arguments):
    """Run one program in a process, and return its figures; None if it failed."""
    settings = turns.environment()
    if allocator == "expandable":
        settings["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    command = [os.path.abspath(__file__), "--one", program, allocator]
    command += turns.options(arguments, "steps", "warm_up", "few_shapes")
    return turns.run_process(f"{program} {allocator}", command, settings, LONGEST)


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
    arguments = parser.parse_args()
    if arguments.one:
        figures = run_one(*arguments.one, arguments.steps, arguments.warm_up, arguments.few_shapes)
        print(json.dumps(figures), flush=True)
        return
    runs = turns.run_all(arguments, lambda program: arguments.allocators, run_process)
    print_table(runs, arguments.programs, arguments.allocators)
    turns.save(runs, arguments.json)


if __name__ == "__main__":
    main()
