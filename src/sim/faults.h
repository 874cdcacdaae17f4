/* faults.h -- which calls fail, and which are slow. */
#ifndef TARN_SIM_FAULTS_H
#define TARN_SIM_FAULTS_H

#include "sim/cuda.h"
#include "sim/options.h"
#include <stdbool.h>

/* Do these options want any call to fail or to be slow? */
bool sim_faults_are_wanted(const struct sim_options *options);

/* Count from 0 again. */
void sim_faults_start(void);

/* What the `number`-th call, of name `call`, returns; CUDA_SUCCESS: no fault. `traits`
 * are those of call.h. Not locked. */
CUresult sim_faults_strike(const char *call, unsigned traits, uint64_t number);

/* Be as slow as the options want. Not locked. */
void sim_faults_delay(const char *call);

/* How many calls were made to fail since the start. */
unsigned long long sim_faults_count(void);

#endif
