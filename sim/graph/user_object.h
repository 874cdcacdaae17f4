/* user_object.h -- user objects: a client's pointer with references held by graphs. A
 * function of the client gets the pointer when the last reference is released. */
#ifndef TARN_SIM_USER_OBJECT_H
#define TARN_SIM_USER_OBJECT_H

#include "sim/core/cuda.h"
#include <stdbool.h>

struct sim_graph;
struct sim_user_use; /* the references of one graph to one object */

/* Copy the references of `from` to `to`. False: no host memory; then destroying `to`
 * releases those already copied. Locked. */
bool sim_user_objects_copy(struct sim_graph *to, const struct sim_graph *from);

/* Release all references of `graph`. Locked. */
void sim_user_objects_drop(struct sim_graph *graph);

/* Give references to `graph`, which may be NULL. With the flag MOVE the caller transfers
 * its own; otherwise new ones are added. The second function releases some. Locked. */
CUresult sim_user_object_retain(struct sim_graph *graph, CUuserObject handle,
                                unsigned count, unsigned flags);
CUresult sim_user_object_release(struct sim_graph *graph, CUuserObject handle,
                                 unsigned count);

#endif
