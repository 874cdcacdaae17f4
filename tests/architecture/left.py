#!/usr/bin/env python3
"""What does not keep the rules yet. A table may only get shorter: a test fails where an entry
is missing, and where one is no longer needed.

    left.py    prints the tables of this tree, to be pasted here; `ruff format` lays them out
"""

import sys
import textwrap

# Includes of a higher module, or of a higher layer inside the module: (file, header).
INCLUDES_LEFT: set[tuple[str, str]] = {
    ("src/resource/slab.c", "src/resource/pool/pool.h"),
}

# Cycles of calls between the files of a module, each as the stems that are in it.
CYCLES_LEFT: dict[str, tuple[str, ...]] = {
    "driver": ("open opened relaxed scope",),
    "sim": (
        "bytes call capture context device event event_foreign event_share faults graph "
        "graph_memory host ipc memory options physical pool pool_file procs races shared_file "
        "stream user_object vmm vmm_access work work_stream",
    ),
    "nrt": (
        "count dress hold make memsys misuse modes runtime snapshot stats thread",
        "meminfo varsize",
    ),
    "resource": ("internal resource share tap",),
    "pool": (
        "caller capture ended fence gap gather grow grow_vmm idle magazine magazine_hit make "
        "old pool pressure report search sleep steal streamless",
        "heap heap_cut heap_inside lane",
        "pages pages_move pages_peer pages_sleep pages_vmm",
        "pages_map pages_places",
    ),
    "pointer": ("pointer unreturned",),
    "ipc": ("connections files folder pooled segment server share wire",),
    "python/ext": (
        "bridge buffer capture copies deferred device driver error ipc log log_site maker "
        "manager memory module nrt plugin pointer pool pressure resource state stream",
    ),
}

# Shared functions that neither the header of their file nor that of their module declares.
HEADERS_LEFT: dict[str, int] = {
    "sim": 25,
    "nrt": 9,
    "prune": 8,
    "pool": 95,
    "trace": 9,
    "ipc": 8,
    "manager": 5,
}

# Shared functions whose names do not begin with the stem of their file.
STEMS_LEFT: dict[str, int] = {
    "base": 13,
    "driver": 18,
    "sim": 93,
    "nrt": 40,
    "prune": 17,
    "resource": 11,
    "pool": 161,
    "trace": 11,
    "adaptor": 2,
    "pointer": 11,
    "ipc": 27,
    "manager": 3,
}


def text_of_cycles(found: dict[str, list[list[str]]]) -> str:
    """The table of cycles as Python."""
    lines = ["CYCLES_LEFT: dict[str, tuple[str, ...]] = {"]
    for module, cycles in found.items():
        if cycles:
            lines.append(f'    "{module}": (')
            for cycle in cycles:
                parts = textwrap.wrap(" ".join(cycle), 84)
                lines += [f'        "{part} "' for part in parts[:-1]]
                lines.append(f'        "{parts[-1]}",')
            lines.append("    ),")
    return "\n".join([*lines, "}"])


def text_of_includes(found: set[tuple[str, str]]) -> str:
    """The table of includes as Python."""
    entries = [f'    ("{name}", "{header}"),' for name, header in sorted(found)]
    return "\n".join(["INCLUDES_LEFT: set[tuple[str, str]] = {", *entries, "}"])


def text_of_counts(name: str, found: dict[str, list[str]]) -> str:
    """A table of counts as Python."""
    entries = [f'    "{module}": {len(names)},' for module, names in found.items() if names]
    return "\n".join([f"{name}: dict[str, int] = {{", *entries, "}"])


def main() -> int:
    import calls
    import headers
    import layers
    from project import PROJECT, public_names, sources

    print(text_of_includes(layers.exceptions(PROJECT)))
    project, public = headers.parsed(sources()), public_names()
    print(text_of_cycles({name: calls.cycles(edges) for name, edges in calls.graphs().items()}))
    print(text_of_counts("HEADERS_LEFT", headers.without_header(project, public)))
    print(text_of_counts("STEMS_LEFT", headers.without_stem(project, public)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
