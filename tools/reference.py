#!/usr/bin/env python3
"""reference.py -- is the reference of the C and C++ API complete? Runs Doxygen and reads its XML.

    reference.py [HEADER...]    what is missing, one line each; exit code 1 if there is anything

Every function, function type, struct, enum, member and macro has a comment whose first sentence
could stand in an index. A function describes each parameter, its result, the threads that may
call it and the version that brought it.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
XML = ROOT / "build/doxygen/xml"
# Numba's own declarations, in a header that is to read like Numba's.
NUMBAS = ("nrt_external.h",)
LONGEST = 25  # words of a first sentence


def text_of(node) -> str:
    return " ".join("".join(node.itertext()).split()) if node is not None else ""


def sections(member, kind: str) -> list[str]:
    return [text_of(one) for one in member.iter("simplesect") if one.get("kind") == kind]


def described_parameters(member) -> set[str]:
    return {text_of(name) for name in member.iter("parametername")}


def parameters(member) -> list[str]:
    named = [text_of(one.find("declname")) for one in member.findall("param")]
    return [name for name in named if name]


def returns(member) -> bool:
    return text_of(member.find("type")).removeprefix("constexpr ") not in ("void", "")


def function_gaps(member):
    described = described_parameters(member)
    for name in parameters(member):
        if name not in described:
            yield f"parameter {name} has no @param"
    if returns(member) and not sections(member, "return"):
        yield "no @return"
    if not sections(member, "since"):
        yield "no @since"
    if not re.search(r"\bthread", text_of(member.find("detaileddescription")), re.I):
        yield "no word on threads"


def gaps(member):
    brief = text_of(member.find("briefdescription"))
    if not brief:
        yield "no first sentence"
    elif len(brief.split()) > LONGEST:
        yield f"the first sentence has {len(brief.split())} words"
    if member.get("kind") == "function":
        yield from function_gaps(member)


def is_public(member) -> bool:
    name = text_of(member.find("name"))
    if member.get("prot") == "private" or "=delete" in text_of(member.find("argsstring")):
        return False
    return not (
        name.endswith(("_H", "_HPP"))
        or name.startswith("TARN_HPP_")
        or name in ("TARN_BEGIN_DECLS", "TARN_END_DECLS", "X")
    )


def members():
    """Each definition with its header and line, once."""
    seen = set()
    for path in sorted(XML.glob("*.xml")):
        for compound in ElementTree.parse(path).getroot().iter("compounddef"):
            kind = compound.get("kind")
            own = [compound] if kind in ("struct", "union") else []
            for member in [*own, *compound.iter("memberdef")]:
                place = member.find("location")
                key = member.get("id")
                if key in seen or place is None or kind in ("dir", "page"):
                    continue
                seen.add(key)
                owner = text_of(compound.find("compoundname")) if kind == "struct" else ""
                name = text_of(member.find("name"))
                yield (
                    place.get("file"),
                    int(place.get("line")),
                    ".".join(filter(None, (owner, name))),
                    member,
                )


def main() -> int:
    wanted = sys.argv[1:]
    shutil.rmtree(XML, ignore_errors=True)
    XML.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["doxygen", "docs/Doxyfile"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.replace(f"{ROOT}/", "").splitlines() if line]
    found = sorted({line for line in complaints if not wanted or any(w in line for w in wanted)})
    count = 0
    for header, line, name, member in members():
        if wanted and not any(one in header for one in wanted):
            continue
        count += 1
        if is_public(member) and not header.endswith(NUMBAS):
            found += [f"include/{header}:{line}: {name}: {gap}" for gap in gaps(member)]
    for line in found:
        print(line)
    print(f"reference: {count} definitions, {len(found)} gaps")
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
