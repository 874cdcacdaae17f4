/* random.c -- the Mersenne Twister behind random.* and np.random.* of compiled code.
 *
 * Compiled code reads words from the state directly and calls for the next ones; the
 * layout is Numba's. Each thread has its own state. It is seeded by the system at its
 * first use. A forked child seeds anew, so that it does not repeat its parent's numbers.
 */
#define _GNU_SOURCE
#include "aot/alias.h"
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <tarn/aot.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = TARN_AOT_RANDOM_WORDS, MIDDLE = 397 };

_Static_assert(offsetof(tarn_aot_random, has_gauss) == 4 * (WORDS + 1) &&
                   offsetof(tarn_aot_random, gauss) == 2504 &&
                   offsetof(tarn_aot_random, is_seeded) == 2512,
               "compiled code knows these places");

static _Thread_local tarn_aot_random python_state, numpy_state, internal_state;

/* --- the twister --- */

/* Combine the high bit of one word, the low bits of the next and a far word. */
static uint32_t twist(uint32_t high, uint32_t low, uint32_t far)
{
    uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);

    return far ^ (mixed >> 1) ^ (mixed & 1 ? 0x9908b0dfu : 0);
}

void tarn_aot_rnd_shuffle(tarn_aot_random *state)
{
    uint32_t *words = state->words;

    for (int i = 0; i < WORDS; i++)
        words[i] = twist(words[i], words[(i + 1) % WORDS], words[(i + MIDDLE) % WORDS]);
}

static void begin(tarn_aot_random *state)
{
    state->index = WORDS;
    state->has_gauss = 0;
    state->gauss = 0;
    state->is_seeded = 1;
}

void tarn_aot_rnd_init(tarn_aot_random *state, uint32_t seed)
{
    state->words[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        uint32_t before = state->words[i - 1];
        state->words[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    begin(state);
}

/* --- seeding --- */

/* Seed all words from the system. If it has none (long after boot it always does), use
 * time and process id. A state of zeros alone would give zeros forever. */
static void seed_by_system(tarn_aot_random *state)
{
    char *bytes = (char *)state->words;
    size_t wanted = sizeof state->words, have = 0;
    struct timespec now;

    while (have < wanted) {
        ssize_t got = getrandom(bytes + have, wanted - have, 0);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    if (have < wanted) {
        clock_gettime(CLOCK_REALTIME, &now);
        tarn_aot_rnd_init(state, (uint32_t)now.tv_nsec ^ (uint32_t)getpid());
    }
    state->words[0] |= 0x80000000u;
    begin(state);
}

static void forget_after_fork(void)
{
    python_state.is_seeded = numpy_state.is_seeded = internal_state.is_seeded = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_after_fork);
}

static tarn_aot_random *seeded(tarn_aot_random *state)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (state->is_seeded)
        return state;
    pthread_once(&once, watch_forks);
    seed_by_system(state);
    return state;
}

tarn_aot_random *tarn_aot_get_py_random_state(void)
{
    return seeded(&python_state);
}

tarn_aot_random *tarn_aot_get_np_random_state(void)
{
    return seeded(&numpy_state);
}

tarn_aot_random *tarn_aot_get_internal_random_state(void)
{
    return seeded(&internal_state);
}

TARN__ALIAS(get_py_random_state);
TARN__ALIAS(get_np_random_state);
TARN__ALIAS(get_internal_random_state);
TARN__ALIAS(rnd_init);
TARN__ALIAS(rnd_shuffle);
