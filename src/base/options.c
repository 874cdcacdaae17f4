/* options.c -- option structs of another version's caller: whether they are too short, or
 * longer than this version knows. */
#include "base/options.h"
#include <stdbool.h>

/* The options of every version are shorter: a larger size was never set. */
enum { OPTIONS_MOST = 4096 };

static bool is_zero(const unsigned char *bytes, size_t from, size_t to)
{
    while (from < to && bytes[from] == 0)
        from++;
    return from >= to;
}

tarn_status tarn__options_reject(const char *component, const void *options, size_t least,
                                 size_t known)
{
    size_t given_size = *(const size_t *)options;

    if (given_size < least)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: options.size is %zu, at least %zu is required",
                              component, given_size, least);
    if (given_size > OPTIONS_MOST || !is_zero(options, known, given_size))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "%s: options.size is %zu, and fields beyond the %zu bytes "
                              "that this libtarn knows are set",
                              component, given_size, known);
    return TARN_OK;
}
