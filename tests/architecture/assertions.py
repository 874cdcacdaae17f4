#!/usr/bin/env python3
"""Checks that each assertion of a lock is live: it fails when the function begins without the lock.

    assertions.py [MODULE...]    prints the functions whose assertion does not fail

For each file with assertions this makes a program from the file, as in a debug build, and calls each
of its functions that assert a lock, static ones included. Each pointer argument points to a block
of memory in which every word is the block's own address, so that `caller->pool->lock` is valid
memory, and a lock that no thread holds. The assertion has to end the call before anything else does:
the program has nothing else that the file calls.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import locks
from project import MODULES, PROJECT, sources

COMMAND = ("cc", "-std=gnu11", "-O0", "-w", "-DTARN_DEBUG=1", "-Iinclude", "-Isrc", "-I.",
           "-Dvisibility(which)=unused", "-Dconstructor=unused", "-static", "-no-pie", "-fno-pie",
           "-Wl,--unresolved-symbols=ignore-all", "-Wl,--no-warnings")  # fmt: skip

PROGRAM = """
#include "{file}"
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

static void *tarn_test_block[1 << 16];
static jmp_buf tarn_test_before;
static const char *tarn_test_failed;

void tarn__lock_assert(bool holds, const char *what, const char *function)
{{
    tarn_test_failed = function;
    if (!holds)
        longjmp(tarn_test_before, 1);
}}

void tarn__mutex_assert(const pthread_mutex_t *mutex, const char *what, const char *function)
{{
    bool is_elsewhere = (uintptr_t)mutex < 1 << 16; /* defined in another file: not linked */

    tarn__lock_assert(!is_elsewhere && mutex->__data.__owner == getpid(), what, function);
}}

int main(void)
{{
    for (size_t i = 0; i < sizeof tarn_test_block / sizeof *tarn_test_block; i++)
        tarn_test_block[i] = tarn_test_block;
{calls}
    return 0;
}}
"""
CALL = """
    tarn_test_failed = NULL;
    if (setjmp(tarn_test_before) == 0) {{
        {call};
        tarn_test_failed = NULL;
    }}
    if (!tarn_test_failed || strcmp(tarn_test_failed, "{name}") != 0)
        puts("{name}");
    fflush(stdout);"""


def argument(parameter: str) -> str:
    """Return an argument for a parameter of a function."""
    if "*" in parameter or "[" in parameter:
        return "(void *)tarn_test_block"
    words = parameter.split()
    if "struct" in words:
        return f"(struct {words[words.index('struct') + 1]}){{0}}"
    return "0"


def calls(text: str) -> dict[str, str]:
    """Return for each function of a C file that asserts a lock a call of it."""
    found = {}
    code = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    for body in locks.read(text)[1]:
        if body.asserted:
            head = re.search(rf"\b{body.function}\(((?:[^();]|\([^()]*\))*)\)[^;{{}}]*\n{{", code)
            parameters = head[1] if head else ""
            given = [] if parameters == "void" else re.split(r",(?![^(]*\))", parameters)
            found[body.function] = f"{body.function}({', '.join(map(argument, given))})"
    return found


def silent(file: str, text: str) -> list[str]:
    """Return the functions of a file whose assertion does not fail. `file` is its path from the
    project's folder; `text` may be another text in its place."""
    lines = [CALL.format(name=name, call=call) for name, call in calls(text).items()]
    if not lines:
        return []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f"copy{Path(file).suffix}")
        copy.write_text(f'#line 1 "{file}"\n{text}')
        program = Path(folder, "program.c")
        program.write_text(
            "#define _GNU_SOURCE\n#include <stdbool.h>\n#include <stdint.h>\n#include <unistd.h>\n"
            + PROGRAM.format(file=copy, calls="\n".join(lines))
        )
        made = Path(folder, "program")
        subprocess.run([*COMMAND, program, "-o", made], cwd=PROJECT, check=True)
        done = subprocess.run([made], capture_output=True, text=True)
    wrong = [f"{file}: {name}" for name in done.stdout.split()]
    return wrong + ([f"{file}: status {done.returncode}"] if done.returncode else [])


def all_silent(module: str, files: Mapping[str, str]) -> list[str]:
    """Return the functions of a module whose assertion does not fail."""
    folder = next(found.folder for found in MODULES if found.name == module)
    return [name for path, text in files.items() for name in silent(f"{folder}/{path}", text)]


def main(arguments: list[str]) -> int:
    texts = sources()
    for module in arguments or locks.ENFORCED:
        found = sum(len(calls(text)) for text in texts[module].values())
        print(f"{module}: {found} functions")
        print("".join(f"{name}\n" for name in all_silent(module, texts[module])), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
