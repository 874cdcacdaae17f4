#!/usr/bin/env python3
"""prune_random.py -- random functions that count references, as LLVM IR text.

    prune_random.py [--seed N] [--count N] [--debug-info] [--typed]    one module, to stdout

The pruner is compared with llvmlite's and run against an interpreter on what comes from here,
so the functions have what compilers rarely write and passes often get wrong: irreducible and
infinite loops, unreachable blocks, switches with one target twice, several names for one
object, refops on null, raise metadata in the middle of a function. The same seed and number
give the same function, whatever else is in the module.

Half of the functions are built from nested statements, as a compiler's are, the others from
random edges. In both, most increfs get decrefs where walks from them end: random ones alone
would hardly ever cancel out.
"""

from __future__ import annotations

import argparse
import random
import re
import sys

HEAD = """\
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)
declare void @use(ptr) readonly
declare ptr @pick(i32) readonly
declare ptr @make() readonly
declare i1 @cond() readonly
@error = external global i8
@kept = external global ptr
"""

# What functions call if they may run code that releases references which they do not see.
CALLED = """\
declare void @callback()
declare void @NRT_Free(ptr)
define internal void @reads(ptr %p) {
  call void @use(ptr %p)
  ret void
}
define linkonce_odr void @reads_twice(ptr %p) {
  call void @reads(ptr %p)
  call void @NRT_Free(ptr null)
  ret void
}
define weak void @may_be_replaced(ptr %p) {
  call void @reads(ptr %p)
  ret void
}
define void @reads_even(ptr %p) {
  %k = call i1 @cond()
  br i1 %k, label %more, label %end
more:
  call void @reads_odd(ptr %p)
  br label %end
end:
  ret void
}
define void @reads_odd(ptr %p) {
  call void @use(ptr %p)
  call void @reads_even(ptr %p)
  ret void
}
define void @drops(ptr %p) {
  %q = load ptr, ptr %p
  call void @NRT_decref(ptr %q)
  ret void
}
define void @replaces(ptr %p) {
  %q = load ptr, ptr %p
  %new = call ptr @make()
  call void @NRT_incref(ptr %new)
  store ptr %new, ptr @kept
  call void @NRT_decref(ptr %new)
  call void @NRT_decref(ptr %q)
  ret void
}
define void @drops_even(ptr %p) {
  %k = call i1 @cond()
  br i1 %k, label %more, label %end
more:
  call void @drops_odd(ptr %p)
  br label %end
end:
  ret void
}
define void @drops_odd(ptr %p) {
  %k = call i1 @cond()
  br i1 %k, label %drop, label %end
drop:
  call void @drops(ptr %p)
  br label %end
end:
  call void @drops_even(ptr %p)
  ret void
}
"""

HARMLESS_CALLS = ("reads", "reads_twice", "reads_even", "reads_odd")
RELEASING_CALLS = ("drops", "replaces", "drops_even", "drops_odd", "may_be_replaced")

TAIL = """\
attributes #0 = { noinline optnone }
attributes #1 = { noinline }
!0 = !{i1 true}
"""

DEBUG_TAIL = """\
!llvm.dbg.cu = !{!1}
!llvm.module.flags = !{!2}
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !3, emissionKind: FullDebug)
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DIFile(filename: "random.py", directory: "/")
!4 = !DISubroutineType(types: !5)
!5 = !{null}
!6 = !DIBasicType(name: "p", size: 64, encoding: DW_ATE_address)
"""


class Block:
    """One block: the instructions in `body` come after the phis in `phis`."""

    __slots__ = ("body", "defined", "dominators", "index", "kind", "phis", "successors")

    def __init__(self, index: int):
        self.index = index
        self.successors: list[int] = []
        self.kind = "ret"  # of the terminator: ret, br, cond, switch, unreachable
        self.defined: list[str] = []  # values of this block, which it dominates
        self.phis: list[str] = []
        self.body: list[str] = []
        self.dominators = 0  # a set of block numbers; 0: it cannot be reached


def tangled_graph(rng: random.Random) -> list[Block]:
    """Random edges, most of them a short way forward; no edge enters the entry."""
    count = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 18, 24))
    blocks = [Block(i) for i in range(count)]
    if count == 1:
        return blocks
    jumpiness = rng.choice((0.0, 0.1, 0.3, 1.0))
    for block in blocks:
        last = block.index == count - 1
        block.kind = rng.choices(
            ("ret", "br", "cond", "switch", "unreachable"),
            (60 if last else 8, 30, 40, 6, 2),
        )[0]
        arms = {"br": 1, "cond": 2, "switch": rng.randint(1, 4)}.get(block.kind, 0)
        for _ in range(arms):
            if last or rng.random() < jumpiness:
                target = rng.randrange(1, count)
            else:
                target = min(count - 1, block.index + rng.randint(1, 4))
            block.successors.append(target)
    return blocks


class Nested:
    """A graph of nested statements, as a compiler makes it."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.blocks = [Block(0)]
        self.budget = rng.choice((1, 2, 3, 4, 6, 8, 12))
        end = self.sequence(0, 0)
        self.blocks[end].kind = "ret"

    def new(self) -> int:
        self.blocks.append(Block(len(self.blocks)))
        return self.blocks[-1].index

    def edge(self, source: int, *targets: int) -> None:
        block = self.blocks[source]
        block.successors = list(targets)
        block.kind = {1: "br", 2: "cond"}.get(len(targets), "switch")

    def sequence(self, block: int, depth: int) -> int:
        """Statements from the end of `block` on; where they end."""
        for _ in range(self.rng.randint(1, 3)):
            if self.budget > 0 and depth < 4:
                self.budget -= 1
                block = self.statement(block, depth)
        return block

    def statement(self, block: int, depth: int) -> int:
        kind = self.rng.choice(
            ("branch", "branch", "exit", "exit", "while", "repeat", "switch", "forever", "plain")
        )
        return getattr(self, kind)(block, depth)

    def plain(self, block: int, depth: int) -> int:
        after = self.new()
        self.edge(block, after)
        return after

    def branch(self, block: int, depth: int) -> int:
        arms = [self.new() for _ in range(self.rng.randint(1, 2))]
        ends = [self.sequence(arm, depth + 1) for arm in arms]
        after = self.new()
        self.edge(block, *arms, *([after] if len(arms) == 1 else []))
        for end in ends:
            self.edge(end, after)
        return after

    def exit(self, block: int, depth: int) -> int:
        """An early return: what raises looks like this."""
        leave, after = self.new(), self.new()
        self.edge(block, *self.rng.sample((leave, after), 2))
        if self.rng.random() < 0.2:  # it jumps on, as Numba's common.ret, or is caught
            self.edge(leave, self.rng.choice((after, self.new())))
        return after

    def switch(self, block: int, depth: int) -> int:
        arms = [self.new() for _ in range(self.rng.randint(2, 3))]
        after = self.new()
        self.edge(block, *arms, self.rng.choice((after, arms[0])))
        for arm in arms:
            self.edge(self.sequence(arm, depth + 1), after)
        return after

    def while_(self, block: int, depth: int) -> int:
        head, body, after = self.new(), self.new(), self.new()
        self.edge(block, head)
        self.edge(head, body, after)
        self.edge(self.sequence(body, depth + 1), head)
        return after

    def repeat(self, block: int, depth: int) -> int:
        body = self.new()
        self.edge(block, body)
        end = self.sequence(body, depth + 1)
        after = self.new()
        self.edge(end, *self.rng.sample((body, after), 2))
        return after

    def forever(self, block: int, depth: int) -> int:
        body, after = self.new(), self.new()
        self.edge(block, *self.rng.sample((body, after), 2))
        self.edge(self.sequence(body, depth + 1), body)
        return after


setattr(Nested, "while", Nested.while_)


def find_dominators(blocks: list[Block]) -> None:
    """The blocks that every way to a block passes, itself included, as a set of bits."""
    everything = (1 << len(blocks)) - 1
    predecessors: list[list[int]] = [[] for _ in blocks]
    order, seen, stack = [], {0}, [0]
    while stack:
        index = stack.pop()
        order.append(index)
        for target in blocks[index].successors:
            predecessors[target].append(index)
            if target not in seen:
                seen.add(target)
                stack.append(target)
    for index in order:
        blocks[index].dominators = everything
    blocks[0].dominators = 1
    changed = True
    while changed:
        changed = False
        for index in order[1:]:
            common = everything
            for source in predecessors[index]:
                common &= blocks[source].dominators
            common |= 1 << index
            if common != blocks[index].dominators:
                blocks[index].dominators = common
                changed = True


class Function:
    """One random function; `text()` is its IR."""

    def __init__(
        self,
        rng: random.Random,
        name: str,
        scope: str | None,
        keeping: bool = False,
        calling: bool = False,
        carrying: bool = False,
    ):
        self.rng = rng
        self.carrying = carrying
        self.failing: set[int] = set()  # blocks that return a failure
        self.keeping = keeping  # references are transferred to other owners
        self.callfulness = rng.choice((0.1, 0.3)) if calling else 0.0  # calls in a block
        self.name = name
        self.scope = scope  # the DISubprogram, if there is debug info
        self.blocks = Nested(rng).blocks if rng.random() < 0.5 else tangled_graph(rng)
        self.parameters = [f"%p{i}" for i in range(rng.randint(1, 3))]
        self.counter = 0
        self.busyness = rng.choice((0.0, 0.2, 0.5))  # how many uses between the refops
        find_dominators(self.blocks)
        self.incoming: list[list[int]] = [[] for _ in self.blocks]
        for block in self.blocks:
            for target in block.successors:
                self.incoming[target].append(block.index)
        self.define_values()
        self.place_refops()
        if carrying:
            self.fail_somewhere()
            for _ in range(rng.choice((1, 1, 2))):
                self.carry()
        self.place_uses()

    def fresh(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def available(self, block: Block) -> list[str]:
        """The values that may be named in `block`, its own included."""
        values = list(self.parameters)
        for other in self.blocks:
            if other.defined and block.dominators >> other.index & 1:
                values += other.defined
        return values

    def define_values(self) -> None:
        """Names for objects: from calls, loads, selects and phis."""
        rng = self.rng
        if rng.random() < (0.1 if self.callfulness else 0.4):
            return
        for block in self.blocks:
            while block.dominators and rng.random() < 0.15:
                self.define_one(block, rng)

    def define_one(self, block: Block, rng: random.Random) -> None:
        name = self.fresh()
        values = self.available(block)
        kind = rng.choice(("pick", "load", "select", "make", "phi"))
        sources = self.incoming[block.index]
        if kind == "phi" and sources:
            choices = {
                source: rng.choice(self.available(self.blocks[source]) + ["null"])
                for source in sources
            }
            arms = ", ".join(f"[ {choices[source]}, %b{source} ]" for source in sources)
            block.phis.append(f"{name} = phi ptr {arms}")
        elif kind == "select":
            pair = ", ".join(f"ptr {rng.choice(values)}" for _ in range(2))
            block.body.append(f"{name} = select i1 %c0, {pair}")
        elif kind == "load":
            block.body.append(f"{name} = load ptr, ptr {rng.choice(values)}")
        elif kind == "make":
            block.body.append(f"{name} = call ptr @make()")
        else:
            block.body.append(f"{name} = call ptr @pick(i32 {rng.randrange(4)})")
        block.defined.append(name)

    def insert(self, block: Block, text: str, operand: str) -> None:
        """Somewhere in the block, behind the definition of the operand."""
        earliest = 0
        for position, line in enumerate(block.body):
            if line.startswith(operand + " ="):
                earliest = position + 1
        block.body.insert(self.rng.randint(earliest, len(block.body)), text)

    def refop(self, block: Block, which: str, value: str) -> None:
        form = self.rng.random()
        argument = f"ptr {value}"
        call = "call void"
        if form < 0.05:
            call = "tail call void"
        elif form < 0.08 and value != "null":
            argument = f"ptr nonnull {value}"
        elif form < 0.10:
            call, argument = "call void (ptr, ptr)", f"ptr {value}, ptr @error"
        callee = "%NRT_decref" if form > 0.998 and which == "decref" else f"@NRT_{which}"
        where = f", !dbg {self.location()}" if self.scope and form > 0.3 else ""
        self.insert(block, f"{call} {callee}({argument}){where}", value)

    def location(self) -> str:
        return f"!DILocation(line: {self.rng.randint(1, 9)}, scope: {self.scope})"

    def raise_mark(self, block: Block) -> None:
        form = self.rng.random()
        mark = "!numba_exception_output !0"
        pointer = "%excinfo"
        if form < 0.03:
            mark = "!numba_exception !0"
        elif form < 0.06:
            pointer = "%p0"
        block.body.append(f"store ptr @error, ptr {pointer}, {mark}")

    def place_refops(self) -> None:
        rng = self.rng
        reachable = [block for block in self.blocks if block.dominators]
        raising = rng.random() < 0.4
        for _ in range(rng.choice((1, 1, 2, 2, 3, 4, 6))):
            block = rng.choice(reachable if rng.random() < 0.95 else self.blocks)
            value = self.counted(block)
            self.refop(block, "incref", value)
            if rng.random() < 0.2:
                self.refop(block, "decref", value)
            else:
                self.cover(block, value, raising)
        strays = (0, 0, 0, 0, 0, 1) if self.callfulness or self.carrying else (0, 0, 0, 1, 1, 2)
        for _ in range(rng.choice(strays)):
            block = rng.choice(self.blocks)
            value = rng.choice(self.available(block) + ["null"])
            self.refop(block, rng.choice(("incref", "decref", "decref")), value)
        if raising and rng.random() < 0.3:
            self.raise_mark(rng.choice(self.blocks))

    def counted(self, block: Block) -> str:
        """A value to count. The caller holds parameters, so calls seldom matter for them."""
        values = self.available(block)
        others = [value for value in values if value not in self.parameters]
        if self.callfulness and others and self.rng.random() < 0.8:
            return self.rng.choice(others)
        return self.rng.choice(values)

    def cover(self, head: Block, value: str, raising: bool) -> None:
        """Decrefs, or raise metadata, on most ways that lead away from `head`."""
        rng = self.rng
        patience = rng.choice((0.3, 0.6, 0.9))
        seen = set()
        stack = list(head.successors)
        while stack:
            index = stack.pop()
            if index in seen:
                continue
            seen.add(index)
            block = self.blocks[index]
            if value not in self.available(block) or rng.random() < 0.04:
                continue
            if block.successors and rng.random() < patience:
                stack += block.successors
            elif (raising and not block.successors and rng.random() < 0.6) or (
                raising and rng.random() < (0.2 if self.keeping else 0.05)
            ):
                self.raise_mark(block)
                if self.keeping and rng.random() < 0.4:
                    self.keep_at_raise(block, value)
            else:
                self.refop(block, "decref", value)

    def keep_at_raise(self, block: Block, value: str) -> None:
        """The reference of an incref itself goes to an owner, around a raise or behind it."""
        reached = [block, *(self.blocks[index] for index in block.successors)]
        places = [place for place in reached if value in self.available(place)]
        self.insert(self.rng.choice(places), f"store ptr {value}, ptr @kept", value)

    def hand_over(self, rng: random.Random) -> None:
        """References that another owner takes and keeps, each with an incref of its own."""
        for _ in range(rng.choice((1, 1, 2, 3))):
            block = rng.choice([block for block in self.blocks if block.dominators])
            value = rng.choice(self.available(block))
            self.insert(block, f"call void @NRT_incref(ptr {value})", value)
            place = block.body.index(f"call void @NRT_incref(ptr {value})")
            block.body.insert(place + 1, f"store ptr {value}, ptr @kept")

    def fail_somewhere(self) -> None:
        """Blocks that pass on the exception of a callee: they have no raise mark."""
        for block in self.blocks:
            if block.kind == "ret" and self.rng.random() < 0.3:
                self.failing.add(block.index)
                if self.rng.random() < 0.8:
                    block.body.append("store ptr @error, ptr %excinfo")

    def loops(self) -> list[tuple[Block, list[int]]]:
        """The headers of loops, with the sources of their back edges."""
        found = []
        for block in self.blocks:
            back = [
                source
                for source in self.incoming[block.index]
                if self.blocks[source].dominators >> block.index & 1
            ]
            if back and block.dominators:
                found.append((block, back))
        return found

    def carry(self) -> None:
        """A variable of a loop, or of branches that meet, which holds a reference: each
        assignment takes one, and releases that of the value before."""
        rng = self.rng
        loops = self.loops()
        if not loops or rng.random() < 0.2:
            self.meet()
            return
        header, back = rng.choice(loops)
        body = [
            block
            for block in self.blocks
            if block.dominators >> header.index & 1
            and all(self.blocks[source].dominators >> block.index & 1 for source in back)
        ]
        place, after = rng.choice(body), rng.choice(body)
        name, fresh = self.fresh(), self.fresh()
        arms = []
        for source in dict.fromkeys(self.incoming[header.index]):
            block = self.blocks[source]
            start = rng.choice([*self.available(block), "null"])
            if source in back:
                start = fresh
            elif start != "null" and rng.random() < 0.95:
                self.refop(block, "incref", start)
            arms += [f"[ {start}, %b{source} ]"] * self.incoming[header.index].count(source)
        header.phis.append(f"{name} = phi ptr {', '.join(arms)}")
        header.defined.append(name)
        source = rng.choice((name, name, rng.choice(self.available(place))))
        load = f"load ptr, ptr {source}" if rng.random() < 0.8 else "call ptr @make()"
        place.body.append(f"{fresh} = {load}")
        place.defined.append(fresh)
        if rng.random() < 0.97 and "make" not in load:
            self.refop(place, "incref", fresh)
        releases = [b for b in body if b.dominators >> place.index & 1]
        release = after if after in releases or rng.random() < 0.2 else rng.choice(releases)
        if rng.random() < 0.95:
            self.refop(release, "decref", name)
        self.leave(header, body, name, fresh, release)

    def leave(
        self, header: Block, body: list[Block], name: str, fresh: str, release: Block
    ) -> None:
        """A decref on most ways out of the loop, or none where they raise."""
        rng = self.rng
        inside = {header.index} | {block.index for block in body}
        stack, seen = [header.index], {header.index}
        while stack:  # all blocks of the loop: those from which its header is reached again
            block = self.blocks[stack.pop()]
            for target in block.successors:
                if target in seen or not self.blocks[target].dominators >> header.index & 1:
                    continue
                seen.add(target)
                if target in inside or self.reaches(target, header.index):
                    stack.append(target)
                    continue
                after = self.blocks[target]
                released = block.dominators >> release.index & 1
                held = fresh if released and fresh in self.available(after) else name
                if target in self.failing and rng.random() < 0.8:
                    continue
                if held in self.available(after) and rng.random() < 0.95:
                    self.refop(after, "decref", held)

    def reaches(self, source: int, target: int) -> bool:
        stack, seen = [source], {source}
        while stack:
            for index in self.blocks[stack.pop()].successors:
                if index == target:
                    return True
                if index not in seen:
                    seen.add(index)
                    stack.append(index)
        return False

    def meet(self) -> None:
        """A reference from each of several branches, released where they have met."""
        rng = self.rng
        joins = [b for b in self.blocks if b.dominators and len(self.incoming[b.index]) > 1]
        if not joins:
            return
        join = rng.choice(joins)
        name, arms = self.fresh(), []
        for source in self.incoming[join.index]:
            block = self.blocks[source]
            known = [arm for arm in arms if arm.endswith(f"%b{source} ]")]
            value = rng.choice([*self.available(block), "null"])
            if not known and value != "null" and rng.random() < 0.95:
                self.refop(block, "incref", value)
            arms.append(known[0] if known else f"[ {value}, %b{source} ]")
        join.phis.append(f"{name} = phi ptr {', '.join(arms)}")
        join.defined.append(name)
        if rng.random() < 0.3:
            self.refop(join, "decref", name)
        else:
            self.cover(join, name, rng.random() < 0.4)

    def place_uses(self) -> None:
        for block in self.blocks:
            while self.rng.random() < self.busyness:
                value = self.rng.choice(self.available(block))
                self.insert(block, f"call void @use(ptr {value})", value)
            while self.callfulness and self.rng.random() < self.callfulness:
                self.insert_call(block)
            if self.scope and self.rng.random() < 0.5:
                for _ in range(self.rng.randint(1, 2)):
                    self.debug_record(block)

    def insert_call(self, block: Block) -> None:
        """A call of code outside, through a pointer, or of a function of CALLED."""
        value = self.rng.choice(self.available(block))
        form = self.rng.random()
        if form < 0.25:
            call = "call void @callback()"
        elif form < 0.3:
            call = f"call void {value}()"
        else:
            names = HARMLESS_CALLS if form < 0.6 else RELEASING_CALLS
            call = f"call void @{self.rng.choice(names)}(ptr {value})"
        self.insert(block, call, value)

    def debug_record(self, block: Block) -> None:
        value = self.rng.choice(self.available(block))
        variable = f'!DILocalVariable(name: "x", scope: {self.scope}, file: !3, line: 1, type: !6)'
        self.insert(
            block,
            f"#dbg_value(ptr {value}, {variable}, !DIExpression(), {self.location()})",
            value,
        )

    def terminator(self, block: Block) -> str:
        targets = [f"label %b{target}" for target in block.successors]
        if block.kind == "br":
            return f"br {targets[0]}"
        if block.kind == "cond":
            return f"br i1 %c{self.rng.randrange(2)}, {targets[0]}, {targets[1]}"
        if block.kind == "switch":
            cases = " ".join(f"i32 {i}, {target}" for i, target in enumerate(targets[1:]))
            return f"switch i32 %n, {targets[0]} [ {cases} ]"
        result = int(block.index in self.failing)
        return block.kind if block.kind == "unreachable" else f"ret i32 {result}"

    def text(self) -> str:
        rare = self.rng.random()
        attributes = " #0" if rare < 0.01 else " #1" if rare < 0.02 else ""
        if self.scope:
            attributes += f" !dbg {self.scope}"
        parameters = "".join(f", ptr {name}" for name in self.parameters)
        lines = [
            f"define i32 @{self.name}(ptr %excinfo{parameters}, i1 %c0, i1 %c1, i32 %n, "
            f"ptr %NRT_decref){attributes} {{"
        ]
        for block in self.blocks:
            lines.append(f"b{block.index}:")
            lines += [f"  {line}" for line in block.phis]
            lines += [f"  {line}" for line in block.body]
            lines.append(f"  {self.terminator(block)}")
        lines.append("}\n")
        return "\n".join(lines)


def hoist_metadata(text: str, first: int) -> str:
    """Give the metadata that stands inside of functions numbers of its own."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"!{numbers.setdefault(match.group(0), first + len(numbers))}"

    text = re.sub(r"!DILoca(?:tion|lVariable)\([^()]*\)", number, text)
    rows = (f"!{index} = {node}\n" for node, index in numbers.items())
    return text + "".join(rows)


def module(
    seed: int,
    first: int,
    count: int,
    debug_info: bool = False,
    keeping: bool = False,
    calling: bool = False,
    carrying: bool = False,
) -> str:
    """The functions @f<first> to @f<first + count - 1> of a seed, as one module. `keeping`:
    they hand references over to others as well. `calling`: they call what may release
    references that they do not see. `carrying`: phis carry references around loops."""
    parts, tail = [HEAD + CALLED if calling else HEAD], TAIL
    if debug_info:
        tail += DEBUG_TAIL
    for number in range(first, first + count):
        scope = f"!{10 + number - first}" if debug_info else None
        rng = random.Random(seed * 1_000_000_007 + number * 2 + debug_info)
        function = Function(rng, f"f{number}", scope, keeping, calling, carrying)
        if keeping:
            function.hand_over(rng)
        parts.append(function.text())
        if scope:
            tail += (
                f'{scope} = distinct !DISubprogram(name: "f{number}", scope: !3, file: !3, '
                "line: 1, type: !4, unit: !1, spFlags: DISPFlagDefinition)\n"
            )
    text = "".join(parts) + tail
    return hoist_metadata(text, 10 + count) if debug_info else text


def raise_at_ret(block: str) -> str:
    """A block as Numba before 0.57 marked it: at the ret, not at the store."""
    marked = re.search(r"%excinfo, !numba_exception_output", block)
    return re.sub(r"\bret i32 0", "ret i32 0, !ret_is_raise !0", block) if marked else block


def typed(text: str) -> str:
    """A module of module() for LLVM 14, where pointers have types, and for Numba 0.56."""
    blocks = re.split(r"^(?=b\d+:$)", text, flags=re.M)
    text = "".join(map(raise_at_ret, blocks))
    changes = (
        (r"ptr (%excinfo|@kept)", r"i8** \1"),
        (r"ptr %NRT_decref\)", "void (i8*)* %NRT_decref)"),
        (r"load ptr, ptr (\S+)", r"call i8* @load(i8* \1)"),
        (r"store ptr @error, ptr %p", "store i8 0, i8* %p"),
        (r"@(NRT_\w+)(?=\(ptr \S+, ptr @error)", r"bitcast (void (i8*)* @\1 to void (i8*, i8*)*)"),
        (
            r"#dbg_value\((ptr \S+), (!\d+), (!DIExpression\(\)), (!\d+)\)",
            r"call void @llvm.dbg.value(metadata \1, metadata \2, metadata \3), !dbg \4",
        ),
        (r"\bptr\b", "i8*"),
    )
    for old, new in changes:
        text = re.sub(old, new, text)
    declared = (
        "declare i8* @load(i8*)\ndeclare void @llvm.dbg.value(metadata, metadata, metadata)\n"
    )
    return declared + text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--debug-info", action="store_true")
    parser.add_argument("--typed", action="store_true", help="for LLVM 14")
    arguments = parser.parse_args()
    text = module(arguments.seed, arguments.first, arguments.count, arguments.debug_info)
    sys.stdout.write(typed(text) if arguments.typed else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
