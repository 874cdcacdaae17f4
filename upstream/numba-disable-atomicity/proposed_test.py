import subprocess
import sys
import unittest

from numba.tests.support import TestCase

CODE = """
import os
os.environ["NUMBA_NRT_STATS"] = "1"
import numpy as np
from numba import njit
from numba.core.runtime import nrtdynmod, rtsys
nrtdynmod._disable_atomicity = 1

@njit
def foo(n):
    return np.empty(n).size

foo(8)
before = rtsys.get_allocation_stats()
foo(8)
after = rtsys.get_allocation_stats()
assert after.mi_alloc - before.mi_alloc == 1, (before, after)
assert after.mi_free - before.mi_free == 1, (before, after)
"""


class TestWithoutAtomics(TestCase):
    def test_the_last_decref_frees(self):
        subprocess.run([sys.executable, "-c", CODE], check=True)


if __name__ == "__main__":
    unittest.main()
