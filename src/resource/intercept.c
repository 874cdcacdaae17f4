/* intercept.c -- functions that serve the public calls of all resources: guard mode. */
#include "resource/intercept.h"
#include "base/mutex.h"

atomic_uint tarn__intercept_word;
_Thread_local int64_t tarn__intercept_countdown;
_Thread_local void *tarn__intercept_caller;

static _Atomic(const struct tarn__intercept_functions *) set_functions;

void tarn__intercept_set(const struct tarn__intercept_functions *functions,
                         bool is_sampled)
{
    atomic_store(&set_functions, functions);
    atomic_fetch_or(&tarn__intercept_word,
                    TARN__INTERCEPT_ON | (is_sampled ? TARN__INTERCEPT_SAMPLED : 0u));
}

const struct tarn__intercept_functions *tarn__intercept_get(void)
{
    return atomic_load(&set_functions);
}

TARN__STATIC_MUTEX(unmarked_lock);
static size_t unmarked; /* live samples */

void tarn__intercept_count_unmarked(bool is_less)
{
    tarn__mutex_lock(&unmarked_lock);
    unmarked += is_less ? SIZE_MAX : 1;
    if (unmarked > 0)
        atomic_fetch_or(&tarn__intercept_word, TARN__INTERCEPT_UNMARKED);
    else
        atomic_fetch_and(&tarn__intercept_word, ~(unsigned)TARN__INTERCEPT_UNMARKED);
    tarn__mutex_unlock(&unmarked_lock);
}

void tarn__intercept_set_observed(bool is_observed)
{
    if (is_observed)
        atomic_fetch_or(&tarn__intercept_word, TARN__INTERCEPT_OBSERVED);
    else
        atomic_fetch_and(&tarn__intercept_word, ~(unsigned)TARN__INTERCEPT_OBSERVED);
}
