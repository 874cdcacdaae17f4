/* thread.c -- the state of a thread. */
#include "sim/core/thread.h"

_Thread_local struct sim_thread sim_thread;
