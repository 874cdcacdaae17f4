/* integers.c -- division, and conversion of floats to unsigned integers. */
#include "aot/alias.h"
#include <tarn/aot.h>

int64_t tarn_aot_sdiv(int64_t a, int64_t b)
{
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a); /* the machine traps for INT64_MIN */
    return b ? a / b : 0;
}

int64_t tarn_aot_srem(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

uint64_t tarn_aot_udiv(uint64_t a, uint64_t b)
{
    return b ? a / b : 0;
}

uint64_t tarn_aot_urem(uint64_t a, uint64_t b)
{
    return b ? a % b : 0;
}

/* Convert through a signed integer, so that -1.0 is the largest number, as in C's casts
 * of integers. From 2^63 on a signed integer is too small. */
uint64_t tarn_aot_fptoui(double x)
{
    if (x >= -0x1p63 && x < 0x1p63)
        return (uint64_t)(int64_t)x;
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)x : 0;
}

uint64_t tarn_aot_fptouif(float x)
{
    return tarn_aot_fptoui(x);
}

TARN__ALIAS(sdiv);
TARN__ALIAS(srem);
TARN__ALIAS(udiv);
TARN__ALIAS(urem);
TARN__ALIAS(fptoui);
TARN__ALIAS(fptouif);
