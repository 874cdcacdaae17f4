/* name.h -- names in the tables of foreign code: their length has a bound, so that a message
 * that quotes one has space for the problem, too.
 */
#ifndef TARN_BASE_NAME_H
#define TARN_BASE_NAME_H

#include <stdbool.h>
#include <string.h>

enum { TARN__NAME_MOST = 127 };

/* It reads no further than the bound: a name may have no end. */
static inline bool tarn__name_fits(const char *name)
{
    return memchr(name, 0, TARN__NAME_MOST + 1) != NULL;
}

#endif
