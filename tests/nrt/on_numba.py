#!/usr/bin/env python3
"""Checks the facts of facts.c on the core that this Python's Numba uses.

    on_numba.py build/release/tests/nrt/libtarn_nrt_facts.so [--own | --tarn]

Each fact runs in a child process, because some of them crash Numba's own core. Prints one line per
fact. --own: exit 0 if the facts marked as defects fail and those marked as facts hold, as on
Numba's own core. Facts marked as luck may do either. --tarn: exit 0 if all hold. The functions are
those of `_nrt_python.c_helpers`; the counters are read through the module.
"""

import ctypes
import os
import signal
import sys

FUNCTIONS = [
    "MemInfo_alloc",
    "MemInfo_alloc_safe",
    "MemInfo_alloc_aligned",
    "MemInfo_alloc_safe_aligned",
    "MemInfo_alloc_safe_aligned_external",
    "MemInfo_alloc_dtor",
    "MemInfo_alloc_dtor_safe",
    "MemInfo_call_dtor",
    "MemInfo_new_varsize",
    "MemInfo_new_varsize_dtor",
    "MemInfo_varsize_alloc",
    "MemInfo_varsize_realloc",
    "MemInfo_varsize_free",
    "MemInfo_data",
    "MemInfo_release",
    "Allocate",
    "Free",
    "get_api",
]
HOLDS, DEFECT, BY_LUCK = range(3)  # enum nrt_fact_kind
KINDS = ("fact  ", "defect", "luck  ")
STATS = ctypes.PYFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64))
CALL = ctypes.PYFUNCTYPE(None)


def core_table(module):
    """struct nrt_core, and the callbacks that have to stay alive."""

    @STATS
    def stats(out):
        out[0] = module.memsys_get_stats_alloc()
        out[1] = module.memsys_get_stats_free()
        out[2] = module.memsys_get_stats_mi_alloc()
        out[3] = module.memsys_get_stats_mi_free()

    shutdown = CALL(module.memsys_shutdown)
    addresses = [module.c_helpers[name] for name in FUNCTIONS]
    callbacks = [ctypes.cast(f, ctypes.c_void_p).value for f in (shutdown, stats)]
    table = (ctypes.c_void_p * (len(addresses) + 2))(*addresses, *callbacks)
    return table, (stats, shutdown)


def ask(library, index, table):
    """Return the result of a child process: "" (the fact holds), a message, or how it ended."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a damaged core may crash anywhere
        os.close(receive)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        seen = library.nrt_fact_ask(index, table) or b""
        os.write(send, b"!" + seen)
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if answer[:1] == b"!" and status == 0:
        return answer[1:].decode()
    return f"the process ended with {status}"


def main(arguments):
    library = ctypes.PyDLL(arguments[0])
    library.nrt_fact_name.restype = library.nrt_fact_ask.restype = ctypes.c_char_p
    library.nrt_fact_kind.restype = ctypes.c_int
    for function in (library.nrt_fact_name, library.nrt_fact_kind):
        function.argtypes = [ctypes.c_size_t]
    library.nrt_fact_ask.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    library.nrt_facts.restype = ctypes.c_size_t

    import numba.core.runtime._nrt_python as module

    module.memsys_enable_stats()
    table, alive = core_table(module)
    wrong = 0
    for index in range(library.nrt_facts()):
        seen = ask(library, index, table)
        kind = library.nrt_fact_kind(index)
        if "--own" in arguments:
            wrong += kind != BY_LUCK and bool(seen) != (kind == DEFECT)
        else:
            wrong += bool(seen)
        print(
            KINDS[kind],
            "fails" if seen else "holds",
            library.nrt_fact_name(index).decode(),
            f"({seen})" if seen else "",
        )
    del alive
    print(f"{library.nrt_facts()} asked, {wrong} not as expected")
    return 1 if wrong and ("--own" in arguments or "--tarn" in arguments) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
