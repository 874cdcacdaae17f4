/* Test corner cases of division, floats and powers. */
#include "test.h"
#include <complex.h>
#include <math.h>
#include <tarn/aot.h>

double numba_ldexp(double x, int exponent); /* Numba's name, as object files import it */

TEST(division_of_integers_never_traps)
{
    CHECK_EQUAL(-3, tarn_aot_sdiv(-7, 2));
    CHECK_EQUAL(-1, tarn_aot_srem(-7, 2));
    CHECK_EQUAL(0, tarn_aot_sdiv(7, 0) | tarn_aot_srem(7, 0));
    CHECK_EQUAL(INT64_MIN, tarn_aot_sdiv(INT64_MIN, -1));
    CHECK_EQUAL(0, tarn_aot_srem(INT64_MIN, -1));
    CHECK_EQUAL(0, tarn_aot_udiv(7, 0) | tarn_aot_urem(7, 0));
    CHECK(tarn_aot_udiv(UINT64_MAX, 2) == INT64_MAX && tarn_aot_urem(7, 4) == 3);
}

TEST(floats_become_unsigned_integers)
{
    CHECK(tarn_aot_fptoui(3.9) == 3 && tarn_aot_fptouif(3.9f) == 3);
    CHECK(tarn_aot_fptoui(-1.0) == UINT64_MAX);
    CHECK(tarn_aot_fptoui(0x1p63) == UINT64_C(1) << 63);
    CHECK(tarn_aot_fptoui(NAN) == 0 && tarn_aot_fptoui(INFINITY) == 0);
}

TEST(parts_of_a_float_join_again_and_what_is_not_finite_has_exponent_0)
{
    const double numbers[] = {0, -0.0, 1, -3.5, 1e300, 5e-324, NAN, INFINITY, -INFINITY};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int exponent = 99;
        double part = tarn_aot_frexp(numbers[i], &exponent);
        double back = tarn_aot_ldexp(part, exponent);
        CHECK(isfinite(numbers[i]) || exponent == 0);
        CHECK(memcmp(&back, &numbers[i], sizeof back) == 0);
        float half = tarn_aot_frexpf((float)numbers[i], &exponent);
        CHECK(isnan(half) || tarn_aot_ldexpf(half, exponent) == (float)numbers[i]);
    }
    CHECK(numba_ldexp(1, 4) == 16);
}

TEST(functions_of_c_have_numbas_names)
{
    CHECK(tarn_aot_gamma(5) == 24 && tarn_aot_gammaf(5) == 24);
    CHECK(fabs(tarn_aot_lgamma(10) - log(362880)) < 1e-12);
    CHECK(tarn_aot_erf(0) == 0 && tarn_aot_erfcf(0) == 1);
    CHECK(tarn_aot_nextafter(1, 2) == 1 + 0x1p-52);
    CHECK(tarn_aot_nextafterf(1, 0) == 1 - 0x1p-24f);
}

/* Ordinary powers are those of C; corner cases are those of Python. */
TEST(complex_powers_are_pythons)
{
    const double parts[] = {0, 1, -1, 0.5, -2.25};
    tarn_aot_complex out;

    for (int i = 0; i < 625; i++) {
        tarn_aot_complex a = {parts[i % 5], parts[i / 5 % 5]};
        tarn_aot_complex b = {parts[i / 25 % 5], parts[i / 125]};
        tarn_aot_cpow(&a, &b, &out);
        if (a.real == 0 && a.imag == 0 && (b.imag != 0 || b.real < 0)) {
            CHECK(isnan(out.real) && isnan(out.imag)); /* Python raises */
            continue;
        }
        double complex wanted = cpow(a.real + a.imag * I, b.real + b.imag * I);
        if (b.real == 0 && b.imag == 0)
            wanted = 1;
        CHECK(cabs(wanted - (out.real + out.imag * I)) <= 1e-12 * (1 + cabs(wanted)));
    }
    tarn_aot_complexf base = {0, 2}, square = {2, 0}, result;
    tarn_aot_cpowf(&base, &square, &result);
    CHECK(fabsf(result.real + 4) < 1e-5f && fabsf(result.imag) < 1e-5f);
}
