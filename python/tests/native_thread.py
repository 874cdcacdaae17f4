"""Calls of libtarn on a thread that Python does not know."""

import ctypes
import os

import tarn

LIBRARY = ctypes.CDLL(os.path.join(tarn.get_library_dir(), "libtarn.so.0.2"))


def call(function, argument):
    """Call a C function with one argument on a thread of its own; return its 64 bits."""
    libc, thread, result = ctypes.CDLL(None), ctypes.c_ulong(), ctypes.c_void_p()
    started = libc.pthread_create(ctypes.byref(thread), None, function, ctypes.c_void_p(argument))
    assert started == 0
    assert libc.pthread_join(thread, ctypes.byref(result)) == 0
    return result.value or 0
