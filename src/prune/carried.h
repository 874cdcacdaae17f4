/* carried.h -- carried references: sets of refops that cancel out together, across phis.
 */
#ifndef TARN_PRUNE_CARRIED_H
#define TARN_PRUNE_CARRIED_H

#include "prune/demand.h"
#include "prune/fanout_region.h"

/* Remove the largest set of refops that cancel out; false: no host memory. */
bool tarn__carried_prune(struct tarn__function_index *function_index,
                         struct tarn__fanout_regions *regions);

#endif
