/* thread.c -- a thread's state, and what becomes of its streams when it ends. */
#include "sim/thread.h"

_Thread_local struct sim_thread sim_thread;
