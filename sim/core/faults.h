/* faults.h -- fault injection: which calls fail, and which are slow. */
#ifndef TARN_SIM_FAULTS_H
#define TARN_SIM_FAULTS_H

#include "sim/core/cuda.h"
#include "sim/core/options.h"
#include <stdbool.h>

/* Return true if these options make any call fail or slow. */
bool sim_faults_are_enabled(const struct sim_options *options);

/* Restart the count of calls at 0. */
void sim_faults_start(void);

/* The result that is injected into call number `number`, named `call`. CUDA_SUCCESS: no
 * fault. `traits` are those of call.h. Not locked. */
CUresult sim_faults_inject(const char *call, unsigned traits, uint64_t number);

/* Delay the call as long as the options specify. Not locked. */
void sim_faults_delay(const char *call);

/* The number of calls that failed by injection since the start. */
unsigned long long sim_faults_count(void);

#endif
