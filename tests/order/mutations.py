#!/usr/bin/env python3
"""Checks that the order tests detect a pool that breaks one of its rules.

    mutations.py ORDER_MUTATED MUTATIONS_H [NAME...]

Runs the harness on a libtarn in which one rule after the other is broken (the list in
src/pool/mutations.h), with the scenarios named below, and fails for a rule that
no run notices or that no code queries; and for a run that fails with none broken.
"""

import os
import re
import subprocess
import sys
import time

# The runs that detect each rule: runs of the harness, tried in turn until one fails. The last field
# is the value of TARN_SIM's further options.
RUNS = {
    "no_renewal": ["--scenario merge --seeds 40", "--scenario steal --seeds 40"],
    "epoch_closed_after_record": ["--scenario shared --mode eager --seeds 40"],
    "epoch_closed_after_query": [
        "--scenario shared --mode eager --seeds 40",
        "--scenario shared --mode eager --seeds 40 --seed 40",
    ],
    "stream_not_queried": ["--scenario steal --seeds 40"],
    "fence_published_before_call": ["--scenario late --mode eager --seeds 40"],
    "event_recycled_in_use": ["--scenario late-large --mode eager --seeds 40"],
    "remainder_without_fence": ["--scenario merge --seeds 40"],
    "id_not_checked_before_record": ["--scenario streams-end --seeds 40"],
    "thread_cache_block_to_capture": [
        "--scenario captures --seeds 40",
        "--scenario captures-opened --seeds 40",
    ],
    "refill_in_capture": ["--scenario captures-joined --seeds 40"],
    "cache_kept_in_capture": ["--scenario captures-joined --seeds 40"],
    "coalesced_across_streams": ["--scenario merge --seeds 40", "--scenario steal --seeds 40"],
    "completed_too_early": ["--scenario steal --seeds 40"],
    "segment_border_lost": ["--scenario trim --resource pool/cuda --seeds 40"],
    "unmapped_with_fence_pending": ["--scenario trim --seeds 40"],
    "moved_without_wait": ["--scenario moves --seeds 40"],
    "moved_taken_as_completed": ["--scenario moves --seeds 40"],
    "plan_not_checked": [  # with some seeds the broken heap hangs
        "--scenario moves-interrupted --seeds 40 --seed 1",
        "--scenario moves-interrupted --seeds 40 --seed 40",
    ],
    "assembled_without_wait": ["--scenario moves --seeds 40"],
    "retired_unmapped_early": ["--scenario moves --seeds 40"],
    "moves_anyway": ["--scenario moves-never --seeds 40"],
    "growth_published_before_mapped": [
        "--scenario growth-fails --seeds 40",
        "--scenario growth --mode eager --seeds 20",
    ],
    "wait_failed_taken_as_done": ["--scenario waits-fail --seeds 40"],
    "wait_noted_before_call": ["--scenario waits-fail --seeds 40", "--scenario steal --seeds 40"],
    "wait_remembered_too_far": ["--scenario steal --seeds 40"],
    "wait_used_in_capture": [
        "--scenario captures-joined --seeds 40",
        "--scenario captures-opened --mode eager --seeds 40",
    ],
    "steal_without_wait": ["--scenario steal --seeds 40"],
    "device_wait_left_out": ["--scenario nobody --seeds 40"],
    "closed_after_device_wait": ["--scenario nobody --mode eager --seeds 40"],
    "no_stream_is_in_order": ["--scenario nobody --seeds 40"],
    "event_on_default_stream": ["--scenario nobody-event --seeds 40"],
    "returned_taken_as_completed": [
        "--scenario trim --seeds 40",
        "--scenario streams-end --seeds 40",
        "--scenario shared --seeds 40",
    ],
    "plan_trusted_for_order": [
        "--scenario steal --resource pool/plan --seeds 40",
        "--scenario trim --resource pool/learn --seeds 40",
    ],
    "orphaned_taken_as_completed": [
        "--scenario handles-come-back --seeds 40",
        "--scenario streams-end --seeds 40",
    ],
}
REUSES = 200  # a seed
LIMIT_S = 60


def names_of(header):
    """Return the rules, in the order of the header."""
    with open(header, encoding="utf-8") as file:
        return re.findall(r"^\s+X\((\w+),", file.read(), re.MULTILINE)


def run(program, name, arguments):
    """Return (whether the harness failed, how often it reached the broken code, its output)."""
    words = arguments.split()
    seeds = int(words[words.index("--seeds") + 1])
    environment = {**os.environ, "TARN_MUTATION": name}
    try:
        done = subprocess.run(
            [program, *words, "--reuses", str(REUSES * seeds)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return False, 0, f"hangs for {LIMIT_S} s"
    reached = re.search(r"reached (\d+) times", done.stderr)
    told = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith(("mutation ", "tarn simulator: race"))
    ]
    return (
        done.returncode != 0,
        int(reached[1]) if reached else 0,
        told[-1] if told else f"exit {done.returncode}",
    )


def look(program, name):
    """Print one line on a rule; return True if it was detected."""
    started = time.monotonic()
    reached_at_all = 0
    for arguments in RUNS[name]:
        failed, reached, words = run(program, name, arguments)
        reached_at_all += reached
        if failed:
            print(
                f"{name}: seen by {arguments}, {time.monotonic() - started:.1f} s: {words[:160]}",
                flush=True,
            )
            return True
    print(f"{name}: NOT SEEN, reached {reached_at_all} times", flush=True)
    return False


def sound(program):
    """Check that all runs above pass with no rule broken."""
    good = True
    for arguments in sorted({a for runs in RUNS.values() for a in runs}):
        failed, _, words = run(program, "", arguments.replace("--seeds 40", "--seeds 3"))
        if failed:
            print(f"with nothing broken: {arguments}: {words}", flush=True)
            good = False
    return good


def main(arguments):
    program, header, *chosen = arguments
    names = names_of(header)
    missing = [name for name in names if name not in RUNS]
    for name in missing:
        print(f"{name}: no run is named for it")
    good = sound(program) if not chosen else True
    seen = [
        look(program, name) for name in names if name in RUNS and (not chosen or name in chosen)
    ]
    print(f"{sum(seen)} of {len(seen)} seen")
    return 0 if good and all(seen) and not missing else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
