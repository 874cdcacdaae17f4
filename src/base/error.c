/* error.c -- the words of the last failure, one line a thread.
 *
 * They live in thread-local storage, so that the hot calls need no argument for them. The
 * line is formatted into a local first: a plugin may quote the message that it replaces.
 */
#include <tarn/status.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local tarn_error last_error = {.status = TARN_OK, .message = ""};

const tarn_error *tarn_error_last(void)
{
    return &last_error;
}

TARN_PRINTF(3, 0)
static tarn_status record(tarn_status status, int native, const char *format,
                          va_list arguments)
{
    char message[sizeof last_error.message];

    vsnprintf(message, sizeof message, format, arguments);
    last_error.status = status;
    last_error.native = native;
    memcpy(last_error.message, message, sizeof message);
    return status;
}

tarn_status tarn_error_set(tarn_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    record(status, 0, format, arguments);
    va_end(arguments);
    return status;
}

tarn_status tarn_error_set_native(tarn_status status, int native, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    record(status, native, format, arguments);
    va_end(arguments);
    return status;
}

const char *tarn_status_name(tarn_status status)
{
    switch (status) {
#define X(name, value, meaning) \
    case value:                 \
        return "TARN_" #name;
        TARN_STATUS_MAP(X)
#undef X
    }
    return "TARN_?";
}

const char *tarn_status_meaning(tarn_status status)
{
    switch (status) {
#define X(name, value, meaning) \
    case value:                 \
        return meaning;
        TARN_STATUS_MAP(X)
#undef X
    }
    return "no status of Tarn";
}
