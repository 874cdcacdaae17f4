/* load.h -- may this program load code that its user names? */
#ifndef TARN_MANAGER_LOAD_H
#define TARN_MANAGER_LOAD_H

#include <stdbool.h>

/* Does the program have rights that its user lacks (set-uid, file capabilities)? */
bool tarn__load_is_privileged(void);

#endif
