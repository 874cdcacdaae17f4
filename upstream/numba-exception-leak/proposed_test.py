import unittest

import numpy as np
from numba import njit
from numba.tests.support import MemoryLeakMixin, TestCase


class TestRaiseReleases(MemoryLeakMixin, TestCase):
    """MemoryLeakMixin compares allocations and frees of each test."""

    def test_index_error_of_a_list(self):
        @njit
        def foo(n):
            items = [np.ones(3)]
            return items[n].sum()

        with self.assertRaises(IndexError) as caught:
            foo(5)
        caught.exception.__traceback__ = None


if __name__ == "__main__":
    unittest.main()
