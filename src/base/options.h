/* options.h -- options that a caller passes, who may have been built with another version.
 *
 * All of them begin with their size in bytes, as the caller knows them. What a later version
 * added is 0 where nothing is asked for, so that longer ones can be read as far as they are
 * known; where something is asked for that this version cannot do, it says so.
 */
#ifndef TARN_BASE_OPTIONS_H
#define TARN_BASE_OPTIONS_H

#include <string.h>
#include <tarn/status.h>

/* TARN_INVALID_ARGUMENT, and a line by `who`: shorter than the first version's `least`
 * bytes, or something is set behind the `known` bytes. */
tarn_status tarn__options_refuse(const char *who, const void *options, size_t least,
                                 size_t known);

static inline tarn_status tarn__options_check(const char *who, const void *options,
                                              size_t least, size_t known)
{
    return *(const size_t *)options == known
               ? TARN_OK
               : tarn__options_refuse(who, options, least, known);
}

/* What both know of `options` (NULL: nothing), zeros behind it, into the `known` bytes of
 * `out`, whose size is then `known`. As it was where they are refused. */
static inline tarn_status tarn__options_read(const char *who, const void *options,
                                             size_t least, void *out, size_t known)
{
    tarn_status status =
        options ? tarn__options_check(who, options, least, known) : TARN_OK;
    size_t given = options ? *(const size_t *)options : 0;

    if (status != TARN_OK)
        return status;
    memset(out, 0, known);
    if (given > 0)
        memcpy(out, options, given < known ? given : known);
    *(size_t *)out = known;
    return TARN_OK;
}

#endif
