/* poisson.c -- Poisson numbers of a large mean, by transformed rejection.
 *
 * W. Hörmann, "The transformed rejection method for generating Poisson random variables",
 * 1993, algorithm PTRS. NumPy's legacy generator is the same algorithm with the same
 * draws, so a seed gives the same numbers; the constants are the paper's.
 */
#include "aot/alias.h"
#include <math.h>
#include <stdbool.h>
#include <tarn/aot.h>

enum { WORDS = TARN_AOT_RANDOM_WORDS };

static uint32_t draw_word(tarn_aot_random *state)
{
    if (state->index >= WORDS) {
        tarn_aot_rnd_shuffle(state);
        state->index = 0;
    }
    uint32_t word = state->words[state->index++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    return word ^ (word >> 18);
}

/* From 0 up to, not including, 1: 53 bits of two words. */
static double draw(tarn_aot_random *state)
{
    double high = draw_word(state) >> 5, low = draw_word(state) >> 6;

    return (high * 0x1p26 + low) * 0x1p-53;
}

/* log(k!) by Stirling's series; small k are moved up to where it is good. */
static double log_factorial(double k)
{
    static const double series[] = {8.333333333333333e-02, -2.777777777777778e-03,
                                    7.936507936507937e-04, -5.952380952380952e-04,
                                    8.417508417508418e-04, -1.917526917526918e-03,
                                    6.410256410256410e-03, -2.955065359477124e-02,
                                    1.796443723688307e-01, -1.39243221690590e+00};
    double x = k + 1, steps = x <= 7 ? floor(7 - x) : 0;

    if (x == 1 || x == 2)
        return 0;
    x += steps;
    double inverse = 1 / (x * x), sum = series[9];
    for (int i = 8; i >= 0; i--)
        sum = sum * inverse + series[i];
    double result =
        sum / x + 0.5 * log(2 * 3.14159265358979323846) + (x - 0.5) * log(x) - x;
    for (; steps > 0; steps--)
        result -= log(--x);
    return result;
}

int64_t tarn_aot_poisson_ptrs(tarn_aot_random *state, double mean)
{
    double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), log_mean = log(mean);
    double limit = 0.9277 - 3.6224 / (b - 2);

    while (true) {
        double u = draw(state) - 0.5, v = draw(state), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= limit)
            return (int64_t)k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <=
            -mean + k * log_mean - log_factorial(k))
            return (int64_t)k;
    }
}

TARN__ALIAS(poisson_ptrs);
