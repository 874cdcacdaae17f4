#!/usr/bin/env python3
"""Checks what wheels need of a system: auditwheel's policy, and libraries outside of the wheel.

    .venv-lint/bin/python tools/audit.py WHEEL...

A wheel of tarn-gpu fits the manylinux policy of its name, or NEWEST for one without. It needs no
library but those of that policy. A wheel of tarn-gpu-prune needs LLVM of the system, so no manylinux
policy fits it; its own objects name libLLVM and nothing else that is no part of a policy.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

NEWEST = "manylinux_2_34_x86_64"  # what a build on Debian 12 needs; docs/support.md states it
OWN = re.compile(r"libtarn\.so\.\d")  # in tarn/lib of tarn-gpu; the command and the pruner use it
LLVM = re.compile(r"libLLVM")


def shown(wheel: pathlib.Path) -> dict[str, object]:
    """What auditwheel says of a wheel."""
    command = [
        str(pathlib.Path(sys.executable).parent / "auditwheel"),
        "show",
        "--json",
        str(wheel),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def glibc(policy: str) -> tuple[int, ...]:
    """The version of glibc in a name such as manylinux_2_28_x86_64."""
    found = re.search(r"manylinux_(\d+)_(\d+)_", policy)
    if not found:
        raise SystemExit(f"audit: {policy} is no manylinux policy")
    return int(found[1]), int(found[2])


def findings(wheel: pathlib.Path, facts: dict[str, object]) -> list[str]:
    """What is wrong with a wheel, a line each."""
    external = facts["external_libs"]
    assert isinstance(external, dict)
    others = sorted(name for name in external if not OWN.match(name))
    if wheel.name.startswith("tarn_gpu_prune-"):
        return [] if any(map(LLVM.match, others)) else ["needs no libLLVM: is the pruner in it?"]
    wrong = [f"needs {name}, which no manylinux policy has" for name in others]
    allowed = wheel.name if "manylinux" in wheel.name else NEWEST
    policy = str(facts["sym_tag"])
    if glibc(policy) > glibc(allowed):
        wrong.append(f"fits {policy}, and should fit {NEWEST if allowed is NEWEST else 'its name'}")
    return wrong


def main(arguments: list[str]) -> int:
    if not arguments:
        raise SystemExit("audit: no wheel")
    wrong = 0
    for wheel in map(pathlib.Path, arguments):
        facts = shown(wheel)
        libraries = facts["external_libs"]
        assert isinstance(libraries, dict)
        print(f"{wheel.name}: {wheel.stat().st_size} bytes, symbols of {facts['sym_tag']}, "
              f"beyond the policy: {', '.join(sorted(libraries)) or 'nothing'}")  # fmt: skip
        for line in findings(wheel, facts):
            print(f"audit: {wheel.name} {line}")
            wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
