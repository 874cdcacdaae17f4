import unittest

import numpy as np
from numba import njit
from numba.tests.support import MemoryLeakMixin, TestCase


class TestUnfinishedGenerator(MemoryLeakMixin, TestCase):
    """MemoryLeakMixin compares allocations and frees of each test."""

    def test_map_that_is_not_iterated(self):
        @njit
        def foo():
            a = np.zeros(3)
            map(int, a)
            return a.size

        self.assertEqual(foo(), 3)

    def test_generator_that_is_left_early(self):
        @njit
        def items(a):
            yield a[0]
            yield a[1]

        @njit
        def foo():
            total = 0.0
            for x in items(np.ones(3)):
                total += x
                break
            return total

        self.assertEqual(foo(), 1.0)


if __name__ == "__main__":
    unittest.main()
