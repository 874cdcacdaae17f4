/* modes.c -- debug modes: their names, the environment, and how an instance applies them.
 *
 * The modes and the presence of a sanitizer decide whether an instance's calls may use
 * the fast path. They are known after the first call to tarn__modes_ready().
 */
#include "nrt/modes.h"
#include "base/mutex_assert.h"
#include "nrt/registry.h"
#include "nrt/sanitizer.h"
#include "nrt/slab.h"
#include "nrt/snapshot.h"
#include <stdio.h>
#include <stdlib.h>
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

/* --- the modes of an instance ------------------------------------------------------- */

static pthread_once_t environment = PTHREAD_ONCE_INIT;
static bool has_sanitizer; /* by Valgrind or ASan; written once */

void tarn__modes_update_word(tarn_runtime *runtime)
{
    tarn__assert_mutex_held(&runtime->lock);

    uint64_t word = atomic_load(&runtime->word) & 0xff;

    word |= ++runtime->generation << 8 & ~(TARN__SLOW | TARN__UNREADY);
    if (atomic_load(&runtime->modes) & ~(unsigned)TARN__UNCHECKED_MODES || has_sanitizer)
        word |= TARN__SLOW;
    atomic_store_explicit(&runtime->word, word, memory_order_release);
}

static void read_environment(void)
{
    const char *text = getenv("TARN_NRT_DEBUG");
    unsigned modes = 0;

    has_sanitizer = tarn__sanitizer_is_present();
    tarn__slab_init_classes();
    if (text && tarn_nrt_modes_parse(text, &modes) != TARN_OK)
        fprintf(stderr, "tarn: TARN_NRT_DEBUG: %s\n", tarn_error_last()->message);
    if (modes & TARN_NRT_EXIT_REPORT)
        tarn__snapshot_report_at_exit();
    atomic_store(&tarn__default_runtime.modes, modes);
}

void tarn__modes_ready(tarn_runtime *runtime)
{
    pthread_once(&environment, read_environment);
    pthread_mutex_lock(&runtime->lock);
    if (atomic_load(&runtime->word) & TARN__UNREADY)
        tarn__modes_update_word(runtime);
    pthread_mutex_unlock(&runtime->lock);
}

bool tarn__modes_has_sanitizer(void)
{
    return has_sanitizer;
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
