"""Functions for test_nrt_aot.py, which compiles them ahead of time and by Numba's dispatcher.

Each takes an integer and returns a number, or raises.
"""

import numpy as np
from numba import njit, typed, types


@njit
def factorial(n):
    if n < 0:
        raise ValueError("negative number given", n, n * 0.1, n < 0, "it's", ("a", n))
    if n < 2:
        return 1
    return n * factorial(n - 1)


@njit("int64(int64)")
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@njit
def is_even(n):
    if n <= 0:
        return True
    return is_odd(n - 1)


@njit
def is_odd(n):
    if n <= 0:
        return False
    return is_even(n - 1)


@njit
def double_often(a, n):
    if n <= 0:
        return a
    b = double_often(a, n - 1)
    return np.concatenate((b, b))


def through_another(n):
    return double_often(np.ones(2), n).sum()


def raises(n):
    if n == 1:
        raise IndexError("text", 7)
    if n == 2:
        raise IndexError("text", n)
    if n == 3:
        raise KeyError("k")
    if n == 4:
        raise ValueError
    if n == 5:
        raise ValueError("a", n, -(2**40), 1e100, None)
    return n


def raises_text(n):
    if n > 0:
        raise KeyError(str(n) + "é")
    return n


def typed_list(n):
    items = typed.List()
    for i in range(n + 3):
        items.append(float(i))
    items.insert(1, 7.0)
    items.extend(items)
    items.reverse()
    last = items.pop()
    del items[0]
    del items[1:2]
    items[0] = 3.0
    total = 0.0
    for item in items:
        total += item
    return total + last + items[100 * (n > 4)]


def list_of_arrays(n):
    items = typed.List()
    for i in range(n + 2):
        items.append(np.ones(i + 1))
    copy = items.copy()
    items.pop(0)
    items[0] = np.zeros(2)
    return copy[0].sum() + items[0].sum() + len(items)


def typed_dict(n):
    numbers = typed.Dict.empty(types.int64, types.float64)
    for i in range(n + 3):
        numbers[i * 7] = float(i)
    del numbers[7]
    total = numbers.pop(14)
    for key, value in numbers.items():
        total += key * value
    numbers.setdefault(5, 1.0)
    total += numbers.popitem()[1] + len(numbers) + numbers.get(28, 0.5)
    return total + numbers[0 if n < 5 else 99999]


def dict_of_arrays(n):
    arrays = {}
    for i in range(n + 1):
        arrays[i] = np.ones(i + 1)
    arrays[0] = arrays[n]
    total = arrays[0].sum()
    arrays.clear()
    arrays[3] = np.ones(3)
    return total + arrays[3].sum()


def dict_of_texts(n):
    places = {"a": 1, "b": 2}
    places["c" * n] = n
    total = 0
    for place in places:
        total += places[place]
    return total + places["b" if n < 5 else "missing"]


def a_set(n):
    numbers = set()
    for i in range(n + 9):
        numbers.add(i % 7)
    numbers |= {1, 2, 30}
    numbers.discard(2)
    total = 0
    for number in numbers:
        total += number
    return total + len(numbers) + (3 in numbers)


def over_an_axis(n):
    return np.ones((n, 3)).sum(axis=0).sum()


FEW = {
    "factorial": (factorial, "int64(int64)"),
    "even": (is_even.py_func, "boolean(int64)"),
    "raises": (raises, "int64(int64)"),
    "dict_of_texts": (dict_of_texts, "int64(int64)"),
}
ALL = {
    **FEW,
    "fibonacci": (fibonacci, "int64(int64)"),
    "odd": (is_odd, "boolean(int64)"),
    "through_another": (through_another, "float64(int64)"),
    "raises_text": (raises_text, "int64(int64)"),
    "typed_list": (typed_list, "float64(int64)"),
    "list_of_arrays": (list_of_arrays, "float64(int64)"),
    "typed_dict": (typed_dict, "float64(int64)"),
    "dict_of_arrays": (dict_of_arrays, "float64(int64)"),
    "a_set": (a_set, "int64(int64)"),
    "over_an_axis": (over_an_axis, "float64(int64)"),
}
NUMBERS = range(-1, 7)


def outcome(function, number):
    """Return what a C program prints for the call, computed by Numba in Python."""
    try:
        return f"{float(function(number)):g}"
    except Exception as error:
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def program(functions):
    """Return a C program that prints the outcome of each function for each number.

    At the end it fails if a block is live that no exception keeps: Numba releases nothing when
    it raises.
    """
    c_types = {"int64": "int64_t", "boolean": "uint8_t", "float64": "double"}
    calls = "\n".join(
        f"    {{ {c_types[signature.split('(')[0]]} result = 0;\n"
        f"      status = {name}(&result, &error, n);\n"
        f'      show("{name}", status, error, (double)result); }}'
        for name, (_, signature) in functions.items()
    )
    return (
        """#include "functions.h"
#include <stdio.h>
#include <tarn/tarn.h>

static int raised;

static void show(const char *name, int32_t status, const tarn_aot_error *error, double result)
{
    char text[300];
    if (status == TARN_AOT_OK) {
        printf("%s: %g\\n", name, result);
        return;
    }
    raised++;
    printf("%s: %s\\n", name, tarn_aot_error_message(error, text, sizeof text));
    tarn_aot_error_release(error);
}

static uint64_t live(void)
{
    tarn_runtime_stats stats = {.size = sizeof stats};
    tarn_runtime_stats_read(tarn_runtime_default(), &stats);
    return stats.alloc - stats.free;
}

static void call_all(int64_t n)
{
    const tarn_aot_error *error = NULL;
    int32_t status;

"""
        + calls
        + f"""
}}

int main(void)
{{
    for (int64_t n = {NUMBERS.start}; n < {NUMBERS.stop}; n++) {{
        uint64_t before = live();
        raised = 0;
        call_all(n);
        if (!raised && live() != before)
            return 1;
    }}
    return 0;
}}
"""
    )
