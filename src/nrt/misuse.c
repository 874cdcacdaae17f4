/* misuse.c -- report the use of a block that is freed or damaged.
 *
 * Calls that release return no status, so the message goes to a handler, or to stderr.
 * The block is left as it is. An ignored extra release does no harm; an executed one
 * would free another owner's memory.
 */
#include "nrt/misuse.h"
#include "base/hook.h"
#include "nrt/registry.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct tarn__hook misuse_hook; /* a tarn_nrt_misuse_handler; none: stderr */

void tarn_nrt_set_misuse_handler(tarn_nrt_misuse_handler handler, void *data)
{
    tarn__hook_set(&misuse_hook, (tarn__any_function *)handler, data);
}

static void report_misuse(const char *message)
{
    struct tarn__hook_call call;

    if (tarn__hook_begin(&misuse_hook, &call)) {
        ((tarn_nrt_misuse_handler)call.function)(call.data, message);
        tarn__hook_end(&call);
    } else {
        fprintf(stderr, "tarn: %s\n", message);
    }
}

void tarn__misuse_report(tarn_runtime *runtime, const char *format, ...)
{
    char message[sizeof tarn_error_last()->message];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    atomic_fetch_add(&runtime->misuses, 1);
    tarn_error_set(TARN_INVALID_ARGUMENT, "%s", message);
    report_misuse(message);
    if (atomic_load(&runtime->modes) & TARN_NRT_ABORT)
        abort();
}

/* Describe a block that the call cannot use. */
static const char *condition(unsigned state)
{
    switch (state) {
    case TARN__LIVE:
        return "is live, but of another kind, or without references";
    case TARN__ENDING:
        return "is being destroyed";
    case TARN__QUARANTINED:
    case TARN__FREE:
        return "was freed before";
    }
    return "is not a block of Tarn, or its header was overwritten";
}

void tarn__misuse_block(const struct tarn__block *block, const char *what)
{
    uint64_t word = tarn__block_word(block);
    unsigned state = TARN__STATE(word);
    tarn_runtime *runtime = NULL;

    if (state == TARN__LIVE || state == TARN__ENDING || state == TARN__QUARANTINED ||
        state == TARN__FREE)
        runtime = tarn__registry_at(TARN__FIELD(word, TARN__RUNTIME_SHIFT));
    if (!runtime)
        runtime = &tarn__default_runtime;
    tarn__misuse_report(runtime, "nrt: %s %p, which %s (runtime %s)", what,
                        (const void *)((const char *)block + TARN__HEADER),
                        condition(state), runtime->name);
}
