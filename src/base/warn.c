/* warn.c -- warnings: problems that are no failure but that a user should know.
 *
 * A library has no good place to print them. They are kept for the thread that caused
 * them, where a program can read them. They also go to one handler, which is stderr by
 * default, so that a warning is visible.
 */
#include "base/warn.h"
#include "base/hook.h"
#include "base/thread.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_to_stderr(void *data, const char *message)
{
    const char *wanted = getenv("TARN_WARNINGS");

    (void)data;
    if (!wanted || strcmp(wanted, "off") != 0)
        fprintf(stderr, "tarn: warning: %s\n", message);
}

static struct tarn__hook warning_hook = {.function =
                                             (tarn__any_function *)write_to_stderr};

void tarn_set_warning_handler(tarn_warning_handler handler, void *data)
{
    tarn__hook_set(&warning_hook, (tarn__any_function *)handler, data);
}

const char *tarn_warning_last(void)
{
    const struct tarn__thread_messages *messages = tarn__thread_messages_find();

    return messages ? messages->warning : "";
}

static void warn(const char *format, va_list arguments) TARN_PRINTF(1, 0);

static void warn(const char *format, va_list arguments)
{
    struct tarn__thread_messages *messages = tarn__thread_messages_get();
    char message[sizeof messages->warning];

    vsnprintf(message, sizeof message, format, arguments);
    if (messages)
        memcpy(messages->warning, message, sizeof message);
    struct tarn__hook_call call;
    if (tarn__hook_begin(&warning_hook, &call)) {
        ((tarn_warning_handler)call.function)(call.data, message);
        tarn__hook_end(&call);
    }
}

void tarn__warn(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    warn(format, arguments);
    va_end(arguments);
}

void tarn_warn(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    warn(format, arguments);
    va_end(arguments);
}
