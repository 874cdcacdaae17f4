/* context.h -- contexts: the primary context of each device, those of cuCtxCreate, and
 * the context stack of each thread. */
#ifndef TARN_SIM_CONTEXT_H
#define TARN_SIM_CONTEXT_H

#include "sim/core/cuda.h"
#include <stdatomic.h>
#include <stdbool.h>

enum { SIM_LIMITS = 10 };

struct sim_op;
struct sim_stream;

/* A context is never freed: a stale handle must be distinguished from a live one. */
struct sim_context {
    struct sim_context *next; /* in the list of all contexts, destroyed ones included */
    CUdevice device;
    bool is_primary;
    atomic_bool is_alive;
    unsigned flags;
    unsigned retains; /* of a primary context */
    uint64_t id;      /* a new one at each activation */
    atomic_int error; /* CUDA_SUCCESS, or the error of every call until a reset */
    uint64_t peers;   /* one bit per device whose memory it may access */
    struct sim_stream *legacy; /* its default stream; valid while the context is active */
    struct sim_stream *record_stream; /* orders cuCtxRecordEvent after all work */
    struct sim_stream *busy;          /* the list of its streams with work */
    struct sim_op *first_op;          /* unfinished work, oldest first */
    struct sim_op *last_op;
    size_t limits[SIM_LIMITS];
    int cache_config;
    int shared_config;
};

/* All contexts, destroyed ones included. Under the lock. */
extern struct sim_context *sim_contexts;

/* The calling thread's current context, or NULL. */
struct sim_context *sim_context_current(void);

/* Return CUDA_SUCCESS if there is a current context and it is active. */
CUresult sim_context_check_current(void);

/* Return CUDA_SUCCESS, or the error that made `context` unusable. */
CUresult sim_context_error(const struct sim_context *context);

/* Mark `context` as lost, as on a real device: its queued work failed. The first error
 * stays. Return true if `error` is that first one. */
bool sim_context_lose(struct sim_context *context, CUresult error);

/* Return the context of `handle`, active or destroyed. A handle that never was one
 * crashes the real driver. `sim_lock_mutex` held. */
struct sim_context *sim_context_find(CUcontext handle);

/* The context of `handle` (NULL: the current one), if it is active. `sim_lock_mutex`
 * held. */
CUresult sim_context_alive(CUcontext handle, struct sim_context **out);

/* Create a context. One of cuCtxCreate is active at once, a primary one when it is
 * activated. `sim_lock_mutex` held, as for the functions below. */
CUresult sim_context_create(CUdevice device, unsigned flags, bool is_primary,
                            struct sim_context **out);

/* Give a context its streams and its initial state. `sim_lock_mutex` held. */
CUresult sim_context_activate(struct sim_context *context);

/* Destroy the content of a context: first wait for all work, then free its memory, its
 * streams and its events. Their handles stay known as destroyed. The lock is released
 * meanwhile, and another thread may activate the context again. Only what existed before
 * is destroyed then. `sim_lock_mutex` held. */
void sim_context_deactivate(struct sim_context *context);

#endif
