"""The longest sequences that a transformer can train with on a card of a given size.

    python bench/torch/longest_sequence.py [--memory 4GiB] [--allocators NAME...] [--json FILE]
    python bench/torch/longest_sequence.py --one ALLOCATOR TOKENS

The batches have eight lengths, from a quarter of the longest one to the longest one, in a new order
in each eight steps. The allocators are those of compare.py. For each the program searches the longest
length with which 48 steps succeed. Each attempt is a process of its own; the searches of
all allocators run at once.

--memory is the most that an allocator may reserve. PyTorch's allocators have
torch.cuda.set_per_process_memory_fraction() for it, Tarn's pools `maximum_pool_size`. The memory of
the CUDA context and of its modules comes on top, and is the same for all.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import turns

ALLOCATORS = ("default", "expandable", "tarn", "tarn:plan=learn")
SHAPES, STEPS, BATCH, VOCABULARY = 8, 48, 8, 16384
RESOLUTION = 8  # tokens
LONGEST = 120  # seconds of an attempt


def use(allocator, memory):
    """Select the allocator of PyTorch, with at most `memory` bytes; return PyTorch and marks."""
    kind, _, options = allocator.partition(":")
    options = turns.pool_options(options)
    if kind == "tarn":
        import tarn.torch

        pool = tarn.mr.PoolMemoryResource(device=0, maximum_pool_size=memory, **options)
        tarn.torch.use(pool)
    import torch

    if kind != "tarn":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(memory / total)
    return torch, tarn.torch.mark_steps if options.get("plan") == "learn" else None


def train(allocator, tokens, memory):
    """Train with sequences of at most so many tokens; return the figures."""
    torch, mark_steps = use(allocator, memory)
    nn = torch.nn
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.1, batch_first=True)
    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(VOCABULARY, 768),
            "layers": nn.TransformerEncoder(layer, 8, enable_nested_tensor=False),
            "head": nn.Linear(768, VOCABULARY),
        }
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if mark_steps:
        mark_steps(optimizer)
    lengths = [tokens * (SHAPES + 3 * i) // (4 * SHAPES) for i in range(1, SHAPES)] + [tokens]
    rng = random.Random(1)
    for at in range(STEPS):
        if at % SHAPES == 0:
            rng.shuffle(lengths)
        x = torch.randint(0, VOCABULARY, (BATCH, lengths[at % SHAPES]), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model["head"](model["layers"](model["embedding"](x)))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), x.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return {
        "tokens": tokens,
        "reserved": torch.cuda.max_memory_reserved(),
        "live": torch.cuda.max_memory_allocated(),
        "loss": loss.item(),
    }


def attempt(allocator, tokens, arguments):
    """Train in a process; return its figures, None if memory was short. Others raise."""
    settings = turns.environment()
    if allocator == "expandable":
        settings["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    command = [sys.executable, os.path.abspath(__file__), "--one", allocator, str(tokens)]
    done = subprocess.run(
        [*command, "--memory", arguments.memory], env=settings, text=True, capture_output=True,
        timeout=LONGEST,
    )  # fmt: skip
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    if "OutOfMemoryError" in done.stderr or "out of memory" in done.stderr:
        return None
    raise RuntimeError(f"{allocator}, {tokens} tokens: {done.stderr[-2000:]}")


def search(allocator, arguments):
    """Return the figures of the longest sequences that an allocator can serve."""
    low, high, best, attempts = arguments.least // RESOLUTION, arguments.most // RESOLUTION, None, 0
    while low < high - 1:
        middle = (low + high) // 2
        found = attempt(allocator, middle * RESOLUTION, arguments)
        attempts += 1
        low, high, best = (middle, high, found) if found else (low, middle, best)
    return {
        "allocator": allocator,
        "attempts": attempts,
        "fails": high * RESOLUTION,
        **(best or {}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=2, metavar=("ALLOCATOR", "TOKENS"))
    parser.add_argument("--memory", default="4GiB")
    parser.add_argument("--allocators", nargs="+", default=list(ALLOCATORS))
    parser.add_argument("--least", type=int, default=256, help="tokens that surely fit")
    parser.add_argument("--most", type=int, default=1280, help="tokens that surely do not")
    parser.add_argument("--json", help="write all figures to this file")
    arguments = parser.parse_args()
    if arguments.one:
        allocator, tokens = arguments.one
        memory = int(float(arguments.memory.removesuffix("GiB")) * (1 << 30))
        print(json.dumps(train(allocator, int(tokens), memory)), flush=True)
        return
    with concurrent.futures.ThreadPoolExecutor(len(arguments.allocators)) as threads:
        found = list(threads.map(lambda each: search(each, arguments), arguments.allocators))
    print(f"{arguments.memory}: {'allocator':16} longest   fails   live GiB  reserved GiB  ratio")
    for each in found:
        if "tokens" not in each:
            print(f"      {each['allocator']:16} none from {arguments.least} tokens on")
            continue
        live, reserved = each["live"] / (1 << 30), each["reserved"] / (1 << 30)
        print(
            f"      {each['allocator']:16} {each['tokens']:7} {each['fails']:7} {live:10.3f} "
            f"{reserved:13.3f}  {reserved / live:.4f}"
        )
    turns.save(found, arguments.json)


if __name__ == "__main__":
    main()
