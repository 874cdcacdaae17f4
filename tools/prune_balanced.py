#!/usr/bin/env python3
"""prune_balanced.py -- random functions that account for references by name, as LLVM IR text.

    prune_balanced.py [--seed N] [--first N] [--count N]    one module, to stdout

The interpreter judges calls and carried references only in functions that satisfy assumption 6
of docs/prune.md. Most functions of prune_random.py do not. These do by construction: for each
value a number is drawn at each place where paths meet. It says how many references the function
has under that name there. The refops of a block lead from one number to the next.

The graphs are those of prune_random.py. Beside its values there are calls that return a
reference to an object that others hold as well, and loads and stores that move a reference out
of an object and into one (`!moves`).
"""

from __future__ import annotations

import argparse
import random
import sys

import prune_random
from prune_random import Block

HEAD = "declare ptr @get() readonly\n"
TAIL = "!1 = !{}\n"

Place = tuple[int, bool]  # a block, and whether its end is meant


class Balanced(prune_random.Function):
    """One random function that satisfies assumption 6."""

    def define_values(self) -> None:
        rng = self.rng
        self.arms: dict[str, dict[int, str]] = {}  # of phis
        self.home = dict.fromkeys(self.parameters, 0)  # the block of a definition
        self.owned: set[str] = set()  # values that begin with a reference
        often = rng.choice((0.1, 0.2, 0.35))
        for block in self.blocks:
            while block.dominators and rng.random() < often:
                self.define_one(block, rng)
        for name, arms in self.arms.items():
            for source in self.incoming[self.home[name]]:
                arms[source] = self.merged(source)
            text = ", ".join(
                f"[ {arms[source]}, %b{source} ]" for source in self.incoming[self.home[name]]
            )
            self.blocks[self.home[name]].phis.append(f"{name} = phi ptr {text}")

    def merged(self, source: int) -> str:
        """A value for a phi: often one of the block that the edge comes from."""
        block = self.blocks[source]
        values = self.available(block) if block.dominators else ["null"]
        if self.rng.random() < 0.15:
            return "null"
        near = block.defined if self.rng.random() < 0.6 else []
        others = [value for value in values if value not in self.parameters]
        return self.rng.choice(near or others or values)

    def define_one(self, block: Block, rng: random.Random) -> None:
        name = self.fresh()
        values = self.available(block)
        kinds = (
            "pick",
            "pick",
            "load",
            "load",
            "make",
            "get",
            "take",
            "phi",
            "phi",
            "phi",
            "select",
        )
        kind = rng.choice(kinds)
        other = rng.choice(values)
        lines = {
            "pick": f"call ptr @pick(i32 {rng.randrange(4)})",
            "load": f"load ptr, ptr {other}",
            "make": "call ptr @make()",
            "get": "call ptr @get()",
            "take": f"load ptr, ptr {other}, !moves !1",
            "select": f"select i1 %c0, ptr {other}, ptr {rng.choice(values)}",
        }
        if kind == "phi" and not self.incoming[block.index]:
            return
        if kind == "phi":
            self.arms[name] = {}
        else:
            block.body.append(f"{name} = {lines[kind]}")
        if kind in ("make", "get", "take"):
            self.owned.add(name)
        self.home[name] = block.index
        block.defined.append(name)

    # --- how many references there are of each value, and where -------------------------

    def place_refops(self) -> None:
        rng = self.rng
        self.raising = set()
        if rng.random() < 0.7:
            for block in self.blocks:
                if rng.random() < (0.6 if not block.successors else 0.03):
                    self.raising.add(block.index)
        self.giving = rng.choice((0.0, 0.15, 0.5)) if self.keeping else 0.0
        self.sloppy = rng.choice((0.0, 0.0, 0.05))  # references that are never released
        self.number: dict[tuple[str, Place], int] = {}  # by value, and root of a class
        self.roots: dict[tuple[str, Place], Place] = {}
        for name in self.home:
            self.join(name)
        self.follow_phis()
        for name in self.home:
            busy = rng.random() < (0.3 if name in self.parameters else 0.7)
            for block in self.blocks:
                if self.has(name, block.index):
                    self.walk(block, name, busy)
        for block in self.blocks:
            if block.index in self.raising:
                self.mark(block)
            if not block.dominators and rng.random() < 0.5:
                self.refop(block, rng.choice(("incref", "decref")), rng.choice(self.parameters))

    def mark(self, block: Block) -> None:
        if block.kind == "ret" and self.rng.random() < 0.4:
            self.failing.add(block.index)
            block.body.append("store ptr @error, ptr %excinfo")
        else:
            block.body.append("store ptr @error, ptr %excinfo, !numba_exception_output !0")

    def has(self, name: str, index: int) -> bool:
        """Is the value defined wherever this block begins or ends?"""
        return bool(self.blocks[index].dominators >> self.home[name] & 1)

    def goes_on(self, name: str, target: int) -> bool:
        """Is it the same object behind an edge to this block?"""
        return self.has(name, target) and target != self.home[name]

    def root(self, name: str, place: Place) -> Place:
        while (name, place) in self.roots:
            place = self.roots[name, place]
        return place

    def join(self, name: str) -> None:
        """One class for the places that edges connect, and a number for each class. Often a
        phi of an edge takes over a part: then the numbers before and behind it differ."""
        leaves = set()
        takes = {
            (source, self.home[phi])
            for phi, arms in self.arms.items()
            for source, value in arms.items()
            if value == name and self.rng.random() < 0.7
        }
        for block in self.blocks:
            if not self.has(name, block.index):
                continue
            for target in block.successors:
                end = self.root(name, (block.index, True))
                if not self.goes_on(name, target):
                    leaves.add(end)
                    continue
                if (block.index, target) in takes:
                    continue
                start = self.root(name, (target, False))
                if start != end:
                    self.roots[name, end] = start
                    leaves |= {start} if end in leaves else set()
        leaves = {self.root(name, place) for place in leaves}
        busy = self.rng.choice((0.0, 0.5, 0.8))
        for block in self.blocks:
            for place in ((block.index, False), (block.index, True)):
                if not self.has(name, block.index) or self.root(name, place) != place:
                    continue
                if place in leaves and self.rng.random() >= self.sloppy:
                    self.number[name, place] = 0
                elif self.rng.random() < busy:
                    self.number[name, place] = self.rng.choice((1, 1, 1, 2, 3))
        for parameter in self.parameters:
            self.number[parameter, (0, False)] = 0

    def at(self, name: str, index: int, end: bool = False) -> int:
        return self.number.get((name, self.root(name, (index, end))), 0)

    def follow_phis(self) -> None:
        """A phi takes over what the merged values have; where the edge ends such a value, all
        of it."""
        for name, arms in self.arms.items():
            home = self.home[name]
            wanted = self.at(name, home)
            for source, value in arms.items():
                if value == "null" or self.goes_on(value, home):
                    continue
                place = self.root(value, (source, True))
                if self.rng.random() < 0.9:
                    self.number[value, place] = wanted

    def at_end(self, block: Block, name: str) -> int:
        """The most that an edge needs; what a return leaves if there is none."""
        if not block.successors:
            keeps = block.index in self.raising and self.rng.random() < 0.9
            return self.at(name, block.index, end=True) if keeps else 0
        needs = []
        for target in block.successors:
            need = self.at(name, target) if self.goes_on(name, target) else 0
            for phi, arms in self.arms.items():
                if self.home[phi] == target and arms[block.index] == name:
                    need += self.at(phi, target)
            needs.append(need)
        return max(needs)

    def walk(self, block: Block, name: str, busy: bool) -> None:
        """Refops that lead from the number at the start of the block to that at its end."""
        rng = self.rng
        own = self.home[name] == block.index and name not in self.parameters
        first = 0
        if own and name not in self.arms:
            now = int(name in self.owned)
            first = next(i for i, line in enumerate(block.body) if line.startswith(f"{name} ="))
            first += 1
        else:
            now = self.at(name, block.index)
        wanted = self.at_end(block, name)
        if not block.successors and block.index in self.raising and rng.random() < 0.7:
            wanted = now
        steps = []
        extra = rng.choice((0, 0, 0, 0, 1, 2)) if busy else 0
        while now != wanted or extra > 0:
            up = now < wanted
            if now == wanted or (extra > 0 and rng.random() < 0.3):
                up = now == 0 or rng.random() < 0.6
                extra -= 1
            now += 1 if up else -1
            steps.append("incref" if up else "decref")
        self.place(block, name, first, steps)

    def place(self, block: Block, name: str, first: int, steps: list[str]) -> None:
        rng = self.rng
        marks = sorted(rng.randint(first, len(block.body)) for _ in steps)
        for step, mark in reversed(list(zip(steps, marks, strict=True))):
            form = rng.random()
            line = f"call void @NRT_{step}(ptr {name})"
            if step == "decref" and rng.random() < self.giving:
                line = f"store ptr {name}, ptr @kept"
                if form < 0.5:
                    holder = self.holder(block, mark)
                    line = f"store ptr {name}, ptr {holder}, !moves !1"
            elif form < 0.05:
                line = f"tail {line}"
            block.body.insert(mark, line)

    def holder(self, block: Block, mark: int) -> str:
        """A value that is defined before this place of the block."""
        later = [line.split(" =")[0] for line in block.body[mark:] if " = " in line]
        return self.rng.choice([v for v in self.available(block) if v not in later])


def module(seed: int, first: int, count: int, keeping: bool, calling: bool) -> str:
    """The functions @f<first> to @f<first + count - 1> of a seed, as one module."""
    parts = [prune_random.HEAD + HEAD + (prune_random.CALLED if calling else "")]
    for number in range(first, first + count):
        rng = random.Random(seed * 1_000_000_007 + number)
        parts.append(Balanced(rng, f"f{number}", None, keeping, calling).text())
    return "".join(parts) + prune_random.TAIL + TAIL


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--keeping", action="store_true", help="references go to other owners")
    parser.add_argument("--calling", action="store_true", help="calls that may release")
    a = parser.parse_args()
    sys.stdout.write(module(a.seed, a.first, a.count, a.keeping, a.calling))
    return 0


if __name__ == "__main__":
    sys.exit(main())
