/* error.c -- the words of the last failure, one line a thread.
 *
 * A thread takes memory for them at its first failure, and only the pointer is thread-local:
 * a library that is opened while the program runs gets its thread-local storage from little
 * that all such libraries share, and cannot be opened when that is used up. The line is
 * formatted into a local first: a plugin may quote the message that it replaces.
 */
#include <tarn/status.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tarn_error none = {.status = TARN_OK, .message = ""};
static const tarn_error no_room = {
    .status = TARN_OUT_OF_MEMORY, .message = "no host memory for the words of a failure"};

static _Thread_local tarn_error *own; /* this thread's; NULL: none yet */
static _Thread_local bool wordless;   /* the last failure found no memory */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its value is `own`, for end_thread() */
static bool key_made;

static void end_thread(void *value)
{
    own = NULL;
    free(value);
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, end_thread) == 0;
}

/* This thread's place for words; NULL: no host memory. */
static tarn_error *place(void)
{
    if (own)
        return own;
    pthread_once(&once, make_key);
    tarn_error *fresh = key_made ? malloc(sizeof *fresh) : NULL;
    if (fresh && pthread_setspecific(key, fresh) != 0) {
        free(fresh);
        fresh = NULL;
    }
    return own = fresh;
}

const tarn_error *tarn_error_last(void)
{
    if (wordless)
        return &no_room;
    return own ? own : &none;
}

TARN_PRINTF(3, 0)
static tarn_status record(tarn_status status, int native, const char *format,
                          va_list arguments)
{
    char message[sizeof own->message];

    vsnprintf(message, sizeof message, format, arguments);
    tarn_error *error = place();
    wordless = !error;
    if (wordless)
        return status;
    error->status = status;
    error->native = native;
    memcpy(error->message, message, sizeof message);
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
