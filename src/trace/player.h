/* player.h -- a running replay: the blocks, the workers and their counts. */
#ifndef TARN_TRACE_PLAYER_H
#define TARN_TRACE_PLAYER_H

#include "driver/driver.h"
#include "trace/load.h"
#include <pthread.h>
#include <stdatomic.h>

/* The duration of a call that was not made, or that failed. */
#define TARN__NOT_DONE UINT64_MAX

enum tarn__player_block_state {
    BLOCK_NOT_ALLOCATED,
    BLOCK_LIVE,
    BLOCK_FAILED,
    BLOCK_FREED
};

struct tarn__player_block {
    tarn_device_ptr address; /* valid while BLOCK_LIVE */
    atomic_int state;        /* enum tarn__player_block_state; set after `address` */
};

struct tarn__player {
    const tarn_trace *trace;
    tarn_resource *resource;
    int device;           /* of the resource */
    tarn_stream *streams; /* one for each of the trace's; the replay's own come from
                           * `made` */
    struct tarn__player_block *blocks;
    uint64_t *durations; /* for each operation, ns */
    atomic_uint_fast64_t live_bytes, peak_live_bytes;

    bool sees_memory;   /* can the free memory of the device be queried? */
    size_t free_before; /* of the device, before the replay */
    atomic_uint_fast64_t peak_reserved_bytes;

    pthread_mutex_t lock;   /* guards what follows; held while workers are started */
    pthread_cond_t changed; /* a block with a waiting worker was allocated; a worker
                             * ended */
    atomic_int waiting;     /* workers that wait for a block */
    atomic_bool stop;       /* a worker failed: all end */
    tarn_error failure;     /* the first; TARN_OK: none */
    unsigned running;       /* workers that have not ended */
};

struct tarn__worker {
    struct tarn__player *player;
    pthread_t thread;
    const uint32_t *order; /* its operations, in the order of the log */
    size_t count;
    atomic_size_t done; /* of them; read for the progress */
    uint64_t allocations, frees, failures;
    uint64_t start_ns, end_ns;
    uint64_t paused_ns; /* spent on queries of the device's memory */
};

/* The body of a worker's thread; `data` is the worker. */
void *tarn__player_run(void *data);

#endif
