/* launch.h -- what a launch of a kernel does: it fails, because kernels do not run; or it
 * does nothing, with the option for that. */
#ifndef TARN_SIM_LAUNCH_H
#define TARN_SIM_LAUNCH_H

#include "sim/module/kernel.h"

/* Return the error of a launch. The first one of a process prints a line on stderr.
 * Locked. */
CUresult sim_launch_refuse(const struct sim_kernel *kernel);

/* Return CUDA_SUCCESS if launches are ignored, else refuse this one. Locked. */
CUresult sim_launch_check(const struct sim_kernel *kernel);

/* Create the operation of an ignored launch, and make the memory unknown that its
 * arguments point to. NULL: no host memory. Locked. */
struct sim_op *sim_launch_op(const struct sim_kernel *kernel);

#endif
