/* pointer.c -- nothing yet; the module's table calls it. */
#include "state.h"

int tarn__add_pointer(PyObject *module)
{
    (void)module;
    return 0;
}
