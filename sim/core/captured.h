/* captured.h -- the captured record of an event, which graph/ fills in. */
#ifndef TARN_SIM_CAPTURED_H
#define TARN_SIM_CAPTURED_H

#include <stddef.h>
#include <stdint.h>

/* A list of nodes of a graph without duplicates. */
struct sim_nodes {
    struct sim_node **list;
    size_t count, capacity;
};

/* The captured record of an event: it has no time on the device. */
struct sim_captured {
    uint64_t capture; /* its id; 0: the event was not recorded in a capture */
    struct sim_nodes nodes;
};

#endif
