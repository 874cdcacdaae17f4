/* options.c -- a fuzz target: any text as an option of the environment.
 *
 *     fuzz-options [-max_total_time=10] [FOLDER]
 *
 * The first byte chooses the reader: TARN_SIM, TARN_POOL_DEBUG or TARN_NRT_DEBUG. Each accepts
 * the text, twice with one result, or rejects it with a message and an untouched output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tarn/guard.h>
#include <tarn/nrt.h>
#include <tarn/sim.h>
#include "input.h"

tarn_sim_configure_fn tarn_sim_configure;
tarn_sim_error_fn tarn_sim_error;

static void give_up(const char *what, const char *text)
{
    fprintf(stderr, "fuzz-options: %s: %s\n", what, text);
    abort();
}

static void check_message(tarn_status status, const char *text)
{
    const tarn_error *error = tarn_error_last();

    if (status != error->status || !strchr(error->message, ':'))
        give_up("no message", text);
}

static void configure(const char *text)
{
    if (tarn_sim_configure(text) != 0 && tarn_sim_error()[0] == 0)
        give_up("no message of the simulator", text);
    if (tarn_sim_configure(NULL) != 0)
        give_up("the defaults are rejected after", text);
}

static void parse_guard(const char *text)
{
    tarn_guard_options first, second;

    memset(&first, 0x4d, sizeof first);
    first.size = sizeof first;
    second = first;
    tarn_status status = tarn_guard_parse(text, &first);
    if (tarn_guard_parse(text, &second) != status ||
        memcmp((const void *)&first, (const void *)&second, sizeof first) != 0)
        give_up("two results", text);
    if (status == TARN_OK)
        return;
    check_message(status, text);
    memset(&second, 0x4d, sizeof second);
    second.size = sizeof second;
    if (memcmp((const void *)&first, (const void *)&second, sizeof first) != 0)
        give_up("a changed output", text);
}

static void parse_modes(const char *text)
{
    unsigned modes = 0x4d4d4d4d;
    tarn_status status = tarn_nrt_modes_parse(text, &modes);

    if (status == TARN_OK && modes > 2 * (unsigned)TARN_NRT_SLABS)
        give_up("unknown modes", text);
    if (status != TARN_OK && modes != 0x4d4d4d4d)
        give_up("a changed output", text);
    if (status != TARN_OK)
        check_message(status, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    static void (*const readers[])(const char *) = {configure, parse_guard, parse_modes};
    char *text = malloc(count + 1);

    if (!text || count == 0) {
        free(text);
        return 0;
    }
    memcpy(text, data + 1, count - 1);
    text[count - 1] = 0;
    readers[data[0] % 3](text);
    free(text);
    return 0;
}
