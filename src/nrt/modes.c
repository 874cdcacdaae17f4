/* modes.c -- debug modes: their names, and how an instance applies them. */
#include "nrt/runtime.h"
#include <string.h>

enum { ALL_MODES = 511 };

static const struct {
    const char *name;
    unsigned mode;
} names[] = {
    {"poison", TARN_NRT_POISON},         {"guard", TARN_NRT_GUARD},
    {"quarantine", TARN_NRT_QUARANTINE}, {"sites", TARN_NRT_SITES},
    {"trace", TARN_NRT_TRACE},           {"abort", TARN_NRT_ABORT},
    {"unpooled", TARN_NRT_UNPOOLED},     {"report", TARN_NRT_EXIT_REPORT},
    {"slabs", TARN_NRT_SLABS},
};

/* The mode named by the first `length` characters; 0: none. */
static unsigned mode_named(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == length && !strncmp(names[i].name, text, length))
            return names[i].mode;
    return 0;
}

tarn_status tarn_nrt_modes_parse(const char *text, unsigned *out)
{
    unsigned modes = 0;

    if (!text || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: modes_parse: %s is NULL",
                              text ? "out" : "a text");
    while (*text) {
        size_t length = strcspn(text, ", ");
        unsigned mode = mode_named(text, length);
        if (length && !mode)
            return tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: unknown mode %.*s",
                                  (int)length, text);
        modes |= mode;
        text += length + (text[length] != 0);
    }
    *out = modes;
    return TARN_OK;
}

tarn_status tarn_runtime_set_modes(tarn_runtime *runtime, unsigned modes)
{
    if (!runtime || modes & ~(unsigned)ALL_MODES)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            runtime ? "nrt: modes %#x have unknown bits, the known ones are %#x"
                    : "nrt: set_modes: modes %#x, but runtime is NULL (known modes: %#x)",
            modes, (unsigned)ALL_MODES);
    tarn__modes_ready(runtime);
    if (modes & TARN_NRT_EXIT_REPORT)
        tarn__snapshot_report_at_exit();
    pthread_mutex_lock(&runtime->lock);
    atomic_store(&runtime->modes, modes);
    tarn__modes_update_word(runtime);
    pthread_mutex_unlock(&runtime->lock);
    return TARN_OK;
}

unsigned tarn_runtime_modes(const tarn_runtime *runtime)
{
    if (atomic_load(&runtime->word) & TARN__UNREADY)
        tarn__modes_ready((tarn_runtime *)(uintptr_t)runtime);
    return atomic_load(&runtime->modes);
}
