/* run.h -- one run of a function on a memory that counts. */
#ifndef PRUNE_RUN_H
#define PRUNE_RUN_H

#include "function.h"

#include <stdint.h>

enum {
    MAX_OBJECTS = 96, /* of one run; the run ends at this limit */
    MAX_SHARED = 4,   /* objects that exist when the function starts */
    MAX_BLOCKS_RUN = 80,
    MAX_BLOCKS_LONG = 100 * MAX_BLOCKS_RUN, /* of a run that decides about a failure */
    MAX_BLOCKS_CALLED = 200,                /* of all called functions of one run */
    MAX_CALL_DEPTH = 6,
};

struct object {
    int count;       /* references; 0: freed, or never created */
    int children[2]; /* objects to which this one holds a reference, or NO_OBJECT */
};

/* The parts of a run that its seed determines; the same for both versions. */
struct world {
    uint64_t seed;
    int shared;              /* the number of objects at the start */
    int callers[MAX_SHARED]; /* references that the caller holds */
    int children[MAX_SHARED][2];
};

enum verdict { FINE, USED_FREED, FREED_TWICE, CUT };

struct run {
    const struct function *function;
    const struct world *world;
    struct object objects[MAX_OBJECTS];
    int object_count;
    int *values;              /* the object that each value is, or NO_OBJECT */
    int *scratch;             /* as many again, for phis, which all change at once */
    int *called_values;       /* the same two arrays for each depth of calls */
    int most_values;          /* in each of them */
    bool others_release;      /* now */
    bool holds_parameters;    /* the caller does, throughout */
    uint64_t decisions;       /* decisions so far */
    int most_steps;           /* MAX_BLOCKS_RUN or MAX_BLOCKS_LONG; the caller sets it */
    int steps;                /* blocks done */
    int called_steps;         /* blocks done by called functions */
    int callers[MAX_SHARED];  /* references of the caller that it has not released yet */
    bool passed[MAX_SHARED];  /* the caller holds the object throughout: a parameter */
    int kept[MAX_OBJECTS];    /* references that were transferred to others */
    int own[MAX_OBJECTS];     /* references that the judged function has */
    int lost[MAX_OBJECTS];    /* references that called functions had when they raised */
    int dropped[MAX_OBJECTS]; /* references that other owners have released */
    int made[MAX_BLOCKS_RUN]; /* objects at the end of each of the first blocks */
    int history[MAX_BLOCKS_RUN][MAX_OBJECTS]; /* their counts there, with what others had
                                               * released added */
    int last_raise;                           /* step of the last raise mark, or -1 */
    bool returned;
    int blamed;   /* the object that was freed, after a failure */
    int where[2]; /* block and operation of the failure */
};

/* A run of a function, with memory for its values; the caller sets `world`. */
struct run run_make(const struct function *function);

/* Run from the entry to a return, to a failure, or to the maximum length (CUT). */
enum verdict run_go(struct run *run);

/* The count of an object at the end of a step, with what others had released added; 0
 * before the object was made. */
int run_count(const struct run *run, int step, int object);

/* A pseudo-random number. */
uint64_t run_mix(uint64_t x);

#endif
