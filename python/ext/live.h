/* live.h -- the live blocks that the log of this process knows. */
#ifndef TARN_PYTHON_LIVE_H
#define TARN_PYTHON_LIVE_H

#include "state.h"

struct tarn__live_block {
    uint64_t address; /* 0: an unused slot of the table */
    uint64_t bytes;
    uint64_t number; /* of its allocation, from 1 on */
    int device;
    bool of_manager; /* a manager logged it, and will log its free */
    tarn_site site;  /* its strings stay permanently */
    tarn_stack stack;
};

/* Add a block; it replaces one of the same address. The table assigns its number. If
 * there is no host memory, the block is counted as lost. Any thread, for this and the two
 * functions below. */
void tarn__live_add(const struct tarn__live_block *block);

/* Remove the block of an address, if there is one. */
void tarn__live_remove(uint64_t address);

/* Copy the block of an address to `out`. Return false if there is none. */
bool tarn__live_find(uint64_t address, struct tarn__live_block *out);

int tarn__live_init(PyObject *module);

#endif
