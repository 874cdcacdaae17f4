/* importer.h -- the second process of a soak, which opens the handles of the first. */
#ifndef SOAK_IMPORTER_H
#define SOAK_IMPORTER_H

#include "figures.h"
#include <tarn/tarn.h>

struct importer_answer {
    uint64_t wrong;        /* bytes that differ from what the owner wrote */
    uint64_t open_ns;      /* CPU time of opening and releasing */
    uint64_t device_bytes; /* device memory in use, as this process sees it */
    struct figures figures;
};

/* Start the importer. The driver must not be open yet. */
void importer_start(void);

/* Let the importer open a handle and compare all bytes with `value`. */
struct importer_answer importer_open(const tarn_ipc_handle *handle, unsigned char value);

/* End the importer; fail unless it ends with 0. */
void importer_end(void);

/* Return the bytes of device memory in use, by the driver. */
uint64_t device_bytes(tarn_resource *of_driver);

#endif
