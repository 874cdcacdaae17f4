"""What the programs about leaks share: counting the MemInfos that calls leave live."""

import gc
import os

os.environ["NUMBA_NRT_STATS"] = "1"


def leaked(function, *arguments, calls=10):
    """Return how many MemInfos stay live after ten calls, whose exceptions are dropped."""
    from numba.core.runtime import rtsys

    def call():
        try:
            function(*arguments)
        except Exception as error:
            error.__traceback__ = None

    call()  # compiles
    gc.collect()
    before = rtsys.get_allocation_stats()
    for _ in range(calls):
        call()
    gc.collect()
    after = rtsys.get_allocation_stats()
    return (after.mi_alloc - before.mi_alloc) - (after.mi_free - before.mi_free)


def report(is_shown, text):
    """Print the line that python/tests/test_upstream.py reads."""
    print(f"{'shown' if is_shown else 'fixed'}: {text}")
