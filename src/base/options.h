/* options.h -- option structs of a caller that may have been built with another version.
 *
 * All of them begin with their size in bytes, as the caller knows it. Fields that a later
 * version added are 0 where the caller requests nothing. This version can then read the
 * part of a longer struct that it knows. Where the caller requests more than this version
 * can do, the read fails.
 */
#ifndef TARN_BASE_OPTIONS_H
#define TARN_BASE_OPTIONS_H

#include <string.h>
#include <tarn/status.h>

/* Return TARN_INVALID_ARGUMENT, with a message that names `component`. The struct is
 * shorter than the first version's `least` bytes, or a field is set behind the `known`
 * bytes. */
tarn_status tarn__options_reject(const char *component, const void *options, size_t least,
                                 size_t known);

static inline tarn_status tarn__options_check(const char *component, const void *options,
                                              size_t least, size_t known)
{
    return *(const size_t *)options == known
               ? TARN_OK
               : tarn__options_reject(component, options, least, known);
}

/* Copy the known part of `options` (NULL: nothing) into the `known` bytes of `out`, with
 * zeros behind it. The size of `out` is then `known`. If the options are rejected, `out`
 * is unchanged. */
static inline tarn_status tarn__options_read(const char *component, const void *options,
                                             size_t least, void *out, size_t known)
{
    tarn_status status =
        options ? tarn__options_check(component, options, least, known) : TARN_OK;
    size_t given_size = options ? *(const size_t *)options : 0;

    if (status != TARN_OK)
        return status;
    memset(out, 0, known);
    if (given_size > 0)
        memcpy(out, options, given_size < known ? given_size : known);
    *(size_t *)out = known;
    return TARN_OK;
}

#endif
