#!/usr/bin/env python3
"""rename.py -- apply tools/renames.tsv to the sources.

    rename.py [--section NAME]        this repository
    rename.py --to FOLDER FILE...     copies of somebody's C and Python files, for the new names

The table has tab-separated columns: section, scope, old, new. Scopes:

    name          an identifier with the prefix tarn or TARN, wherever the word stands
    prefix        the beginning of such identifiers
    field:STRUCT  a member of a C struct; clang finds each use of it
    token:PATHS   an identifier in the C files below these paths (a list with commas)
    word:PATHS    a word in any file below these paths, wherever it stands
    file          a path: the file moves, and every mention of its path changes

Strings and documents change for `name`, `prefix`, `word` and `file` alone. Comments change for a
token with an underscore. A field needs the compile_commands.json of build/release and of the
wheel's build. All tokens change in one pass, so that one row's new name can be another's old one.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOT_HERE = ("CHANGELOG.md", "tools/renames.tsv", "tools/rename.py")
C_TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|[\s\S]', re.S
)


def files():
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in out.stdout.split("\n"):
        if name and name not in NOT_HERE and not name.endswith((".gz", ".png")):
            path = ROOT / name
            if path.is_file() and not path.is_symlink():
                yield name


class Sources:
    """The text of every file, written back where it changed."""

    def __init__(self):
        self.text = {}
        self.before = {}
        for name in files():
            try:
                self.text[name] = self.before[name] = (ROOT / name).read_text()
            except UnicodeDecodeError:
                continue

    def write(self):
        changed = 0
        for name, text in self.text.items():
            if text != self.before[name]:
                (ROOT / name).write_text(text)
                self.before[name] = text
                changed += 1
        return changed


def rename_words(sources, words, prefixes):
    """`name` and `prefix`: the word, wherever it stands."""
    parts = [rf"\b{re.escape(old)}\b" for old in words]
    parts += [rf"\b{re.escape(old)}" for old in prefixes]
    if not parts:
        return
    pattern = re.compile("|".join(sorted(parts, key=len, reverse=True)))
    every = {**words, **prefixes}
    for name, text in sources.text.items():
        sources.text[name] = pattern.sub(lambda found: every[found.group()], text)


# --- identifiers of a part of the sources -------------------------------------------------------


def below(name, paths):
    return any(name == path or (path.endswith("/") and name.startswith(path)) for path in paths)


def rename_tokens(sources, rows):
    """`token`: identifiers in code; those that no sentence contains change in comments, too."""
    for name, text in sources.text.items():
        if not name.endswith((".c", ".h", ".cpp", ".hpp")):
            continue
        here = {}
        for paths, old, new in rows:
            if below(name, paths) and here.setdefault(old, new) != new:
                sys.exit(f"{name}: {old} becomes {here[old]} and {new}")
        if not here:
            continue
        compound = [old for old in here if "_" in old]
        pattern = re.compile(r"\b(" + "|".join(compound) + r")\b") if compound else None
        tokens = C_TOKEN.findall(text)
        for place, token in enumerate(tokens):
            if token.startswith(("/*", "//")):
                if pattern:
                    tokens[place] = pattern.sub(lambda found: here[found[1]], token)
            else:
                tokens[place] = here.get(token, token)
        sources.text[name] = "".join(tokens)


def rename_words_below(sources, rows):
    for paths, old, new in rows:
        for name, text in sources.text.items():
            if below(name, paths):
                sources.text[name] = re.sub(rf"\b{re.escape(old)}\b", new, text)


def move_files(sources, moves):
    """The mentions are of the path, of the path below src or tests, or of the include path."""
    for old, new in moves.items():
        (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", old, new], cwd=ROOT, check=True)
    sources = Sources()
    every = {}
    for old, new in moves.items():
        every[old] = new
        for root in ("src/", "tests/", "python/"):
            if old.startswith(root) and new.startswith(root) and old.count("/") > 1:
                every[old[len(root) :]] = new[len(root) :]
    pattern = re.compile(
        r"(?<![\w.-])("
        + "|".join(map(re.escape, sorted(every, key=len, reverse=True)))
        + r")(?!\w)"
    )
    for name, text in sources.text.items():
        sources.text[name] = pattern.sub(lambda found: every[found[1]], text)
    return sources.write()


# --- members of structs ------------------------------------------------------------------------

ERROR = re.compile(
    r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+): error: (?:no member named '(?P<a>\w+)' in "
    r"'(?:struct )?(?P<b>\w+)'|field designator '(?P<c>\w+)' does not refer to any field in type "
    r"'(?:struct |const )*(?P<d>\w+)')"
)


def commands():
    for folder in ("build/release", "build/wheel-cp311-cp311-linux_x86_64"):
        path = ROOT / folder / "compile_commands.json"
        if path.exists():
            seen = set()
            for entry in json.loads(path.read_text()):
                if entry["file"] not in seen:
                    seen.add(entry["file"])
                    yield entry


def complaints(entry):
    words = [w for w in shlex.split(entry["command"]) if w != "-Werror"]
    keep = [w for w in words[1:] if w.startswith(("-I", "-D", "-std"))]
    if "-isystem" in words:
        for place, word in enumerate(words):
            if word == "-isystem":
                keep.append(words[place + 1])
    run = ["clang", "-fsyntax-only", "-w", "-ferror-limit=0", "-fno-caret-diagnostics", *keep]
    done = subprocess.run(
        [*run, entry["file"]], cwd=entry["directory"], capture_output=True, text=True
    )
    return done.stderr


def declared_anew(text, old, new):
    """A struct with a member renamed: the first identifier that a declarator ends with."""
    tokens = C_TOKEN.findall(text)
    for place, token in enumerate(tokens):
        if token == old and "".join(tokens[place + 1 : place + 3]).lstrip()[:1] in (
            ",",
            ";",
            "[",
            ")",
        ):
            tokens[place] = new
            break
    return "".join(tokens)


def rename_fields(sources, fields):
    """`field`: the declaration first, then each use that clang does not understand any more."""
    for (struct, old), new in fields.items():
        for name, text in sources.text.items():
            if not name.startswith(("include/", "src/")):
                continue
            found = re.search(rf"\bstruct {struct} \{{.*?\n\}} ?{struct}?;", text, re.S)
            if found:
                body = declared_anew(found.group(), old, new)
                if body == found.group():
                    sys.exit(f"{struct} has no {old}")
                sources.text[name] = text[: found.start()] + body + text[found.end() :]
                break
        else:
            sys.exit(f"no struct {struct}")
    sources.write()
    wanted = collections.defaultdict(set)
    for turn in range(8):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            texts = list(pool.map(complaints, commands()))
        wanted.clear()
        for text in texts:
            for line in text.splitlines():
                found = ERROR.match(line)
                if not found:
                    continue
                old = found["a"] or found["c"]
                struct = found["b"] or found["d"]
                new = fields.get((struct, old))
                if new is None:
                    continue
                path = pathlib.Path(found["file"]).resolve()
                wanted[str(path.relative_to(ROOT))].add(
                    (int(found["line"]), int(found["column"]), old, new)
                )
        if not wanted:
            return
        for name, places in wanted.items():
            lines = sources.text[name].split("\n")
            for line, column, old, new in sorted(places, reverse=True):
                text = lines[line - 1]
                start = column - 1
                if text[start : start + 1] == ".":
                    start += 1
                if not text.startswith(old, start):  # in a macro: at its name
                    found = re.search(rf"\b{old}\b", text[start:])
                    if not found:
                        print(f"{name}:{line}:{column}: {old} is not there: {text}")
                        continue
                    start += found.start()
                lines[line - 1] = text[:start] + new + text[start + len(old) :]
            sources.text[name] = "\n".join(lines)
        print(f"turn {turn}: {sum(map(len, wanted.values()))} uses")
        sources.write()


def copy_renamed(folder, paths, names, prefixes, fields):
    """Members go by their name alone here: `.old` and `->old`, where that has one meaning."""
    meanings = collections.defaultdict(set)
    for (_, old), new in fields.items():
        meanings[old].add(new)
    members = {old: min(news) for old, news in meanings.items() if len(news) == 1}
    member = re.compile(r"((?:\.|->)\s*)(" + "|".join(members) + r")\b(?!\s*\()")
    words = re.compile(
        "|".join([rf"\b{re.escape(old)}\b" for old in names])
        + "".join(rf"|\b{re.escape(old)}" for old in prefixes)
    )
    every = {**names, **prefixes}
    folder.mkdir(parents=True, exist_ok=True)
    for path in map(pathlib.Path, paths):
        text = words.sub(lambda found: every[found.group()], path.read_text())
        if path.suffix != ".py":
            text = member.sub(lambda found: found[1] + members[found[2]], text)
        (folder / path.name).write_text(text)


def main():
    parser = argparse.ArgumentParser(description="Apply tools/renames.tsv.")
    parser.add_argument("--section", help="only the rows of this section")
    parser.add_argument("--to", type=pathlib.Path, help="copy the files there, renamed")
    parser.add_argument("files", nargs="*", help="with --to")
    arguments = parser.parse_args()
    names, prefixes, fields, tokens, words, moves = {}, {}, {}, [], [], {}
    for line in (ROOT / "tools/renames.tsv").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        section, scope, old, new = line.split("\t")[:4]
        if arguments.section and section != arguments.section:
            continue
        kind, _, rest = scope.partition(":")
        if kind == "name":
            names[old] = new
        elif kind == "prefix":
            prefixes[old] = new
        elif kind == "field":
            fields[rest, old] = new
        elif kind == "token":
            tokens.append((rest.split(","), old, new))
        elif kind == "word":
            words.append((rest.split(","), old, new))
        elif kind == "file":
            moves[old] = new
        else:
            sys.exit(f"no such scope: {scope}")
    if arguments.to:
        copy_renamed(arguments.to, arguments.files, names, prefixes, fields)
        return
    sources = Sources()
    if fields:
        rename_fields(sources, fields)
    rename_words(sources, names, prefixes)
    rename_tokens(sources, tokens)
    rename_words_below(sources, words)
    print(f"{sources.write()} files changed")
    if moves:
        print(f"{move_files(sources, moves)} files mention moved ones")


if __name__ == "__main__":
    main()
