#!/usr/bin/env python3
"""Checks that a function asserts the lock that its comment requires to be held.

    locks.py [MODULE...]    prints the functions without the assertion

A comment on the declaration or the definition of a function contains "`lock` held". The body of the
function then has tarn__assert_held(...), or tarn__assert_mutex_held(...), with a lock of this name. A comment with "held, or" or
"held by" states a condition, which no assertion can check.
"""

import re
import sys
from collections.abc import Mapping
from typing import NamedTuple

from calls import TOKEN, called_name, end_of
from project import sources

# The modules in which this holds. A module that begins to use the macro is added here.
ENFORCED: tuple[str, ...] = (
    "adaptor", "base", "driver", "guard", "ipc", "manager", "nrt", "pointer", "pool", "resource", "sim", "trace",
)  # fmt: skip

MACROS = ("tarn__assert_held", "tarn__assert_mutex_held")
HELD = re.compile(r"`(\w+)` held\b(?!,? or\b| by\b)")


class Comment(NamedTuple):
    """The locks that a comment names, and its function."""

    function: str
    locks: frozenset[str]


class Body(NamedTuple):
    function: str
    asserted: frozenset[str]  # the identifiers in the arguments of the assertions


def locks_in(comment: str) -> frozenset[str]:
    """Return the locks that a comment requires to be held."""
    words = re.sub(r"\s+(?:\*\s)?\s*", " ", comment)
    return frozenset(HELD.findall(words))


def asserted(body: list[str]) -> frozenset[str]:
    """Return the identifiers in the arguments of the assertions of a body."""
    words: set[str] = set()
    for index, token in enumerate(body[:-1]):
        if token in MACROS and body[index + 1] == "(":
            for argument in body[index + 1 : end_of(body, index + 1)]:
                words |= {argument, argument.rpartition("_")[2]}
    return frozenset(words)


def read(text: str) -> tuple[list[Comment], list[Body]]:
    """Return the comments about locks of a C file, and the bodies of its functions. A comment
    belongs to the function that begins behind it, or that ends before it in the same line."""
    comments, bodies = [], []
    about: frozenset[str] = frozenset()  # the locks of the comment before the declaration
    last, last_end = "", 0  # the function that was declared last, and where that ended
    head: list[str] = []
    body: list[str] = []
    depth = 0
    for match in TOKEN.finditer(text):
        token = match[0]
        if match.lastgroup == "comment" and depth == 0 and not head:
            if last and "\n" not in text[last_end : match.start()]:
                comments.append(Comment(last, locks_in(token)))
            else:
                about = locks_in(token)
        if match.lastgroup != "token":
            continue
        if depth == 0 and token not in "{;":
            head.append(token)
            continue
        body.append(token)
        depth += (token == "{") - (token == "}")
        if depth:
            continue
        name = called_name(head)
        if token == "}" and name is None:
            continue  # the declaration goes on behind the braces
        last, last_end = name or "", match.end()
        if name:
            comments.append(Comment(name, about))
            if token == "}":
                bodies.append(Body(name, asserted(body)))
        head, body, about = [], [], frozenset()
    return comments, bodies


def missing(files: Mapping[str, str]) -> list[str]:
    """Return the missing assertions of a module's functions, as `file: function asserts no ...`."""
    found = {path: read(text) for path, text in sorted(files.items())}
    declared: dict[str, set[str]] = {}  # by the headers
    for path, (comments, _) in found.items():
        for comment in comments if path.endswith(".h") else ():
            declared.setdefault(comment.function, set()).update(comment.locks)
    lines = []
    for path, (comments, bodies) in found.items():
        for body in bodies:
            here = (comment.locks for comment in comments if comment.function == body.function)
            held = declared.get(body.function, set()).union(*here)
            for lock in sorted(held - body.asserted):
                lines.append(f"{path}: {body.function} asserts no `{lock}`")
    return lines


def uses_macro(files: Mapping[str, str]) -> bool:
    """Return whether a function of this module asserts a lock."""
    return any(any(body.asserted for body in read(text)[1])
               for text in files.values())  # fmt: skip


def main(arguments: list[str]) -> int:
    texts = sources()
    for module in arguments or texts:
        for line in missing(texts[module]):
            print(f"{module}: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
