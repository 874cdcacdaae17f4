/* context.h -- contexts: a device's primary one, those of cuCtxCreate, each thread's
 * stack. */
#ifndef TARN_SIM_CONTEXT_H
#define TARN_SIM_CONTEXT_H

#include "sim/cuda.h"
#include <stdatomic.h>
#include <stdbool.h>

enum { SIM_LIMITS = 10 };

struct sim_op;
struct sim_stream;

/* A context is never freed: a stale handle must be told from a live one. */
struct sim_context {
    struct sim_context *next; /* all there ever were */
    CUdevice device;
    bool is_primary;
    atomic_bool is_alive;
    unsigned flags;
    unsigned retains; /* of a primary context */
    uint64_t id;      /* a new one each time it comes to life */
    atomic_int error; /* CUDA_SUCCESS, or what every call says until it is reset */
    uint64_t peers;   /* devices whose memory it was given access to, a bit each */
    struct sim_stream *legacy; /* its default stream; there while it is alive */
    struct sim_stream *fence;  /* orders cuCtxRecordEvent after everything */
    struct sim_stream *busy;   /* its streams that have work, a list */
    struct sim_op *first_op;   /* work not done yet, oldest first */
    struct sim_op *last_op;
    size_t limits[SIM_LIMITS];
    int cache_config;
    int shared_config;
};

/* All there ever were; under the lock. */
extern struct sim_context *sim_contexts;

/* The calling thread's current context, or NULL. */
struct sim_context *sim_context_current(void);

/* CUDA_SUCCESS where there is one and it is alive. */
CUresult sim_context_check_current(void);

/* CUDA_SUCCESS, or the error that `context` is lost with. */
CUresult sim_context_error(const struct sim_context *context);

/* Queued work of `context` failed: it is lost, as on a real device. The first error stays;
 * is this it? */
bool sim_context_lose(struct sim_context *context, CUresult error);

/* The context that `handle` names, alive or not; NULL where it never was one. Locked. */
struct sim_context *sim_context_find(CUcontext handle);

/* The context that `handle` names (NULL: the current one), if it is alive. Locked. */
CUresult sim_context_alive(CUcontext handle, struct sim_context **out);

/* The primary context of `device`, alive or not. Locked. */
struct sim_context *sim_context_primary(CUdevice device);

#endif
