/* hooks.c -- the number of captures: while there are none, no call queries the rules. */
#include "sim/core/hooks.h"

atomic_uint sim_hooks_captures;
