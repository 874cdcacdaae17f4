/* procs.h -- the names of the calls. */
#ifndef TARN_SIM_PROCS_H
#define TARN_SIM_PROCS_H

#include <stdbool.h>

/* Return true if there is a call of that name in any version. */
bool sim_call_is_known(const char *name);

#endif
