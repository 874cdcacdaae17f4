/* run.h -- the state of a run of random operations: its draws, and how it fails. */
#ifndef TARN_TEST_MODEL_RUN_H
#define TARN_TEST_MODEL_RUN_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <tarn/status.h>
#include "base/random.h"

static struct {
    const char *subject; /* what is tested, for messages */
    uint64_t random, seed, operation;
} run;

/* End the program with a message that tells how to repeat the run. */
static void fail(const char *format, ...) TARN_PRINTF(1, 2) __attribute__((noreturn));
static void fail(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "model: %s, seed %" PRIu64 ", operation %" PRIu64 ": ", run.subject,
            run.seed, run.operation);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (last error: %s)\n", tarn_error_last()->message);
    exit(1);
}

/* Return a number below `limit`, which is not 0. */
static uint64_t draw(uint64_t limit)
{
    return tarn__random_below(&run.random, limit);
}

#endif
