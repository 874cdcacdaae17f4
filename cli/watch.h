/* watch.h -- says that a program left its log empty. */
#ifndef TARN_CLI_WATCH_H
#define TARN_CLI_WATCH_H

#include "tool.h"

/* Start a process that waits for the end of this one, which becomes `program`. If the log
 * and those of child processes are empty then, it prints one line on stderr. `log` is an
 * absolute path. Return a descriptor that exec closes; a byte in it ends the watch. -1: no
 * process could be started, and nothing will be said. */
int watch_log(const struct verb *verb, const char *log, const char *program);

#endif
