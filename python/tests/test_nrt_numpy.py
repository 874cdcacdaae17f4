"""The declarations of python/ext/nrt/numpy_abi.h against the headers of this NumPy."""

import pathlib
import subprocess
import sysconfig

import numpy

ABI = pathlib.Path(__file__).resolve().parents[1] / "ext" / "nrt"

PROGRAM = """
#include <stddef.h>
#include "numpy_abi.h"
#define NPY_TARGET_VERSION NPY_1_23_API_VERSION
#include <numpy/ndarrayobject.h>

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours " is not " #theirs)
#define FIELD(ours, theirs) \\
    SAME(offsetof(struct numpy_array, ours), offsetof(PyArrayObject_fields, theirs))
FIELD(data, data);
FIELD(nd, nd);
FIELD(dimensions, dimensions);
FIELD(strides, strides);
FIELD(base, base);
FIELD(descr, descr);
FIELD(flags, flags);
SAME(offsetof(struct numpy_dtype_2, elsize), offsetof(_PyArray_DescrNumPy2, elsize));
SAME(sizeof(((struct numpy_dtype_2 *)0)->elsize), sizeof(((_PyArray_DescrNumPy2 *)0)->elsize));
SAME(offsetof(struct numpy_dtype_1, elsize), offsetof(PyArray_DescrProto, elsize));
SAME(sizeof(((struct numpy_dtype_1 *)0)->elsize), sizeof(((PyArray_DescrProto *)0)->elsize));
SAME(NUMPY_WRITEABLE, NPY_ARRAY_WRITEABLE);

/* Places in the table: the macros of NumPy's header, taken at their word. */
#undef PyArray_API
static void *table[400];
#define PyArray_API table
int main(void)
{
    for (int i = 0; i < 400; i++)
        table[i] = &table[i];
    return (void *)&PyArray_Type != table[NUMPY_ARRAY_TYPE] ||
           (void *)&PyArrayDescr_Type != table[NUMPY_DTYPE_TYPE] ||
           (void *)PyArray_GetNDArrayCVersion != table[NUMPY_ABI_VERSION] ||
           (void *)PyArray_NewFromDescr != table[NUMPY_NEW_FROM_DESCR] ||
           (void *)PyArray_SetBaseObject != table[NUMPY_SET_BASE_OBJECT];
}
"""


def test_declarations_are_those_of_numpy(tmp_path):
    source = tmp_path / "abi.c"
    source.write_text(PROGRAM)
    python = sysconfig.get_paths()
    command = ["cc", "-O1", "-I", ABI, "-I", python["include"], "-I", numpy.get_include()]
    command += [source, "-o", tmp_path / "abi", "-Wl,--unresolved-symbols=ignore-all"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "abi"]).returncode == 0
