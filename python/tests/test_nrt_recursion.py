"""A call of a function that was never compiled, and functions that call themselves."""

import pytest
from numba import njit, types
from numba.core import typing
from numba.core.runtime import _nrt_python as core
from numba.extending import intrinsic


@intrinsic
def call_missing(_, number):
    def generate(context, builder, _, arguments):
        wanted = typing.signature(types.intp, types.intp)
        return context.call_unresolved(builder, "never_compiled", wanted, arguments)

    return types.intp(types.intp), generate


def test_a_function_that_was_never_compiled_is_numbas_runtime_error():
    assert hasattr(core, "tarn_version")
    with pytest.raises(RuntimeError, match="aborted due to unresolved symbol"):
        njit(lambda number: call_missing(number))(1)


@njit
def is_even(number):
    return True if number == 0 else is_odd(number - 1)


@njit
def is_odd(number):
    return False if number == 0 else is_even(number - 1)


def test_functions_that_call_each_other_find_each_other():
    assert is_even(10) and not is_even(11)
