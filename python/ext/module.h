/* module.h -- the functions that fill the module, one of each file. */
#ifndef TARN_PYTHON_MODULE_H
#define TARN_PYTHON_MODULE_H

#include "state.h"

/* Add the contents of a file to the module: its types, functions and constants. 0, or -1
 * with an exception set. module.c calls them in the order of its table. */
int tarn__error_init(PyObject *module);
int tarn__driver_init(PyObject *module);
int tarn__stream_init(PyObject *module);
int tarn__resource_init(PyObject *module);
int tarn__gil_init(PyObject *module);
int tarn__maker_init(PyObject *module);
int tarn__pool_init(PyObject *module);
int tarn__capsule_init(PyObject *module);
int tarn__capture_init(PyObject *module);
int tarn__oom_callback_init(PyObject *module);
int tarn__device_init(PyObject *module);
int tarn__buffer_init(PyObject *module);
int tarn__copies_init(PyObject *module);
int tarn__dlpack_export_init(PyObject *module);
int tarn__dlpack_import_init(PyObject *module);
int tarn__pointer_init(PyObject *module);
int tarn__deferred_init(PyObject *module);
int tarn__memory_init(PyObject *module);
int tarn__plugin_init(PyObject *module);
int tarn__manager_init(PyObject *module);
int tarn__ipc_init(PyObject *module);
int tarn__live_init(PyObject *module);
int tarn__log_init(PyObject *module);
int tarn__log_methods_init(PyObject *module);
int tarn__log_observer_init(PyObject *module);
int tarn__nrt_init(PyObject *module);
int tarn__stack_init(PyObject *module);
int tarn__torch_init(PyObject *module);
int tarn__tracker_init(PyObject *module);
int tarn__guard_init(PyObject *module);

#endif
