/* foreign.h -- foreign code of a fuzz target: its answers come from the input.
 *
 * A script is the rest of an input. An operation reads its next answer from the script:
 * a status, which may be none, with or without a message, and numbers. The end of the
 * script answers with zeros, which mean success.
 */
#ifndef TARN_FUZZ_FOREIGN_H
#define TARN_FUZZ_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/driver.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static struct {
    const uint8_t *at, *end;
    bool is_tame;  /* every answer is a success */
    bool answered; /* an operation has answered */
} script;

static inline void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz: %s: %s\n", what, tarn_error_last()->message);
    abort();
}

/* Begin with an input. The first one opens the simulator. */
static inline void begin(const uint8_t *data, size_t count)
{
    must(tarn_driver_open("sim") == TARN_OK, "no simulator");
    script.at = data;
    script.end = data + count;
    script.is_tame = script.answered = false;
}

/* The next number of the script, less than `limit`. */
static inline unsigned next(unsigned limit)
{
    return script.at < script.end ? *script.at++ % limit : 0;
}

/* The next number of any size. */
static inline uint64_t next_number(void)
{
    static const uint64_t edges[] = {
        1, 255, 256, 4096, 1 << 21, (uint64_t)1 << 40, INT64_MAX, UINT64_MAX};
    unsigned edge = next(16);

    return edge < 8 ? edges[edge] : next(256);
}

/* What an operation returns, and the message that it leaves. */
static inline tarn_status next_status(void)
{
    static const int statuses[] = {0, 0, 0, 0, TARN_OUT_OF_MEMORY, -1, 1 << 20, 0};
    unsigned choice = script.is_tame ? 0 : next(16);
    int status = choice < 8 ? statuses[choice] : 0;

    script.answered = true;
    if (choice == 8)
        status = (int)next(64);
    if (status != TARN_OK && next(2))
        tarn_error_set((tarn_status)status, "foreign: %d", status);
    return (tarn_status)status;
}

/* A copy of `size` bytes at most of a table, without a byte behind it. */
static inline void *copy_table(const void *table, size_t bytes, size_t size)
{
    size_t kept = size < sizeof size ? sizeof size : size < bytes ? size : bytes;
    void *copy = malloc(kept);

    if (!copy)
        abort();
    memcpy(copy, table, kept);
    memcpy(copy, &size, sizeof size);
    return copy;
}

/* The size that a table states: mostly the present one. */
static inline size_t next_size(size_t bytes)
{
    switch (next(8)) {
    case 1:
        return next(256) % (bytes + 1);
    case 2:
        return bytes + next(64);
    case 3:
        return SIZE_MAX - next(16);
    default:
        return bytes;
    }
}

/* A name: mostly short, else longer than a message, a format, or none. Free it. */
static inline char *next_name(void)
{
    enum { LONG = 5000 };
    char *name = malloc(LONG + 1);

    if (!name)
        abort();
    switch (next(8)) {
    case 1:
        memset(name, 'n', LONG);
        name[LONG] = 0;
        return name;
    case 2:
        strcpy(name, "%s%n%99999d: \n\x80");
        return name;
    case 3:
        free(name);
        return NULL;
    default:
        strcpy(name, "foreign");
        return name;
    }
}

static inline bool name_fits(const char *name)
{
    return name && strlen(name) < 128;
}

/* A failure has a status of Tarn, and a message of one line that says of what. */
static inline bool succeeded(tarn_status status)
{
    if (status == TARN_OK)
        return true;
    must((unsigned)status < TARN_STATUS_COUNT, "a failure without a status");
    must(tarn_error_last()->status == status, "the message of another failure");
    must(strchr(tarn_error_last()->message, ':') != NULL, "no message");
    return false;
}

#endif
