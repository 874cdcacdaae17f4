/* launch.h -- what a launch of a kernel does: it fails, because kernels do not run. */
#ifndef TARN_SIM_LAUNCH_H
#define TARN_SIM_LAUNCH_H

#include "sim/module/kernel.h"

/* Return the error of a launch. The first one of a process prints a line on stderr.
 * Locked. */
CUresult sim_launch_refuse(const struct sim_kernel *kernel);

#endif
