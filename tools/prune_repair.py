"""prune_repair.py -- gives random functions the references that they lack.

Most functions of prune_random.py release, or give away, references that they did not take under
that name. The interpreter does not judge those where calls and carried references matter. So
`repair()` adds increfs where a value begins: as many as the rest of the function needs on any
path, less the reference with which it begins (tests/prune/balance.c checks the same). Where a loop
releases more of a value than it takes, the releases of that value are left out.
"""

from __future__ import annotations

import re

MOST = 8  # a loop that releases more than it takes gets there

BLOCK = re.compile(r"^(b\d+):$", re.M)
PHI = re.compile(r"^  (%\w+) = phi ptr (.*)$")
ARM = re.compile(r"\[ (\S+), %(b\d+) \]")
DEFINITION = re.compile(r"^  (%\w+) = ")
INCREF = re.compile(r"[@%]NRT_incref\(ptr (?:nonnull )?(%\w+)")
DECREF = re.compile(r"[@%]NRT_decref\(ptr (?:nonnull )?(%\w+)")
STORE = re.compile(r"^  store ptr (%\w+), ptr (?:@kept|%retptr)\b")
OWNED = re.compile(r"= call ptr @(?:make|get)\(")

Needs = dict[str, int]


class Block:
    """The lines of a block, with its phis, and the labels behind it."""

    def __init__(self, label: str, text: str):
        self.label = label
        self.lines = text.split("\n")
        self.targets = list(dict.fromkeys(re.findall(r"label %(b\d+)", text)))
        self.phis = {m[1]: dict(_turned(m[2])) for m in map(PHI.match, self.lines) if m}
        self.start: Needs = {}


def _turned(arms: str) -> list[tuple[str, str]]:
    return [(source, value) for value, source in ARM.findall(arms)]


def _given(line: str) -> str | None:
    """The value of which this line gives a reference away, or releases it."""
    found = DECREF.search(line) or STORE.match(line)
    return found[1] if found else None


def _before_edge(source: str, target: Block) -> Needs:
    needs = {value: n for value, n in target.start.items() if value not in target.phis}
    for phi, arms in target.phis.items():
        value = arms[source]
        if target.start.get(phi) and value.startswith("%"):
            needs[value] = needs.get(value, 0) + target.start[phi]
    return needs


def _carry_back(block: Block, blocks: dict[str, Block], begins: Needs) -> bool:
    """Go back over a block; true: it needs more at its start than before."""
    now: Needs = {}
    for label in block.targets:
        for value, n in _before_edge(block.label, blocks[label]).items():
            now[value] = max(now.get(value, 0), n)
    for line in reversed(block.lines):
        taken, value, defined = INCREF.search(line), _given(line), DEFINITION.match(line)
        if taken:
            now[taken[1]] = max(now.get(taken[1], 0) - 1, 0)
        elif value:
            now[value] = now.get(value, 0) + 1
        if defined and defined[1] not in block.phis:
            begins[defined[1]] = now.pop(defined[1], 0) - bool(OWNED.search(line))
    now = {value: min(n, MOST) for value, n in now.items() if n}
    changed = now != block.start
    block.start = now
    return changed


def _with_increfs(block: Block, begins: Needs, first: Needs) -> str:
    lines = [_incref(value) for value, n in first.items() for _ in range(n)]
    for line in block.lines:
        lines.append(line)
        defined = DEFINITION.match(line)
        if defined and defined[1] not in block.phis:
            lines += [_incref(defined[1])] * begins[defined[1]]
    return "\n".join(lines)


def _incref(value: str) -> str:
    return f"  call void @NRT_incref(ptr {value})"


def _find_needs(blocks: dict[str, Block]) -> Needs:
    """Set what each block needs at its start; the result is what values lack where they begin."""
    begins: Needs = {}
    for block in blocks.values():
        block.start = {}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks.values()):
            changed |= _carry_back(block, blocks, begins)
    return begins


def _leave_out_endless(blocks: dict[str, Block]) -> bool:
    """Remove the releases of values that a loop needs without end; false: there are none."""
    endless = {value for block in blocks.values() for value, n in block.start.items() if n >= MOST}
    before = sum(len(block.lines) for block in blocks.values())
    for block in blocks.values():
        block.lines = [line for line in block.lines if _given(line) not in endless]
    return sum(len(block.lines) for block in blocks.values()) < before


def _repair_function(text: str) -> str:
    head, *parts = BLOCK.split(text)
    blocks = {label: Block(label, body) for label, body in zip(parts[::2], parts[1::2])}
    begins = _find_needs(blocks)
    while _leave_out_endless(blocks):
        begins = _find_needs(blocks)
    entry = next(iter(blocks.values()))
    body = [
        f"{label}:{_with_increfs(block, begins, entry.start if block is entry else {})}"
        for label, block in blocks.items()
    ]
    return head + "".join(body)


def repair(text: str) -> str:
    """Repair each function of a module whose blocks are named as those of prune_random.py."""
    parts = re.split(r"(?m)^(?=define )", text)
    return "".join(_repair_function(part) if BLOCK.search(part) else part for part in parts)
