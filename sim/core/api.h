/* api.h -- prototypes of every driver call, from the list in calls.h, and of the
 * simulator's own controls. */
#ifndef TARN_SIM_API_H
#define TARN_SIM_API_H

#include "sim/core/calls.h"
#include "sim/core/cuda.h"
#include <tarn/sim.h>

#define SIM_EXPORT __attribute__((visibility("default")))

enum { SIM_DRIVER_VERSION = 13000, SIM_COMPUTE_MAJOR = 9 };

#define SIM_X(name, version, symbol, parameters) SIM_EXPORT CUresult symbol parameters;
#define SIM_Z(name, version, symbol, per_thread, parameters, arguments) \
    SIM_EXPORT CUresult symbol parameters;                              \
    SIM_EXPORT CUresult per_thread parameters;
SIM_CALLS(SIM_X, SIM_Z)
#undef SIM_X
#undef SIM_Z

SIM_EXPORT tarn_sim_configure_fn tarn_sim_configure;
SIM_EXPORT tarn_sim_error_fn tarn_sim_error;
SIM_EXPORT tarn_sim_faults_fn tarn_sim_faults;
SIM_EXPORT tarn_sim_misuses_fn tarn_sim_misuses;
SIM_EXPORT tarn_sim_races_fn tarn_sim_races;
SIM_EXPORT tarn_sim_race_fn tarn_sim_race;
SIM_EXPORT tarn_sim_unknown_reads_fn tarn_sim_unknown_reads;
SIM_EXPORT tarn_sim_calls_fn tarn_sim_calls;
SIM_EXPORT tarn_sim_live_bytes_fn tarn_sim_live_bytes;

#endif
