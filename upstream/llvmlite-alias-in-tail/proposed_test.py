import subprocess
import sys
import unittest

from numba.tests.support import TestCase

CODE = """
import numpy as np
from numba import njit

@njit
def make(value):
    a = np.empty(3)
    a[:] = value
    return a

@njit
def foo(n, flag):
    arrays = [make(1.0), make(1.0)]
    x = arrays[0]
    if flag:
        n += 1
    arrays.pop(0)
    return x[0] + n

assert foo(3, True) == 5.0
"""


class TestItemOutlivesItsList(TestCase):
    def test_item_is_used_after_pop(self):
        """PYTHONMALLOC=debug fills freed memory, so a late read is noticed."""
        env = {"PYTHONMALLOC": "debug"}
        subprocess.run([sys.executable, "-c", CODE], check=True, env=env)


if __name__ == "__main__":
    unittest.main()
