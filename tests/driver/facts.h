/* facts.h -- the functions with which the themes write their facts.
 *
 * A theme is a list of parts. Parts that cannot affect each other run in sequence in one
 * child process. Every other part has a process of its own, so that a crash, a hang or a
 * change of the driver stays there.
 */
#ifndef FACTS_H
#define FACTS_H

#include "calls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum part_kind {
    TOGETHER, /* shares a process; context current */
    ALONE,    /* own process; context current */
    RISKY,    /* may crash or damage the driver: shares the TOGETHER process while the
                 driver is intact after it; does not depend on time */
    INITED,   /* shares a process with such parts; cuInit was called, no context */
    BARE,     /* own process; the driver is opened, no call was made */
    CLOSED    /* own process; the driver is not opened yet */
};

struct part {
    const char *name;
    void (*run)(void);
    enum part_kind kind;
};

struct theme {
    const char *name;
    const struct part *parts; /* ends with a part without a name; TOGETHER ones first */
    bool is_timed;            /* depends on the duration of calls, or on counts of all
                                 processes: does not run beside other work */
};

/* --- the process's state (start.c) --- */
extern CUdevice device;   /* 0 */
extern CUcontext context; /* its primary context, once ready */
void open_driver(void);   /* exits if it cannot */
void init_driver(void);   /* open_driver and cuInit */
void ready(void);         /* init_driver, context current, everything lazy initialized */
int devices(void);

/* --- facts (fact.c) --- */
void fact(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fact_result(const char *name, CUresult result);
void fact_bool(const char *name, bool yes);
/* Print a call that should have failed: its result, and whether its output kept its
 * value. The output is read after the call, because arguments of a function have no
 * order. */
#define fact_output(name, call, kept)              \
    do {                                           \
        CUresult result_of_call = (call);          \
        fact_kept((name), result_of_call, (kept)); \
    } while (0)
void fact_kept(const char *name, CUresult result, bool kept);
const char *result_name(CUresult result);
/* Format a name; valid until the sixteenth call after it. */
const char *named(const char *format, ...) __attribute__((format(printf, 1, 2)));
void theme_begin(const char *name);
/* The rows of the name table: their number, and code and name of each. */
size_t result_count(void);
CUresult result_code(size_t row);
const char *result_full_name(size_t row);

/* --- helpers (help.c) --- */
CUstream new_stream(unsigned int flags);
CUevent new_event(void); /* without timing */
CUdeviceptr block(size_t bytes);
CUdeviceptr block_of(size_t bytes, unsigned char value); /* filled, and done */
void *pinned(size_t bytes);
/* Read the current bytes on a stream that waits for no other. Wait first for copies and
 * fills without a stream. */
unsigned char peek(CUdeviceptr pointer);
bool all_are(CUdeviceptr pointer, size_t bytes, unsigned char value);
int in_thread(CUresult (*call)(void *),
              void *data); /* its result; context is current there */

/* A gate holds a stream: nothing queued after gate_close() runs before gate_open(). So
 * work that a fact reports as "not done yet" cannot be done yet. One gate at a time: the
 * real driver may have one thread for all host functions. */
struct gate {
    atomic_bool open, reached; /* reached: the stream waits at it */
};
void gate_close(struct gate *gate, CUstream stream);
void gate_open(struct gate *gate); /* and wait for the whole context */

/* Make a call in another thread while the gate is closed. If it has not returned after a
 * quarter of a second, open the gate: the call waited for it. Print the result. The gate
 * is open afterwards and the context idle. */
extern int patience_ms; /* the time limit of such a call: 250 */
void fact_waits(const char *name, CUresult (*call)(void *), void *data,
                struct gate *gate);
/* The same without a line: true if it waited. The gate stays closed if it did not. */
bool waits(CUresult (*call)(void *), void *data, struct gate *gate, CUresult *result);

/* VMM: properties of memory on `device`, rights on it, and a mapped range. */
CUmemAllocationProp vmm_prop(void);
CUmemAccessDesc vmm_access(int flags);
struct range {
    CUdeviceptr pointer;
    size_t bytes;
    CUmemGenericAllocationHandle handle;
};
struct range vmm_range(
    size_t bytes); /* reserved, created, mapped, readable and writable */
void vmm_end(struct range *range);

extern const struct theme theme_init, theme_devices, theme_context, theme_memory,
    theme_host, theme_managed, theme_copy, theme_pageable, theme_stream, theme_event,
    theme_order, theme_hostfn, theme_waits, theme_mempool, theme_vmm, theme_ipc,
    theme_pointer, theme_range, theme_peer, theme_handles, theme_capture, theme_corners,
    theme_threads, theme_graph, theme_objects, theme_cuda_core, theme_exit;

#define END_OF_PARTS {NULL, NULL, TOGETHER}

#endif
