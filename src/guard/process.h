/* process.h -- the guard of all resources of the process, and the check of all guards at
 * exit. */
#ifndef TARN_GUARD_PROCESS_H
#define TARN_GUARD_PROCESS_H

#include "guard/guard.h"

/* Return the guard, or NULL with a message: guard mode is off. */
struct tarn__guard *tarn__process_guard(void);

/* Have exit() check all guards of the process. Call it after the driver is open. */
void tarn__process_check_at_exit(void);
/* Begin and end the check of a guard at exit. */
void tarn__process_add(struct tarn__guard *guard);
void tarn__process_remove(struct tarn__guard *guard);

#endif
