#!/usr/bin/env python3
"""prune_compare.py -- Tarn's pruner beside llvmlite's pass.

    prune_compare.py random [--count N] [--seed N]       mode llvmlite: the same IR, the same numbers
    prune_compare.py old [--count N] [--folder FOLDER]   the old pass: the text that Numba's makes
    prune_compare.py sound --interpreter PROGRAM [...]   the default mode: nothing freed early
    prune_compare.py corpus FOLDER [--repeat N]          both modes on the modules of prune_corpus.py
    prune_compare.py size [--blocks N]                   functions of up to N blocks: time, and who gives up

`random` prunes random functions (prune_random.py) with both and compares text and statistics,
with changing shapes and limits. `sound` has the interpreter (tests/prune/interpret.c) run the
functions before and after; it says how llvmlite's pass fares as well. `corpus` compares and
takes the time in the pass itself, both in this process and by turns, without what it costs to
read a module, as time of the processor; `size` does so on five shapes of large functions. All
need llvmlite and Tarn with libtarn_prune. Exit code 1: a difference.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import llvmlite.binding as ll
import prune_random
import prune_repair
import tarn.prune
from tarn.prune import _library

BATCH = 250  # functions a module


OLD = not hasattr(ll, "newpassmanagers")  # Debian's: LLVM 14, Numba 0.56


class OldStock:
    """llvmlite's pass as it was up to 0.39, in the pass managers of then."""

    def prune(self, module, shapes: int = 15, limit: int = 1000):
        """Prunes in place; what it counted."""
        manager = ll.create_module_pass_manager()
        manager.add_refprune_pass(ll.RefPruneSubpasses(shapes), limit)
        before = ll.passmanagers.dump_refprune_stats()
        manager.run(module)
        return tuple(ll.passmanagers.dump_refprune_stats() - before)


class Stock:
    """llvmlite's pass."""

    def __init__(self):
        ll.initialize_native_target()
        self.machine = ll.Target.from_default_triple().create_target_machine()

    def run(self, manager, module) -> float:
        """Runs a pass manager as Numba does, and takes the time. Each run gets a builder of
        its own: what one run leaves behind in a builder makes the next ones slower."""
        builder = ll.create_pass_builder(self.machine, ll.create_pipeline_tuning_options())
        started = time.thread_time()
        manager.run(module, builder)
        return time.thread_time() - started

    def manager(self, shapes: int = 15, limit: int = 1000):
        manager = ll.create_new_module_pass_manager()
        manager.add_refprune_pass(shapes, limit)
        return manager

    def prune(self, module, shapes: int = 15, limit: int = 1000):
        """Prunes in place; what it counted."""
        before = ll.newpassmanagers.dump_refprune_stats()
        self.run(self.manager(shapes, limit), module)
        return tuple(ll.newpassmanagers.dump_refprune_stats() - before)

    def timed(self, modules) -> float:
        """Milliseconds in llvmlite's pass, without what it takes to run no pass at all.
        Prunes the modules."""
        seconds = 0.0
        for module in modules:
            seconds -= self.run(ll.create_new_module_pass_manager(), module)
            seconds += self.run(self.manager(), module)
        return seconds * 1e3


class InPlace:
    """Tarn's pruner on modules in libtarn_prune's own LLVM, to take the time of it alone."""

    def __init__(self):
        self.library = _library.library()
        for name, result, arguments in (
            ("LLVMContextCreate", ctypes.c_void_p, []),
            ("LLVMContextDispose", None, [ctypes.c_void_p]),
            (
                "LLVMCreateMemoryBufferWithMemoryRangeCopy",
                ctypes.c_void_p,
                [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p],
            ),
            ("LLVMParseBitcodeInContext2", ctypes.c_int, [ctypes.c_void_p] * 3),
            ("LLVMDisposeMemoryBuffer", None, [ctypes.c_void_p]),
            ("LLVMDisposeModule", None, [ctypes.c_void_p]),
        ):
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments

    def prune(self, bitcode: bytes, mode: str):
        library, module = self.library, ctypes.c_void_p()
        context = library.LLVMContextCreate()
        buffer = library.LLVMCreateMemoryBufferWithMemoryRangeCopy(bitcode, len(bitcode), b"m")
        if library.LLVMParseBitcodeInContext2(context, buffer, ctypes.byref(module)) != 0:
            raise RuntimeError("LLVM cannot read a module of the corpus")
        options = _library.make_options(mode, 15, "bitcode", 1000, None)
        report = _library._CReport()
        started = time.thread_time()
        status = library.tarn_prune_module(module, ctypes.byref(options), ctypes.byref(report))
        seconds = time.thread_time() - started
        _library.check(status)
        library.LLVMDisposeModule(module)
        library.LLVMDisposeMemoryBuffer(buffer)
        library.LLVMContextDispose(context)
        return report, seconds


def body(text: str) -> str:
    """IR without its first line, which has the module's name."""
    return text.split("\n", 1)[1] if text.startswith("; ModuleID") else text


def shape_names(shapes: int) -> list[str]:
    return [name for name, bit in _library.SHAPES.items() if shapes & bit]


# --- random functions -------------------------------------------------------------------


class Batch(NamedTuple):
    text: str
    shapes: int
    limit: int
    words: str


def batches(count: int, seed: int, vary: bool = True, keeping: bool = False):
    """Modules that have `count` functions in all. `keeping`: in every second one references
    are handed over to others, in two of four functions call what may release references, and in
    four of eight phis carry references."""
    for first in range(0, count, BATCH):
        rng = random.Random(seed * 7919 + first)
        debug = rng.random() < 0.2
        vary_now = vary and rng.random() < 0.4
        shapes = rng.randint(1, 15) if vary_now else 15
        limit = rng.choice((1, 2, 5, 12, 30, 100)) if vary_now else 1000
        kept = keeping and first // BATCH % 2 == 1
        calling = keeping and first // BATCH % 4 >= 2
        carrying = keeping and first // BATCH % 8 >= 4
        size = min(BATCH, count - first)
        text = prune_random.module(seed, first, size, debug, kept, calling, carrying)
        text = prune_random.typed(text) if OLD else text
        words = f"seed {seed}, f{first}.., debug info {debug}, shapes {shapes}, limit {limit}"
        yield Batch(text, shapes, limit, words)


def first_difference(ours: str, theirs: str) -> str:
    """The first function whose text differs, in both versions."""
    pairs = zip(ours.split("\ndefine "), theirs.split("\ndefine "), strict=False)
    for one, other in pairs:
        if one != other:
            return f"--- tarn\ndefine {one}\n--- llvmlite\ndefine {other}"
    return "(one has more functions)"


def compare_batch(stock: Stock | OldStock, batch: Batch) -> str | None:
    module = ll.parse_assembly(batch.text)
    counted = stock.prune(module, batch.shapes, batch.limit)
    ours = tarn.prune.prune(
        batch.text,
        mode="llvmlite",
        shapes=shape_names(batch.shapes),
        raise_metadata=["ret"] if OLD else None,
        subgraph_limit=batch.limit,
        name="<string>",  # as llvmlite's parser calls it
    )
    if body(ours.ir) != body(str(module)):
        return f"{batch.words}: other IR\n{first_difference(ours.ir, str(module))}"
    if tuple(ours.report[:4]) != counted:
        return f"{batch.words}: counted {ours.report[:4]}, llvmlite {counted}"
    return None


def compare_random(arguments) -> int:
    stock, differences = OldStock() if OLD else Stock(), 0
    for batch in batches(arguments.count, arguments.seed):
        difference = compare_batch(stock, batch)
        if difference is not None:
            differences += 1
            print(difference)
    managers = ll.passmanagers if OLD else ll.newpassmanagers
    removed = sum(managers.dump_refprune_stats())
    print(
        f"random: {arguments.count} functions, {removed} operations removed by llvmlite, "
        f"{differences} modules of {BATCH} differ"
    )
    return differences != 0


def compare_old(arguments) -> int:
    from numba.core.runtime.nrtopt import _remove_redundant_nrt_refct

    texts = [batch.text for batch in batches(arguments.count, arguments.seed)]
    # As LLVM prints them, with comments and numbers that the generator does not write.
    texts += [str(ll.parse_assembly(text)) for text in texts]
    paths = sorted(pathlib.Path(arguments.folder).glob("*.bc")) if arguments.folder else []
    texts += [str(ll.parse_bitcode(path.read_bytes())) for path in paths]
    differences, removed = 0, 0
    for number, text in enumerate(texts):
        ours, count = tarn.prune.old_text(text)
        removed += count
        # Numba leaves a module alone that has no such function.
        theirs = _remove_redundant_nrt_refct(text) if "@NRT_incref(" in text else text
        if ours != theirs:
            differences += 1
            print(f"module {number} differs")
    print(f"old: {len(texts)} modules, {removed} operations removed, {differences} differ")
    return differences != 0


# --- soundness --------------------------------------------------------------------------


def failures(
    program: str, before: pathlib.Path, after: pathlib.Path, runs: int, held: bool = False
):
    """What the interpreter says: its lines, and the last of them as numbers."""
    command = [program, str(before), str(after), str(runs), "0", *(["held"] if held else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{program}: {done.stderr}")
    lines = done.stdout.splitlines()
    return lines[:-1], {k: int(v) for k, v in (w.split("=") for w in lines[-1].split())}


class Judged:
    """Sums over all modules that one set of shapes has pruned."""

    def __init__(self, shapes: list[str], held: bool):
        self.shapes = shapes
        self.held = held  # the caller holds all parameters
        self.removed = 0
        self.sums = dict.fromkeys(("failures", "runs", "kept", "unjudged"), 0)

    def add(self, totals: dict[str, int]) -> None:
        self.sums = {key: count + totals[key] for key, count in self.sums.items()}

    def __str__(self) -> str:
        return (
            f"{self.sums['kept']} balanced, {self.sums['unjudged']} not judged, "
            f"{self.sums['runs']} runs; functions that Tarn broke: {self.sums['failures']} "
            f"({self.removed} operations removed)"
        )


def check_sound(arguments) -> int:
    """`carried` needs balanced functions and held parameters; the other shapes do not. So the
    references that a function lacks are added for it (prune_repair.py)."""
    pairs = shape_names(_library.LLVMLITE_SHAPES)
    kinds = {"pairs": Judged(pairs, False), "all shapes": Judged([*pairs, "carried"], True)}
    stock, theirs, taken = Stock(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        before, after = (pathlib.Path(folder, name) for name in ("before.ll", "after.ll"))
        for batch in batches(arguments.count, arguments.seed, vary=False, keeping=True):
            for kind, judged in kinds.items():
                text = prune_repair.repair(batch.text) if judged.held else batch.text
                ours = tarn.prune.prune(text, shapes=judged.shapes)
                before.write_text(text)
                after.write_text(ours.ir)
                judged.removed += ours.report.removed
                files = arguments.interpreter, before, after, arguments.runs
                lines, totals = failures(*files, judged.held)
                judged.add(totals)
                for line in lines:
                    print(f"{kind}, {batch.words}: {line}")
            if arguments.llvmlite:
                module = ll.parse_assembly(batch.text)
                taken += sum(stock.prune(module))
                before.write_text(batch.text)
                after.write_text(str(module))
                totals = failures(arguments.interpreter, before, after, arguments.runs)[1]
                theirs += totals["failures"]
    for kind, judged in kinds.items():
        print(f"sound, {kind}: {arguments.count} functions, {judged}")
    if arguments.llvmlite:
        print(f"llvmlite: {theirs} broken ({taken} operations removed)")
    return any(judged.sums["failures"] for judged in kinds.values())


# --- Numba's modules --------------------------------------------------------------------


def compare_module(stock: Stock, bitcode: bytes, name: str) -> str | None:
    # A context of its own for each, or the second one's named types would get other names.
    module = ll.parse_bitcode(bitcode, context=ll.create_context())
    counted = stock.prune(module)
    ours = tarn.prune.prune(bitcode, mode="llvmlite")
    text = str(ll.parse_bitcode(ours.ir, context=ll.create_context()))
    if body(text) != body(str(module)):
        return f"{name}: other IR\n{first_difference(text, str(module))}"
    if tuple(ours.report[:4]) != counted:
        return f"{name}: counted {ours.report[:4]}, llvmlite {counted}"
    return None


def time_corpus(stock: Stock, paths: list[pathlib.Path], repeat: int) -> None:
    """The best of some rounds, in each of which all take their turn."""
    in_place = InPlace()
    best: dict[str, float] = {}
    for _ in range(repeat):
        modules = (ll.parse_bitcode(path.read_bytes()) for path in paths)
        times = {"llvmlite's pass": stock.timed(modules)}
        for mode in _library.MODES:
            times[mode] = sum(in_place.prune(path.read_bytes(), mode)[1] for path in paths) * 1e3
        best = {name: min(took, best.get(name, took)) for name, took in times.items()}
    for name, took in best.items():
        share = took / (best["llvmlite's pass"] or 1.0)
        print(f"{name:16} {took:9.1f} ms in the pass, {share:.3f} of llvmlite's")


def compare_corpus(arguments) -> int:
    stock, in_place, differences = Stock(), InPlace(), 0
    paths = sorted(pathlib.Path(arguments.folder).glob("*.bc"))
    counts = {mode: [0] * len(tarn.prune.Report._fields) for mode in _library.MODES}
    for path in paths:
        bitcode = path.read_bytes()
        difference = compare_module(stock, bitcode, path.name)
        if difference is not None:
            differences += 1
            print(difference)
        for mode in _library.MODES:
            report, _ = in_place.prune(bitcode, mode)
            values = [getattr(report, field) for field in tarn.prune.Report._fields]
            counts[mode] = [a + b for a, b in zip(counts[mode], values, strict=True)]
    print(f"corpus: {len(paths)} modules, {differences} differ")
    for mode, values in counts.items():
        named = list(zip(tarn.prune.Report._fields, values, strict=True))[:10]
        print(f"{mode:16}", ", ".join(itertools.starmap("{} {}".format, named)))
    time_corpus(stock, paths, arguments.repeat)
    return differences != 0


# --- large functions --------------------------------------------------------------------


class Large:
    """IR of large functions: blocks 0 to n - 1, each a line of refops and where it goes."""

    @staticmethod
    def _text(blocks: list[tuple[list[str], list[int]]], pointers: int) -> str:
        lines = ["declare void @NRT_incref(ptr)", "declare void @NRT_decref(ptr)"]
        lines.append("declare ptr @make()")
        lines.append("define i32 @large(ptr %excinfo, i1 %c) {\nentry:")
        lines += [f"  %p{i} = call ptr @make()" for i in range(pointers)]
        lines.append("  br label %b0")
        for index, (refops, targets) in enumerate(blocks):
            lines.append(f"b{index}:")
            for refop in refops:
                which, value = refop.split()
                lines.append(f"  call void @NRT_{which}(ptr %p{value})")
            labels = [f"label %b{target}" for target in targets]
            if len(targets) == 2:
                lines.append(f"  br i1 %c, {labels[0]}, {labels[1]}")
            else:
                lines.append(f"  br {labels[0]}" if targets else "  ret i32 0")
        return "\n".join([*lines, "}\n"])

    @classmethod
    def pairs(cls, n: int) -> str:
        """One branch after another, each between an incref and its decref."""
        blocks = []
        for i in range(0, n - 3, 3):
            blocks += [(["incref 0"], [i + 1, i + 2]), ([], [i + 2]), (["decref 0"], [i + 3])]
        return cls._text([*blocks, ([], [])], 1)

    @classmethod
    def across(cls, n: int) -> str:
        """One pair around all branches: ways double at each."""
        blocks = [(["incref 0"], [1])]
        for i in range(1, n - 3, 2):
            blocks += [([], [i + 1, i + 2]), ([], [i + 2])]
        return cls._text([*blocks, (["decref 0"], [])], 1)

    @classmethod
    def fan(cls, n: int) -> str:
        """The same with two ends: no diamond, but a fan-out."""
        blocks = [(["incref 0"], [1])]
        for i in range(1, n - 5, 2):
            blocks += [([], [i + 1, i + 2]), ([], [i + 2])]
        last = len(blocks)
        blocks += [([], [last + 1, last + 2]), (["decref 0"], []), (["decref 0"], [])]
        return cls._text(blocks, 1)

    @classmethod
    def many(cls, n: int) -> str:
        """An incref in each block of a chain, of 100 values; all decrefs in the last one."""
        blocks = [([f"incref {i % 100}"], [i + 1]) for i in range(n - 1)]
        return cls._text([*blocks, ([f"decref {i % 100}" for i in range(n - 1)], [])], 100)

    @classmethod
    def loops(cls, n: int) -> str:
        """One loop after another, each with an incref of its own: only the first may go."""
        blocks = [(["incref 0"], [1])]
        for i in range(1, n - 2, 2):
            blocks += [(["incref 0"], [i + 1]), ([], [i, i + 2])]
        return cls._text([*blocks, (["decref 0"], [])], 1)


def bitcode_of(text: str) -> bytes:
    return ll.parse_assembly(text).as_bitcode()


def compare_sizes(arguments) -> int:
    stock, in_place = Stock(), InPlace()
    sizes = [n for n in (100, 1000, 10_000, 100_000) if n <= arguments.blocks]
    print("shape     blocks   tarn: ms  ns/block  removed  gave up  MiB   llvmlite: ms  removed")
    for shape, n in itertools.product(("pairs", "across", "fan", "many", "loops"), sizes):
        bitcode = bitcode_of(getattr(Large, shape)(n))
        took = min(in_place.prune(bitcode, "sound")[1] for _ in range(3))
        report, _ = in_place.prune(bitcode, "sound")
        removed = report.removed
        row = (
            f"{shape:8} {n:7}  {took * 1e3:9.2f} {took * 1e9 / n:9.0f} {removed:8} "
            f"{report.gave_up:8} {report.peak_bytes / 2**20:4.0f}  "
        )
        if n <= arguments.llvmlite_blocks:
            counted = stock.prune(ll.parse_bitcode(bitcode))
            took = stock.timed([ll.parse_bitcode(bitcode)])
            row += f"{took:13.2f} {sum(counted):8}"
        print(row, flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    verbs = parser.add_subparsers(required=True)
    for name, run in (
        ("random", compare_random),
        ("old", compare_old),
        ("sound", check_sound),
    ):
        verb = verbs.add_parser(name)
        verb.set_defaults(run=run)
        verb.add_argument("--count", type=int, default=2000)
        verb.add_argument("--seed", type=int, default=1)
        if name == "old":
            verb.add_argument("--folder", help="of prune_corpus.py")
    verb.add_argument("--interpreter", required=True)
    verb.add_argument("--runs", type=int, default=24, help="of each function")
    verb.add_argument("--llvmlite", action="store_true", help="its pass as well")
    verb = verbs.add_parser("corpus")
    verb.set_defaults(run=compare_corpus)
    verb.add_argument("folder")
    verb.add_argument("--repeat", type=int, default=1, help="the best time counts")
    verb = verbs.add_parser("size")
    verb.set_defaults(run=compare_sizes)
    verb.add_argument("--blocks", type=int, default=100_000)
    verb.add_argument(
        "--llvmlite-blocks", type=int, default=10_000, help="its pass takes long beyond"
    )
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
