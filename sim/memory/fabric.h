/* fabric.h -- fabric handles: 64 bytes that name physical memory on every node. */
#ifndef TARN_SIM_FABRIC_H
#define TARN_SIM_FABRIC_H

#include "sim/core/cuda.h"
#include "sim/memory/shared_file.h"
#include <stdbool.h>

/* Return true if this process has an IMEX channel: an option of the simulator. */
bool sim_fabric_has_channel(void);

/* Make the handle of memory in `file`, whose page has `id`. */
CUresult sim_fabric_export(int file, uint64_t id, CUmemFabricHandle *out);

/* Open the file that a handle names, and read its page. The caller closes the file. */
CUresult sim_fabric_open(const CUmemFabricHandle *handle, int *file,
                         struct sim_shared_page *page);

#endif
