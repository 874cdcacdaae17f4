/* pool_place.h -- the kinds of pools, by their locations. */
#ifndef TARN_SIM_POOL_PLACE_H
#define TARN_SIM_POOL_PLACE_H

#include "sim/memory/pool.h"

/* Find the pool kind for a CUmemAllocationType and a location, if there is one. */
CUresult sim_pool_place_kind(int type, const CUmemLocation *location,
                             enum sim_pool_kind *out);

#endif
