/* write_nothing.h -- a write function for a log that is dropped. */
#ifndef TARN_TEST_WRITE_NOTHING_H
#define TARN_TEST_WRITE_NOTHING_H

#include <stdbool.h>
#include <stddef.h>

/* The function of a trace writer that drops the text. */
static inline bool write_nothing(void *data, const char *bytes, size_t count)
{
    (void)data, (void)bytes, (void)count;
    return true;
}

#endif
