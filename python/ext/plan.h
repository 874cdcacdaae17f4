/* plan.h -- plans from files, for pools. */
#ifndef TARN_EXT_PLAN_H
#define TARN_EXT_PLAN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <tarn/plan.h>

/* Read the plan of the file `path` (bytes; NULL or None: no plan, `*out` is NULL). Returns
 * -1 with errno set, or the error of Tarn in `*status`; call it without the GIL. */
int tarn__plan_read_file(const char *path, tarn_plan **out, tarn_status *status);

#endif
