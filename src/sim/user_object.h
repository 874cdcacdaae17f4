/* user_object.h -- what a client ties to the life of its graphs: a pointer that is handed
 * to a function of the client when the last of its references has gone.
 */
#ifndef TARN_SIM_USER_OBJECT_H
#define TARN_SIM_USER_OBJECT_H

#include <stdbool.h>

struct sim_graph;
struct sim_user_use; /* the references of one graph to one object */

/* `to` gets the references that `from` has. false: no host memory; what it has got goes
 * with it. Locked. */
bool sim_user_objects_copy(struct sim_graph *to, const struct sim_graph *from);

/* Let go of all references of `graph`. Locked. */
void sim_user_objects_drop(struct sim_graph *graph);

#endif
