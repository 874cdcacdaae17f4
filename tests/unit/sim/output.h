/* output.h -- what a test prints, held line by line against a text that an H200 printed. */
#ifndef TARN_TESTS_SIM_OUTPUT_H
#define TARN_TESTS_SIM_OUTPUT_H

#include "test.h"
#include <stdarg.h>

static char output[1 << 16];
static size_t output_bytes;

__attribute__((format(printf, 1, 2))) static inline void print_output(const char *format,
                                                                      ...)
{
    va_list arguments;

    va_start(arguments, format);
    output_bytes += (size_t)vsnprintf(output + output_bytes, sizeof output - output_bytes,
                                      format, arguments);
    va_end(arguments);
    CHECK(output_bytes < sizeof output);
}

/* Return the first line that differs, or NULL if the texts are equal. */
static inline const char *other_line(const char *wanted, const char *got)
{
    while (*wanted && *wanted == *got)
        wanted++, got++;
    while (got > output && *wanted != *got && got[-1] != '\n')
        got--;
    return *wanted || *got ? got : NULL;
}

/* Check that the output since the last call equals the text in `name`, in tests/unit/sim.
 */
static inline void check_output(const char *name)
{
    static char wanted[sizeof output];
    char path[4096];
    const char *other;

    snprintf(path, sizeof path, TARN_SOURCE_DIR "/tests/unit/sim/%s", name);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    wanted[fread(wanted, 1, sizeof wanted - 1, file)] = '\0';
    fclose(file);
    other = other_line(wanted, output);
    if (other)
        fail_msg("%s says otherwise than: %.300s", name, other);
    output_bytes = 0;
    output[0] = '\0';
}

#endif
