/* error.c -- the message of the last failure, one line for each thread.
 *
 * The message belongs to the thread, so that the hot functions need no argument for it.
 * The line is formatted into a local first: a plugin may quote the message that it
 * replaces.
 */
#include "base/error.h"
#include "base/thread.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const tarn_error none = {.status = TARN_OK, .message = ""};
static const tarn_error no_host_memory = {
    .status = TARN_OUT_OF_MEMORY, .message = "no host memory for an error message"};

_Thread_local unsigned tarn__error_count;
static _Thread_local bool
    message_lost; /* the last failure found no memory for its message */

const tarn_error *tarn_error_last(void)
{
    const struct tarn__thread_messages *messages = tarn__thread_messages_find();

    if (message_lost)
        return &no_host_memory;
    return messages ? &messages->error : &none;
}

TARN_PRINTF(3, 0)
static tarn_status record(tarn_status status, int native, const char *format,
                          va_list arguments)
{
    char message[sizeof none.message];

    vsnprintf(message, sizeof message, format, arguments);
    struct tarn__thread_messages *messages = tarn__thread_messages_get();
    tarn__error_count++;
    message_lost = !messages;
    if (message_lost)
        return status;
    messages->error.status = status;
    messages->error.native = native;
    memcpy(messages->error.message, message, sizeof message);
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

struct tarn__kept_error tarn__error_keep(void)
{
    return (struct tarn__kept_error){*tarn_error_last(), tarn__error_count};
}

tarn_status tarn__error_restore(const struct tarn__kept_error *kept)
{
    if (tarn__error_count != kept->count)
        tarn_error_set_native(kept->error.status, kept->error.native, "%s",
                              kept->error.message);
    tarn__error_count = kept->count;
    return kept->error.status;
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

const char *tarn_status_string(tarn_status status)
{
    switch (status) {
#define X(name, value, meaning) \
    case value:                 \
        return meaning;
        TARN_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}
