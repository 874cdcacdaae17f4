#!/usr/bin/env python3
"""Finds the files of a module that call each other in a cycle.

    calls.py [MODULE...]    prints the cycles and the calls that make them

A node is a stem: x.c and x.h are one. An edge is a mention of another stem's shared function: in
the body of a function, in an initializer, a table or a macro. So a callback is an edge from the
file that registers it. A macro of a header that mentions such a function counts as one. A name of
the public API that a table only lists is no edge.
"""

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from layers import is_below
from project import FRONT, MODULES, Module, public_names, sources

TOKEN = re.compile(
    r"""
      (?P<comment> /\*.*?\*/ | //[^\n]* )
    | (?P<directive> ^[ \t]*\#(?:[^\n\\/]|\\.|\\\n|/\*.*?\*/|/(?!\*))* )
    | (?P<token> "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | [A-Za-z_]\w* | -> | [^\s\w] )
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
NAME = re.compile(r"[A-Za-z_]\w*")
DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)]*\))?")
CLOSING = {"(": ")", "[": "]", "{": "}"}
NO_FUNCTION = {"if", "while", "for", "switch", "return", "sizeof"}
# What stands behind the parameters of a function: __attribute__((...)), or a macro for it.
ATTRIBUTE = re.compile(r"__attribute__|[A-Z][A-Z0-9_]*")
NO_ARGUMENTS = {"TARN__NO_THREAD_SAFETY_ANALYSIS"}  # a macro for an attribute, without parentheses
STATIC = {"static", "TARN__FAST"}  # the macro has `static` in its definition
DRIVER_CALL = re.compile(r"cu[A-Z]")

# A name that is mentioned, and whether it is called, an argument or in parentheses, or listed.
Mention = tuple[str, str]
# For each stem the stems that it calls, with the calls: (function, called function).
Edges = dict[str, dict[str, set[tuple[str, str]]]]


@dataclass
class Function:
    name: str
    is_static: bool
    mentions: list[Mention]


@dataclass
class Source:
    """The definitions and declarations of a file, and mentions outside of functions and macros."""

    functions: list[Function] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    mentions: list[Mention] = field(default_factory=list)
    macros: dict[str, list[Mention]] = field(default_factory=dict)


def tokens(text: str) -> Iterator[str]:
    """Return the tokens of C without comments; a preprocessor directive is one token."""
    for match in TOKEN.finditer(text):
        if match.lastgroup != "comment":
            yield match[0].lstrip()


def end_of(found: list[str], opening: int) -> int:
    """Return the index of the token that closes the bracket at `opening`."""
    bracket, depth = found[opening], 0
    for index in range(opening, len(found)):
        if found[index] == bracket:
            depth += 1
        elif found[index] == CLOSING[bracket]:
            depth -= 1
            if depth == 0:
                return index
    return len(found) - 1


def mentions(found: list[str]) -> list[Mention]:
    """Return the names among tokens, without those of fields and of struct types."""
    names, brackets, before = [], [""], ""
    for index, token in enumerate(found):
        if token in CLOSING:
            brackets.append(token)
        elif token in (")", "]", "}"):
            brackets = brackets[:-1] or [""]
        elif NAME.match(token) and before not in ("struct", "union", "enum", "->", "."):
            is_called = index + 1 < len(found) and found[index + 1] == "("
            how = "called" if is_called else "argument" if brackets[-1] == "(" else "listed"
            names.append((token, how))
        before = token
    return names


def outside(found: list[str]) -> list[Mention]:
    """Return the names in a table, an initializer or a macro: an uncalled name is listed."""
    return [(name, "called" if how == "called" else "listed") for name, how in mentions(found)]


def called_name(head: list[str]) -> str | None:
    """Return the name before the last parentheses that end a declaration, if it is a function's."""
    while head and head[-1] in NO_ARGUMENTS:
        head = head[:-1]
    while head and head[-1] == ")":
        depth, index = 0, len(head) - 1
        while index >= 0:
            depth += (head[index] == ")") - (head[index] == "(")
            if depth == 0:
                break
            index -= 1
        name = head[index - 1] if index > 0 else ""
        if ATTRIBUTE.fullmatch(name) and head[index - 2 : index - 1] == [")"]:
            head = head[: index - 1]
            continue
        is_function = NAME.match(name) and name not in NO_FUNCTION and "=" not in head[:index]
        return name if is_function else None
    return None


def parse(text: str) -> Source:
    """Return the functions of a C file, its declarations, and its other mentions."""
    source = Source()
    found = []
    for token in tokens(text):
        if not token.startswith("#"):
            found.append(token)
        elif match := DEFINE.match(token):
            body = token[match.end() :].replace("\\\n", " ")
            source.macros[match[1]] = outside(list(tokens(body)))
    start = index = 0
    while index < len(found):
        token = found[index]
        if token == "{":
            head, end = found[start:index], end_of(found, index)
            if name := called_name(head):
                inside = mentions(found[index : end + 1])
                source.functions.append(Function(name, not STATIC.isdisjoint(head), inside))
                start = end + 1
            else:
                source.mentions += outside(found[index : end + 1])
            index = end
        elif token == ";":
            head = found[start:index]
            if "=" in head:
                at = head.index("=")
                if "{" not in head[at:]:
                    source.mentions += outside(head[at:])
            elif name := called_name(head):
                source.declared.add(name)
            start = index + 1
        index += 1
    return source


def stem_of(path: str) -> str:
    """Return the node of a file: its path in the module without the ending."""
    return path.rpartition(".")[0]


def is_listed(mention: Mention, public_names: Collection[str]) -> bool:
    """Return whether a table only lists a name of the public API."""
    name, how = mention
    return how == "listed" and (name in public_names or DRIVER_CALL.match(name) is not None)


def definitions(files: Mapping[str, Source], public_names: Collection[str] = ()) -> dict[str, str]:
    """Return the stem that defines each shared function: not static, or inline in a header. A macro
    of a header that mentions one of them is included."""
    found = {
        function.name: stem_of(path)
        for path, source in files.items()
        for function in source.functions
        if path.endswith(".h") or not function.is_static
    }
    macros = {
        name: stem_of(path)
        for path, source in files.items()
        for name, body in source.macros.items()
        if path.endswith(".h")
        and any(one[0] in found and not is_listed(one, public_names) for one in body)
    }
    return {**macros, **found}


def graph(files: Mapping[str, Source], public_names: Collection[str] = ()) -> Edges:
    """Return the edges between the stems of a module."""
    defined = definitions(files, public_names)
    edges: Edges = {}
    for path, source in files.items():
        stem = stem_of(path)
        own = {function.name for function in source.functions} | source.macros.keys()
        parts = [(function.name, function.mentions) for function in source.functions]
        for caller, mentioned in (*parts, *source.macros.items(), ("(file)", source.mentions)):
            for name, how in mentioned:
                other = defined.get(name, stem)
                if other != stem and name not in own and not is_listed((name, how), public_names):
                    edges.setdefault(stem, {}).setdefault(other, set()).add((caller, name))
    return edges


def reached(edges: Edges, start: str) -> set[str]:
    """Return the stems that a stem calls, directly or through others."""
    seen: set[str] = set()
    left = [start]
    while left:
        new = set(edges.get(left.pop(), ())) - seen
        seen |= new
        left.extend(new)
    return seen


def cycles(edges: Edges) -> list[list[str]]:
    """Return the sets of stems of which each calls each other, sorted."""
    reach = {stem: reached(edges, stem) for stem in edges}
    sets = {
        tuple(sorted(other for other in reach[stem] if stem in reach.get(other, ())))
        for stem in edges
        if stem in reach[stem]
    }
    return [list(one) for one in sorted(sets)]


def describe(edges: Edges, cycle: Collection[str]) -> Iterator[str]:
    """Return one line for each edge of a cycle, with the calls."""
    for stem in sorted(cycle):
        for other, calls in sorted(edges[stem].items()):
            if other in cycle:
                listed = ", ".join(f"{caller}: {name}" for caller, name in sorted(calls))
                yield f"    {stem} -> {other}: {listed}"


def graphs() -> dict[str, Edges]:
    """Return the edges of each module of the project, and of the clients of the modules."""
    names = public_names()
    return {
        module: graph({path: parse(text) for path, text in texts.items()}, names)
        for module, texts in sources(modules=(*MODULES, *FRONT)).items()
    }


def described(found: Mapping[str, Edges]) -> list[str]:
    """Return the cycles of each module, with their calls."""
    return [
        "\n".join([f"{module}: a cycle: {' '.join(cycle)}", *describe(edges, cycle)])
        for module, edges in sorted(found.items())
        for cycle in cycles(edges)
    ]


def upward(edges: Edges, module: Module) -> list[str]:
    """Return the calls inside a module that go to a higher layer, or to a peer."""
    return [
        f"{module.name}: {stem} calls {other}, which is not below it: {caller}: {name}"
        for stem, others in sorted(edges.items())
        for other, calls in sorted(others.items())
        if not is_below(f"{other}.c", f"{stem}.c", module)
        for caller, name in sorted(calls)
    ]


def main(arguments: list[str]) -> int:
    for module, edges in graphs().items():
        if arguments and module not in arguments:
            continue
        found = cycles(edges)
        print(f"{module}: {len(found)} cycles")
        for cycle in found:
            print(f"  {len(cycle)} stems: {' '.join(cycle)}")
            print("\n".join(describe(edges, cycle)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
