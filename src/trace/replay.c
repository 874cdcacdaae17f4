/* replay.c -- run a loaded log against a resource, and measure its cost.
 *
 * The caller's thread only watches; one worker does the work, or as many as the log has
 * threads. Whatever happens, every allocation is freed again before the call returns.
 */
#define _GNU_SOURCE
#include "trace/player.h"
#include "base/cancellation.h"
#include "driver/registration.h"
#include "base/options.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 1024, STREAMS_MAX = 4096, PROGRESS_MS = 100, NON_BLOCKING = 1 };

/* Is this stream of the log no real one: a default stream, or no stream? */
static bool is_given(uint64_t raw)
{
    return raw <= 2 || raw == UINT64_MAX;
}

/* Unregister and destroy the first `count` streams, as far as this replay made them. */
static void destroy_streams(struct tarn__player *player, const struct tarn__scope *scope,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tarn_stream stream = player->streams[i];
        CUstream_ raw = tarn_stream_handle(stream);
        if (tarn__registration_is_value(stream))
            tarn_stream_unregister(stream);
        if (!is_given((uint64_t)(uintptr_t)raw))
            scope->calls->stream_destroy(raw);
    }
}

/* Create a stream for the log's stream `i`; none on failure. */
static tarn_status create_stream(struct tarn__player *player,
                                 const struct tarn__scope *scope, uint32_t i, bool open)
{
    CUstream_ made = (CUstream_)(uintptr_t)player->trace->streams[i];
    tarn_status status = TARN_OK;

    player->streams[i] = (tarn_stream)made;
    if (is_given(player->trace->streams[i]))
        return TARN_OK;
    CUresult_ result = scope->calls->stream_create(&made, NON_BLOCKING);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("replay", "cuStreamCreate", result, "stream %u of %u",
                                   i, player->trace->stream_count);
    player->streams[i] = (tarn_stream)made;
    if (open)
        status =
            tarn_stream_register(player->device, (tarn_stream)made, &player->streams[i]);
    if (status != TARN_OK)
        scope->calls->stream_destroy(made);
    return status;
}

static tarn_status create_streams(struct tarn__player *player,
                                  const struct tarn__scope *scope, bool open)
{
    const tarn_trace *trace = player->trace;

    if (trace->stream_count > STREAMS_MAX)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "replay: the log has %u streams, the maximum is %d",
                              trace->stream_count, STREAMS_MAX);
    for (uint32_t i = 0; i < trace->stream_count; i++) {
        tarn_status status = create_stream(player, scope, i, open);
        if (status != TARN_OK) {
            destroy_streams(player, scope, i);
            return status;
        }
    }
    return TARN_OK;
}

/* Sort the operations by thread, each thread's in the order of the log, and assign them
 * to workers. `order` has space for all of them. */
static void deal(struct tarn__player *player, struct tarn__worker *workers,
                 unsigned count, uint32_t *order)
{
    const tarn_trace *trace = player->trace;

    for (size_t i = 0; i < trace->count; i++)
        workers[count == 1 ? 0 : tarn__load_op_thread(&trace->ops[i])].count++;
    for (unsigned w = 0; w < count; w++) {
        workers[w].player = player;
        workers[w].order = order;
        order += workers[w].count;
        workers[w].count = 0;
    }
    for (size_t i = 0; i < trace->count; i++) {
        struct tarn__worker *worker =
            &workers[count == 1 ? 0 : tarn__load_op_thread(&trace->ops[i])];
        ((uint32_t *)(uintptr_t)worker->order)[worker->count++] = (uint32_t)i;
    }
}

static void tell_progress(const struct tarn__player *player,
                          const struct tarn__worker *workers, unsigned count,
                          const tarn_replay_options *options)
{
    uint64_t done = 0;

    if (!options->progress)
        return;
    for (unsigned w = 0; w < count; w++)
        done += atomic_load_explicit(&workers[w].done, memory_order_relaxed);
    options->progress(options->progress_data, done, player->trace->count);
}

/* Wait until all workers have ended, and report the progress meanwhile. */
static void monitor(struct tarn__player *player, const struct tarn__worker *workers,
                    unsigned count, const tarn_replay_options *options)
{
    struct timespec until;

    pthread_mutex_lock(&player->lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    do { /* at least once: all workers may have ended by now */
        until.tv_nsec += PROGRESS_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (player->running > 0 &&
               pthread_cond_timedwait(&player->changed, &player->lock, &until) !=
                   ETIMEDOUT)
            ;
        pthread_mutex_unlock(&player->lock);
        tell_progress(player, workers, count, options);
        pthread_mutex_lock(&player->lock);
    } while (player->running > 0);
    pthread_mutex_unlock(&player->lock);
}

/* Keep the first failure, whatever fails after it. Under the lock while workers run. */
static void keep_failure(struct tarn__player *player)
{
    if (player->failure.status == TARN_OK)
        player->failure = *tarn_error_last();
}

static tarn_status tell_failure(const struct tarn__player *player)
{
    return tarn_error_set_native(player->failure.status, player->failure.native, "%s",
                                 player->failure.message);
}

static void run_workers(struct tarn__player *player, struct tarn__worker *workers,
                        unsigned count, const tarn_replay_options *options)
{
    unsigned started = 0;

    pthread_mutex_lock(&player->lock);
    for (; started < count; started++) {
        int error = pthread_create(&workers[started].thread, NULL, tarn__player_run,
                                   &workers[started]);
        if (error) {
            tarn_error_set_native(TARN_SYSTEM_FAILURE, error,
                                  "replay: cannot create thread %u of %u: %s",
                                  started + 1, count, strerror(error));
            keep_failure(player);
            atomic_store(&player->stop, true);
            break;
        }
        player->running++;
    }
    pthread_mutex_unlock(&player->lock);
    monitor(player, workers, count, options);
    for (unsigned w = 0; w < started; w++)
        pthread_join(workers[w].thread, NULL);
}

static tarn_status free_block(const struct tarn__player *player,
                              const struct tarn__op *op)
{
    return tarn_resource_deallocate(player->resource, player->blocks[op->block].address,
                                    op->bytes, 0, player->streams[op->stream]);
}

/* Free the blocks that the log left live. A free that fails is tried once more: no other
 * module knows of the block. */
static void free_the_rest(struct tarn__player *player, uint64_t *count_out)
{
    for (size_t i = 0; i < player->trace->count; i++) {
        const struct tarn__op *op = &player->trace->ops[i];
        if (tarn__load_op_is_free(op) ||
            atomic_load(&player->blocks[op->block].state) != BLOCK_LIVE)
            continue;
        if (free_block(player, op) == TARN_OK) {
            ++*count_out;
            continue;
        }
        keep_failure(player);
        free_block(player, op);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Mean and percentiles of the allocations, or of the frees. `scratch` has space for as
 * many numbers as there are operations. */
static void measure(const struct tarn__player *player, bool frees, uint64_t *scratch,
                    double *mean_out, uint64_t out[5])
{
    static const unsigned per_mille[] = {500, 900, 990, 999, 1000};
    size_t count = 0;
    double sum = 0;

    for (size_t i = 0; i < player->trace->count; i++) {
        if (tarn__load_op_is_free(&player->trace->ops[i]) != frees ||
            player->durations[i] == TARN__NOT_DONE)
            continue;
        sum += (double)player->durations[i];
        scratch[count++] = player->durations[i];
    }
    if (count == 0)
        return;
    qsort(scratch, count, sizeof *scratch, compare);
    *mean_out = sum / (double)count;
    for (int i = 0; i < 5; i++)
        out[i] = scratch[(count * per_mille[i] + 999) / 1000 - 1];
}

static void report(const struct tarn__player *player, const struct tarn__worker *workers,
                   unsigned count, uint64_t *scratch, tarn_replay_report *out)
{
    uint64_t start = UINT64_MAX, end = 0;

    for (unsigned w = 0; w < count; w++) {
        out->allocations += workers[w].allocations;
        out->frees += workers[w].frees;
        out->failures += workers[w].failures;
        start = workers[w].start_ns < start ? workers[w].start_ns : start;
        end = workers[w].end_ns > end ? workers[w].end_ns : end;
    }
    out->operations = out->allocations + out->frees + out->failures;
    out->wall_ns = end - start - (count == 1 ? workers[0].paused_ns : 0);
    measure(player, false, scratch, &out->allocate_mean_ns, out->allocate_ns);
    measure(player, true, scratch, &out->free_mean_ns, out->free_ns);
    out->peak_live_bytes = atomic_load(&player->peak_live_bytes);
    out->peak_reserved_bytes = atomic_load(&player->peak_reserved_bytes);
}

/* The memory that a replay needs; allocated together, so that there is one way to fail.
 */
struct scratch {
    struct tarn__worker *workers;
    uint32_t *order;
    uint64_t *sorted;
};

static void free_scratch(struct tarn__player *player, struct scratch *scratch)
{
    free(player->blocks);
    free(player->durations);
    free(player->streams);
    free(scratch->workers);
    free(scratch->order);
    free(scratch->sorted);
}

static tarn_status make_scratch(struct tarn__player *player, unsigned workers,
                                struct scratch *scratch)
{
    const tarn_trace *trace = player->trace;
    size_t count = trace->count + 1; /* calloc of zero elements is no failure */

    player->blocks = calloc((size_t)trace->blocks + 1, sizeof *player->blocks);
    player->durations = malloc(count * sizeof *player->durations);
    player->streams = calloc((size_t)trace->stream_count + 1, sizeof *player->streams);
    scratch->workers = calloc(workers, sizeof *scratch->workers);
    scratch->order = malloc(count * sizeof *scratch->order);
    scratch->sorted = malloc(count * sizeof *scratch->sorted);
    if (player->blocks && player->durations && player->streams && scratch->workers &&
        scratch->order && scratch->sorted) {
        memset(player->durations, 0xff, count * sizeof *player->durations);
        return TARN_OK;
    }
    free_scratch(player, scratch);
    tarn_error_set(TARN_OUT_OF_MEMORY, "replay: no host memory for %zu operations",
                   trace->count);
    return TARN_OUT_OF_MEMORY;
}

/* All steps between allocating and freeing the memory, in a scope of the device. */
static tarn_status replay_in_scope(struct tarn__player *player, struct scratch *scratch,
                                   unsigned workers, const struct tarn__scope *scope,
                                   const tarn_replay_options *options,
                                   tarn_replay_report *out)
{
    bool real_streams = options->keep_streams && player->device >= 0;
    tarn_replay_report result = {0};
    tarn_status status = TARN_OK;
    size_t total;

    if (real_streams)
        status = create_streams(player, scope, options->register_streams);
    if (status != TARN_OK)
        return status;
    player->sees_memory =
        player->device >= 0 &&
        scope->calls->mem_get_info(&player->free_before, &total) == CUDA_SUCCESS_;
    deal(player, scratch->workers, workers, scratch->order);
    run_workers(player, scratch->workers, workers, options);
    report(player, scratch->workers, workers, scratch->sorted, &result);
    free_the_rest(player, &result.end_frees);
    if (real_streams)
        destroy_streams(player, scope, player->trace->stream_count);
    if (player->failure.status != TARN_OK)
        return tell_failure(player);
    *out = result;
    return TARN_OK;
}

static tarn_status read_options(const tarn_replay_options *given_options,
                                const tarn_trace *trace, tarn_replay_options *out)
{
    tarn_replay_options options;
    tarn_status status = tarn__options_read(
        "replay", given_options, sizeof given_options->size, &options, sizeof options);

    if (status != TARN_OK)
        return status;
    if (options.keep_threads && trace->threads > THREADS_MAX)
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "replay: the log has %u threads, the maximum is %d",
                              trace->threads, THREADS_MAX);
    *out = options;
    return TARN_OK;
}

static void init_player(struct tarn__player *player)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&player->lock, NULL);
    pthread_cond_init(&player->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

tarn_status tarn_replay(const tarn_trace *trace, tarn_resource *resource,
                        const tarn_replay_options *given_options, tarn_replay_report *out)
{
    TARN__NOT_CANCELLED; /* the threads of the replay use this one's stack */
    struct tarn__player player = {.trace = trace, .resource = resource};
    struct tarn__scope scope = {.calls = NULL};
    struct scratch scratch = {NULL, NULL, NULL};
    tarn_replay_options options = {.size = 0};

    if (!trace || !resource || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "replay: trace, resource or report is NULL");
    tarn_status status = read_options(given_options, trace, &options);
    if (status != TARN_OK)
        return status;
    player.device = tarn_resource_device(resource);
    if (player.device >= 0)
        status = tarn__scope_enter(player.device, &scope);
    if (status != TARN_OK)
        return status;
    unsigned workers = options.keep_threads && trace->threads ? trace->threads : 1;
    status = make_scratch(&player, workers, &scratch);
    if (status == TARN_OK) {
        init_player(&player);
        status = replay_in_scope(&player, &scratch, workers, &scope, &options, out);
        pthread_cond_destroy(&player.changed);
        pthread_mutex_destroy(&player.lock);
        free_scratch(&player, &scratch);
    }
    if (player.device >= 0)
        tarn__scope_leave(&scope);
    return status;
}
