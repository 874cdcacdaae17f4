/* arguments.h -- arguments of methods. */
#ifndef TARN_PYTHON_ARGUMENTS_H
#define TARN_PYTHON_ARGUMENTS_H

#include "state.h"

/* Read a number of bytes from an argument: 0, or -1 with TypeError, or OverflowError for
 * a negative number or one above SIZE_MAX. */
int tarn__arguments_size(PyObject *object, size_t *out);

/* Arguments of a method without a tuple and a dict (METH_FASTCALL | METH_KEYWORDS), for
 * calls so short that parsing would be most of their cost. */
struct tarn__signature {
    const char *format; /* as for PyArg_ParseTupleAndKeywords(); all of them "O" */
    char *names[4];     /* the last is NULL */
    int required;       /* the first so many are required */
};

/* `given` gets one for each name, borrowed; NULL: not given. 0, or -1 with the exception
 * of PyArg_ParseTupleAndKeywords(). */
int tarn__arguments(const struct tarn__signature *signature, PyObject *const *args,
                    Py_ssize_t count, PyObject *names, PyObject *given[3]);

#endif
