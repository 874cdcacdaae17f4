/* procs.h -- which calls there are. */
#ifndef TARN_SIM_PROCS_H
#define TARN_SIM_PROCS_H

#include <stdbool.h>

/* Is there a call of that name, versions aside? */
bool sim_call_is_known(const char *name);

#endif
