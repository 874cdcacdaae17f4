/* capture_rules.c -- finds the rule of a call by its name. */
#include "sim/graph/capture_rules.h"
#include "sim/core/calls.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A call without a line in capture_rules.h has no such constant. */
enum {
#define X(symbol, rule) rule_of_##symbol = (rule),
    SIM_CAPTURE_RULES(X)
#undef X
};

static struct row {
    const char *call;
    unsigned rule;
} rows[] = {
#define X(name, version, symbol, parameters) {#symbol, rule_of_##symbol},
#define Z(name, version, symbol, per_thread, parameters, arguments) \
    {#symbol, rule_of_##symbol},
    SIM_CALLS(X, Z)
#undef X
#undef Z
};
enum { ROWS = sizeof rows / sizeof *rows };

static pthread_once_t sorted = PTHREAD_ONCE_INIT;

static int compare(const void *left, const void *right)
{
    return strcmp(((const struct row *)left)->call, ((const struct row *)right)->call);
}

static void sort(void)
{
    qsort(rows, ROWS, sizeof *rows, compare);
}

unsigned sim_capture_rules_find(const char *call)
{
    const struct row wanted = {call, 0};
    const struct row *row;

    pthread_once(&sorted, sort);
    row = bsearch(&wanted, rows, ROWS, sizeof *rows, compare);
    return row ? row->rule : CAPTURE_HARMLESS;
}
