"""Four frameworks in one process, on one pool of Tarn and on their own allocators, in turns.

    python bench/together/compare.py                    all runs, the table, and the conditions
    python bench/together/compare.py --json FILE        and the figures, a list of runs
    python bench/together/compare.py table FILE         the table of recorded figures

program.py is one run. The first run has no limit and measures the peak of the summed live bytes.
Then each round has a run on the libraries' own allocators and one on a pool with `--factor` times
that peak. The last lines are the conditions; the exit status is 1 if one does not hold.

On the simulator (TARN_DRIVER=sim) both ends of each array are checked in place of all elements,
and a race between streams fails a run.
Times say nothing there, and CuPy has no allocator of its own. TARN_TORCH_CUDART names the library of python/tests/torch_cudart.c for PyTorch there.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "support"))

import turns  # noqa: E402

GIB = 1 << 30
SHARE = 0.10  # of the peak that each library holds
LESS = 0.30  # that Tarn reserves less than the own allocators


# --- runs -----------------------------------------------------------------------------------------


def environment():
    """Return the environment of a run, with PyTorch's CUDA runtime for the simulator."""
    settings = turns.environment("memory=140GiB,races=on")
    if settings.get("TARN_DRIVER") and settings.get("TARN_TORCH_CUDART"):
        settings["LD_PRELOAD"] = settings["TARN_TORCH_CUDART"]
    return settings


def run(allocator, arguments, limit=None, libraries=None):
    """Run program.py in a process, and return its figures; None if it failed."""
    command = [str(HERE / "program.py"), "--allocator", allocator]
    command += turns.options(arguments, "unit", "phases")
    if limit:
        command += ["--limit", str(limit)]
    if libraries or arguments.libraries:
        command += ["--libraries", *(libraries or arguments.libraries)]
    what = f"{allocator}, limit {limit}"
    found = turns.run_process(what, command, environment(), arguments.timeout)
    if found is None:
        return None
    shown = {key: value for key, value in found.items() if key != "samples"}
    print(json.dumps(shown), flush=True)
    return found


def run_all(arguments):
    """Run everything in turns, and return the figures of the runs that succeeded."""
    first = run("tarn", arguments)
    if first is None:
        return []
    limit = int(arguments.factor * first["peak_live"])
    # CuPy's own pool needs the CUDA runtime.
    with_own = [name for name in first["versions"] if name != "cupy" or not first["simulator"]]
    runs = [first]
    for _ in range(arguments.rounds):
        runs.append(run("own", arguments, libraries=with_own))
        runs.append(run("tarn", arguments, limit))
    return [found for found in runs if found is not None]


# --- the table ------------------------------------------------------------------------------------


def kind_of(found):
    """Return the name of a run in the table."""
    if found["allocator"] == "own":
        return "own allocators"
    return "Tarn, limited" if found["limit"] else "Tarn, unlimited"


def print_table(runs):
    """Print a line for each kind of run, then lines for each library."""
    print(
        "run               seconds       peak live  driver's used  pool or sum of libraries   GiB"
    )
    for kind in dict.fromkeys(map(kind_of, runs)):
        group = [found for found in runs if kind_of(found) == kind]
        seconds = ", ".join(f"{found['seconds']:.2f}" for found in group)
        held = statistics.median(map(reserved, group)) / GIB
        print(
            f"{kind:16}  {seconds:12}  {median(group, 'peak_live'):9.3f}  "
            f"{median(group, 'used_peak'):13.3f}  {held:13.3f}"
        )
    print(
        "\nlibrary     live at the peak   share  allocated from the pool  own reserved at the end"
    )
    first, own = runs[0], next((found for found in runs if found["allocator"] == "own"), None)
    for name in first["versions"]:
        live, served = first["at_peak"][name], first["counters"][name]["bytes"]
        kept = own["reserved"].get(name) if own else None
        print(
            f"{name:10}  {live / GIB:16.3f}  {live / sum(first['at_peak'].values()):6.1%}  "
            f"{served / GIB:23.3f}  " + ("–" if kept is None else f"{kept / GIB:.3f}")
        )


def median(group, key):
    return statistics.median(found[key] for found in group) / GIB


def reserved(found):
    """Return the most bytes that the pool reserved, or the sum of the libraries' own at the end."""
    return found["pool"].get("peak_reserved") or sum(found["reserved"].values())


def conditions(runs, rounds):
    """Return {condition: whether it holds}; those that need other runs are left out."""
    first = runs[0]
    limited = [found for found in runs if found["limit"]]
    own = [found for found in runs if found["allocator"] == "own"]
    total = sum(first["at_peak"].values())
    found = {
        "no element is wrong": not any(sum(one["wrong"].values()) for one in runs),
        f"each library holds {SHARE:.0%} of the peak": min(first["at_peak"].values())
        >= SHARE * total,
        "no run with the limit is out of memory": len(limited) == rounds
        and not any(one["pool"]["failures"] for one in limited),
        "the pool has not reserved more than the limit": all(
            one["pool"]["peak_reserved"] <= one["limit"] for one in limited
        ),
    }
    if own and limited and set(own[0]["versions"]) == set(first["versions"]):
        least = min(one["used_peak"] for one in own)
        most = max(one["used_peak"] for one in limited)
        found[f"Tarn uses {LESS:.0%} less of the device ({1 - most / least:.1%})"] = (
            most <= (1 - LESS) * least
        )
    return found


def show(runs, rounds):
    """Print the table and the conditions; return True if all hold."""
    print_table(runs)
    print()
    held = conditions(runs, rounds)
    for text, good in held.items():
        print(f"{'ok  ' if good else 'FAIL'}  {text}")
    return all(held.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", nargs="?", choices=("run", "table"), default="run")
    parser.add_argument("file", nargs="?", help="recorded figures, for the table")
    parser.add_argument("--unit", type=int, default=GIB, help="bytes of one level, default 1 GiB")
    parser.add_argument("--phases", type=int, default=32)
    parser.add_argument("--factor", type=float, default=1.1, help="limit : peak of live bytes")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--libraries", nargs="+", help="default: all that are installed")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of a run")
    parser.add_argument("--json", help="write the figures of all runs to this file")
    arguments = parser.parse_args()
    if arguments.action == "table":
        runs = json.loads(pathlib.Path(arguments.file).read_text())
        sys.exit(not show(runs, sum(bool(found["limit"]) for found in runs)))
    runs = run_all(arguments)
    if not runs:
        sys.exit(1)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(runs, separators=(",", ":")) + "\n")
    sys.exit(not show(runs, arguments.rounds))


if __name__ == "__main__":
    main()
