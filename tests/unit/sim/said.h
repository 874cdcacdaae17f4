/* said.h -- what a test prints, held line by line against a text that an H200 printed. */
#ifndef TARN_TESTS_SIM_SAID_H
#define TARN_TESTS_SIM_SAID_H

#include "test.h"
#include <stdarg.h>

static char said[1 << 16];
static size_t said_bytes;

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    said_bytes +=
        (size_t)vsnprintf(said + said_bytes, sizeof said - said_bytes, format, arguments);
    va_end(arguments);
    CHECK(said_bytes < sizeof said);
}

/* The first line that is another, or NULL where the texts are the same. */
static inline const char *other_line(const char *wanted, const char *got)
{
    while (*wanted && *wanted == *got)
        wanted++, got++;
    while (got > said && *wanted != *got && got[-1] != '\n')
        got--;
    return *wanted || *got ? got : NULL;
}

/* All that was said since the last time is the text in `name`, in tests/unit/sim. */
static inline void check_said(const char *name)
{
    static char wanted[sizeof said];
    char path[4096];
    const char *other;

    snprintf(path, sizeof path, TARN_SOURCE_DIR "/tests/unit/sim/%s", name);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    wanted[fread(wanted, 1, sizeof wanted - 1, file)] = '\0';
    fclose(file);
    other = other_line(wanted, said);
    if (other)
        fail_msg("%s says otherwise than: %.300s", name, other);
    said_bytes = 0;
    said[0] = '\0';
}

#endif
