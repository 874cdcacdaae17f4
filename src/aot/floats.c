/* floats.c -- float functions whose corner cases differ between systems, and some of C's
 * functions under Numba's names. */
#include "aot/alias.h"
#include <math.h>
#include <tarn/aot.h>

double tarn_aot_frexp(double x, int *exponent)
{
    *exponent = 0;
    return isfinite(x) ? frexp(x, exponent) : x;
}

float tarn_aot_frexpf(float x, int *exponent)
{
    *exponent = 0;
    return isfinite(x) ? frexpf(x, exponent) : x;
}

double tarn_aot_ldexp(double x, int exponent)
{
    return isfinite(x) ? ldexp(x, exponent) : x;
}

float tarn_aot_ldexpf(float x, int exponent)
{
    return isfinite(x) ? ldexpf(x, exponent) : x;
}

double tarn_aot_gamma(double x)
{
    return tgamma(x);
}

float tarn_aot_gammaf(float x)
{
    return tgammaf(x);
}

double tarn_aot_lgamma(double x)
{
    return lgamma(x);
}

float tarn_aot_lgammaf(float x)
{
    return lgammaf(x);
}

double tarn_aot_erf(double x)
{
    return erf(x);
}

float tarn_aot_erff(float x)
{
    return erff(x);
}

double tarn_aot_erfc(double x)
{
    return erfc(x);
}

float tarn_aot_erfcf(float x)
{
    return erfcf(x);
}

double tarn_aot_nextafter(double a, double b)
{
    return nextafter(a, b);
}

float tarn_aot_nextafterf(float a, float b)
{
    return nextafterf(a, b);
}

/* In polar form. The defined powers of 0 are 0 (real exponent above 0) and 1 (exponent
 * 0). */
void tarn_aot_cpow(const tarn_aot_complex *a, const tarn_aot_complex *b,
                   tarn_aot_complex *out)
{
    double power = b->real, turn = b->imag;

    if (power == 0 && turn == 0) {
        *out = (tarn_aot_complex){1, 0};
        return;
    }
    if (a->real == 0 && a->imag == 0) {
        double nothing = turn != 0 || power < 0 ? NAN : 0;
        *out = (tarn_aot_complex){nothing, nothing};
        return;
    }
    double length = hypot(a->real, a->imag), angle = atan2(a->imag, a->real);
    double scale = pow(length, power), phase = angle * power;
    if (turn != 0) {
        scale *= exp(-angle * turn);
        phase += turn * log(length);
    }
    *out = (tarn_aot_complex){scale * cos(phase), scale * sin(phase)};
}

void tarn_aot_cpowf(const tarn_aot_complexf *a, const tarn_aot_complexf *b,
                    tarn_aot_complexf *out)
{
    tarn_aot_complex base = {a->real, a->imag}, power = {b->real, b->imag}, result;

    tarn_aot_cpow(&base, &power, &result);
    *out = (tarn_aot_complexf){(float)result.real, (float)result.imag};
}

TARN__ALIAS(frexp);
TARN__ALIAS(frexpf);
TARN__ALIAS(ldexp);
TARN__ALIAS(ldexpf);
TARN__ALIAS(gamma);
TARN__ALIAS(gammaf);
TARN__ALIAS(lgamma);
TARN__ALIAS(lgammaf);
TARN__ALIAS(erf);
TARN__ALIAS(erff);
TARN__ALIAS(erfc);
TARN__ALIAS(erfcf);
TARN__ALIAS(nextafter);
TARN__ALIAS(nextafterf);
TARN__ALIAS(cpow);
TARN__ALIAS(cpowf);
