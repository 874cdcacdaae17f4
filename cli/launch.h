/* launch.h -- what the verbs `run` and `sim` share: they prepare the environment and
 * replace the tool by a program. So signals, the terminal and the exit code are the
 * program's own.
 *
 * A program is a list of words: a file *.py, `-m MODULE` or `-c CODE` with arguments for
 * the Python of Tarn's installation, or any command. Each function returns 0, or the exit
 * code after one line on stderr.
 */
#ifndef TARN_CLI_LAUNCH_H
#define TARN_CLI_LAUNCH_H

#include "tool.h"
#include <limits.h>

/* Check this before anything is changed: a program given by its path has to exist. */
int launch_check(const struct verb *verb, char **program);

/* Set a variable of the environment. */
int launch_set(const struct verb *verb, const char *name, const char *value);

/* Make `path` absolute without resolving links. false: errno tells why. */
bool launch_absolute(const char *path, char absolute[PATH_MAX]);

/* Set TARN_DRIVER, and the path of the loader where the driver is not the system's own.
 * NULL: the driver that the environment specifies. */
int launch_driver(const struct verb *verb, const char *driver);

/* Return true if the program is Python: words for it, a Python by its name, or a script
 * whose first line names it. */
bool launch_is_python(char **program);

/* Replace the tool by the program; returns only if that fails. */
int launch_exec(const struct verb *verb, char **program);

#endif
