/* tool.h -- the tool that is attached to this process by NVTX, if there is one. */
#ifndef TARN_NVTX_TOOL_H
#define TARN_NVTX_TOOL_H

#include "nvtx/abi.h"
#include <stdbool.h>

/* Functions of the tool that Tarn calls; NULL: the tool has none. */
struct tarn__tool {
    void *domain;                     /* "tarn" */
    tarn__nvtx_range_push range_push; /* both, or none: TARN_NVTX is not `ranges` */
    tarn__nvtx_range_pop range_pop;
    /* all but the last, or none */
    tarn__nvtx_heap_register heap_register;
    tarn__nvtx_heap_unregister heap_unregister;
    tarn__nvtx_regions_register regions_register;
    tarn__nvtx_regions_unregister regions_unregister;
    tarn__nvtx_regions_name regions_name;
};

/* Return true if the environment names a tool. It may not be loadable. */
bool tarn__tool_is_named(void);

/* Call the function of tarn__tool_on_heaps() for a checker of host memory, unless that was done. */
void tarn__tool_attach_host_checker(void);

/* Attach the tool, unless that was done. Call it in a scope of a device: tools use the
 * driver. Resources do so when they are created, so that a tool knows their first block. */
void tarn__tool_attach(void);

/* Return the attached tool, or NULL. */
const struct tarn__tool *tarn__tool_get(void);

/* Set the function that is called once a tool that wants heaps is attached. Call it when the
 * library is loaded. */
void tarn__tool_on_heaps(void (*function)(void));

#endif
