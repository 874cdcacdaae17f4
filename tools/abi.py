#!/usr/bin/env python3
"""abi.py -- the binary interface of the public headers, as text.

    abi.py [--cc CC]           write tools/abi.txt
    abi.py --check [--cc CC]   exit code 1 if the headers say something else
    abi.py --compatible FILE   exit code 1 if a line of FILE, a dump of before, is not in the headers

The text has the version, the size of each struct, the offset, size and declaration of each member, the value of
each constant, and the declaration of each exported function and variable. A compiler computes the
numbers. A line that changes or disappears breaks programs that were compiled before.
"""

from __future__ import annotations

import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DUMP = ROOT / "tools/abi.txt"
HEADERS = sorted((ROOT / "include/tarn").glob("*.h"))
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
STRUCT = re.compile(r"\b(struct|union)\s+(\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
ENUM = re.compile(r"\benum\b\s*(\w*)\s*\{([^{}]*)\}")
MACRO = re.compile(r"^#define (TARN_\w+)[ \t]+(\S.*)$", re.M)


def clean(text: str) -> str:
    return DIRECTIVE.sub("", COMMENT.sub(" ", text))


def one_line(text: str) -> str:
    return re.sub(r"\s*([(),*;])\s*", r"\1", " ".join(text.split())).replace("*", " *").strip()


def members(body: str) -> list[tuple[str, str]]:
    """(name, declaration) of each member; nested structs and unions without a name are skipped."""
    found = []
    for declaration in re.sub(r"\{[^{}]*\}", "", body).split(";"):
        text = one_line(declaration)
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", declaration)
        if pointer:
            found.append((pointer[1], text))
            continue
        first, *rest = re.sub(r"\[[^\]]*\]", "", declaration).split(",")
        names = [re.search(r"(\w+)\s*$", part) for part in (first, *rest)]
        if rest and names[0]:
            kind = one_line(first[: names[0].start()])
            found += [(name[1], f"{kind} {name[1]}") for name in names if name]
        elif names[0] and " " in text:
            found.append((names[0][1], text))
    return found


def functions(text: str, exported: set[str]) -> list[str]:
    """The declarations of what the libraries export."""
    flat = re.sub(r"\{[^{}]*\}", "{}", text)
    lines = []
    for statement in re.split(r"[;{}]", flat):
        named = re.search(r"\b(tarn_\w+|TARN_\w+|tarn_nrt_\w+)\s*(\(|$|\[)", statement)
        if named and named[1] in exported and "typedef" not in statement:
            declared = re.sub(
                r'\bextern\s+"C"|\bextern\b|\bTARN_API\b|\bTARN_PURE\b', " ", statement
            )
            lines.append(f"function {one_line(declared)}")
    return lines


def program(structs: list[tuple[str, str, str]], constants: list[str]) -> str:
    lines = [f"#include <tarn/{header.name}>" for header in HEADERS]
    lines += ["#include <stddef.h>", "#include <stdio.h>", "int main(void)", "{"]
    for kind, name, body in structs:
        whole = f"{kind} {name}"
        lines.append(f'printf("{whole} %zu\\n", sizeof({whole}));')
        for member, declared in members(body):
            lines.append(
                f'printf("    %zu %zu {declared}\\n", offsetof({whole}, {member}),'
                f" sizeof((({whole} *)0)->{member}));"
            )
    lines += [f'printf("constant {name} %lld\\n", (long long)({name}));' for name in constants]
    return "\n".join([*lines, "return 0;", "}", ""])


def computed(source: str, compiler: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "abi.c")
        path.write_text(source)
        subprocess.run(
            [compiler, "-std=gnu11", "-w", f"-I{ROOT / 'include'}", path, "-o", f"{folder}/abi"],
            check=True,
        )
        run = subprocess.run([f"{folder}/abi"], check=True, capture_output=True, text=True)
        return run.stdout


def dump(compiler: str) -> str:
    exported = set((ROOT / "tools/exports.txt").read_text().split())
    exported |= set((ROOT / "tools/exports-prune.txt").read_text().split())
    structs, constants, declared = [], [], []
    for header in HEADERS:
        raw = header.read_text()
        text = clean(raw)
        structs += STRUCT.findall(text)
        for _, body in ENUM.findall(text):
            constants += re.findall(r"\b(TARN_\w+)\s*(?:=|,|$)", body.strip(), re.M)
        constants += [
            name
            for name, value in MACRO.findall(COMMENT.sub(" ", raw))
            if re.fullmatch(r"[-()\w\s<|+*~]*\d[-()\w\s<|+*~]*", value.strip())
        ]
        declared += functions(text, exported)
    constants = [name for name in dict.fromkeys(constants) if not name.startswith("TARN_VERSION")]
    version = re.findall(
        r"define TARN_VERSION_[A-Z]+ (\d+)", (ROOT / "include/tarn/version.h").read_text()
    )
    numbers = computed(program(structs, constants), compiler)
    return f"tarn {'.'.join(version)}\n{numbers}" + "\n".join(sorted(set(declared))) + "\n"


def facts(text: str) -> set[str]:
    """The lines of a dump without its version; those of a member have the name of their struct.

    A struct that begins with its size may grow: its own size is left out.
    """
    found, struct = set(), ""
    lines = text.splitlines()[1:]
    for line, after in zip(lines, [*lines[1:], ""]):
        if line.startswith(" "):
            found.add(f"{struct}: {line.strip()}")
        else:
            struct = line.rpartition(" ")[0]
            found.add(struct if after.strip() == "0 8 size_t size" else line)
    return found


def missing(before: str, now: str) -> list[str]:
    """What programs that were compiled with an older dump do not find any more."""
    return sorted(facts(before) - facts(now))


def main() -> int:
    parser = argparse.ArgumentParser(description="The binary interface of the public headers.")
    parser.add_argument("--check", action="store_true", help="compare with tools/abi.txt")
    parser.add_argument(
        "--compatible", metavar="FILE", type=pathlib.Path, help="compare with the dump of a release"
    )
    parser.add_argument("--cc", default="cc", help="the compiler")
    given = parser.parse_args()
    text = dump(given.cc)
    if given.compatible:
        lost = missing(given.compatible.read_text(), text)
        print(*[f"changed or gone: {line}" for line in lost], sep="\n")
        return int(bool(lost))
    if not given.check:
        DUMP.write_text(text)
        return 0
    before = DUMP.read_text()
    sys.stdout.writelines(
        difflib.unified_diff(
            before.splitlines(True), text.splitlines(True), "tools/abi.txt", "headers"
        )
    )
    return int(before != text)


if __name__ == "__main__":
    sys.exit(main())
