"""PyTorch's memory and time on Tarn, beside its own allocator: three training programs.

    python bench/torch/compare.py                 all programs under all allocators, in turns
    python bench/torch/compare.py --programs resnet50 --allocators expandable tarn:policy=tight
    python bench/torch/compare.py --one PROGRAM ALLOCATOR

The programs are an MLP, a transformer with changing lengths, and ResNet-50 with changing sizes. The
allocators are PyTorch's default, PyTorch's with expandable_segments:True, and Tarn for the whole
program, with options of the pool after a colon. Each run is a process of its own. The table has the mean time of a step after the warm-up,
and the peaks of reserved and of live memory. The loss of the last step shows that the runs did the
same work. The programs need PyTorch and Tarn alone; a run of 18 processes takes under 240 s.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

GIB = 1 << 30
PROGRAMS = ("mlp", "transformer", "resnet50")
ALLOCATORS = ("default", "expandable", "tarn")


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


# --- one run --------------------------------------------------------------------------------------


def run_one(program, allocator, steps, warm_up):
    """Train for a number of steps, and return the figures."""
    kind, _, options = allocator.partition(":")
    if kind == "tarn":
        import tarn.torch

        pool = None
        if options:
            given = dict(option.split("=") for option in options.split(","))
            pool = tarn.mr.PoolMemoryResource(device=0, **given)
        tarn.torch.use(pool)
    import torch

    torch.manual_seed(1)
    rng = random.Random(1)
    model, step = globals()[f"make_{program}"](torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    times = []
    for _ in range(steps):
        torch.cuda.synchronize()
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
        "reserved": torch.cuda.max_memory_reserved() / GIB,
        "live": torch.cuda.max_memory_allocated() / GIB,
        "loss": loss.item(),
        "torch": torch.__version__,
    }


# --- all runs -------------------------------------------------------------------------------------


def run_process(program, allocator, arguments):
    """Run one program in a process, and return its figures."""
    settings = dict(os.environ)
    settings.pop("PYTORCH_ALLOC_CONF", None)
    settings.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    if allocator == "expandable":
        settings["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    command = [sys.executable, os.path.abspath(__file__), "--one", program, allocator]
    command += ["--steps", str(arguments.steps), "--warm-up", str(arguments.warm_up)]
    done = subprocess.run(command, env=settings, text=True, capture_output=True, timeout=180)
    if done.returncode != 0:
        print(f"{program} {allocator}: exit {done.returncode}\n{done.stderr[-3000:]}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def print_table(runs, programs, allocators):
    """Print a line for each program and allocator: the median of the rounds."""
    wide = max(11, *map(len, allocators))
    print(
        f"program      {'allocator':{wide}}  ms a step (each round)  reserved GiB     live GiB  loss"
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
                f"{found[-1]['loss']:.4f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=2, metavar=("PROGRAM", "ALLOCATOR"))
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--allocators", nargs="+", default=ALLOCATORS)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=230, help="start no run after this time")
    parser.add_argument("--json", help="write all figures to this file")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(run_one(*arguments.one, arguments.steps, arguments.warm_up)), flush=True)
        return
    began = time.monotonic()
    runs = []
    for _ in range(arguments.rounds):
        for program in arguments.programs:
            for allocator in arguments.allocators:
                if time.monotonic() - began > arguments.seconds:
                    print(f"no time for {program} {allocator}")
                    continue
                found = run_process(program, allocator, arguments)
                if found is not None:
                    runs.append(found)
                    print(json.dumps(found), flush=True)
    print_table(runs, arguments.programs, arguments.allocators)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(runs, file, indent=1)


if __name__ == "__main__":
    main()
