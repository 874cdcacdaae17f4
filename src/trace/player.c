/* player.c -- the work of each thread of a replay.
 *
 * Only the calls into the resource are timed. Waiting for another thread's block, the
 * accounting and queries of the device's memory are not. The device's memory is queried
 * when the live bytes have grown by a 256th since the last query and are about to shrink.
 * So the peak is missed by no more than that. It is also queried now and then, for pools
 * that grow otherwise.
 */
#include "trace/player.h"
#include "base/clock.h"

enum { GROWTH_SHARE = 256, LOOK_EVERY = 4096 };

static void raise_to(atomic_uint_fast64_t *peak, uint64_t value)
{
    uint_fast64_t seen = atomic_load(peak);

    while (seen < value && !atomic_compare_exchange_weak(peak, &seen, value))
        ;
}

/* Keep the first failure of all workers and tell them to stop. */
static void fail(struct tarn__player *player)
{
    pthread_mutex_lock(&player->lock);
    if (!atomic_exchange(&player->stop, true))
        player->failure = *tarn_error_last();
    pthread_cond_broadcast(&player->changed);
    pthread_mutex_unlock(&player->lock);
}

/* Publish the outcome of an allocation. */
static void settle(struct tarn__player *player, struct tarn__player_block *block,
                   enum tarn__player_block_state state)
{
    atomic_store(&block->state, state);
    if (atomic_load(&player->waiting) == 0)
        return;
    pthread_mutex_lock(&player->lock);
    pthread_cond_broadcast(&player->changed);
    pthread_mutex_unlock(&player->lock);
}

/* Wait until the block's allocation is over, here or on another thread; return its state.
 */
static enum tarn__player_block_state await(struct tarn__player *player,
                                           struct tarn__player_block *block)
{
    int state = atomic_load(&block->state);

    if (state != BLOCK_NOT_ALLOCATED)
        return (enum tarn__player_block_state)state;
    pthread_mutex_lock(&player->lock);
    atomic_fetch_add(&player->waiting, 1);
    while ((state = atomic_load(&block->state)) == BLOCK_NOT_ALLOCATED &&
           !atomic_load(&player->stop))
        pthread_cond_wait(&player->changed, &player->lock);
    atomic_fetch_sub(&player->waiting, 1);
    pthread_mutex_unlock(&player->lock);
    return (enum tarn__player_block_state)state;
}

static void play_allocation(struct tarn__worker *worker, uint32_t index)
{
    struct tarn__player *player = worker->player;
    const struct tarn__op *op = &player->trace->ops[index];
    struct tarn__player_block *block = &player->blocks[op->block];
    uint64_t start = tarn__now_ns();
    tarn_status status = tarn_resource_allocate(
        player->resource, op->bytes, 0, player->streams[op->stream], &block->address);
    uint64_t end = tarn__now_ns();

    if (status != TARN_OK) {
        worker->failures++;
        if (status != TARN_OUT_OF_MEMORY)
            fail(player);
        settle(player, block, BLOCK_FAILED);
        return;
    }
    player->durations[index] = end - start;
    worker->allocations++;
    raise_to(&player->peak_live_bytes,
             atomic_fetch_add(&player->live_bytes, op->bytes) + op->bytes);
    settle(player, block, BLOCK_LIVE);
}

static void play_free(struct tarn__worker *worker, uint32_t index)
{
    struct tarn__player *player = worker->player;
    const struct tarn__op *op = &player->trace->ops[index];
    struct tarn__player_block *block = &player->blocks[op->block];

    if (await(player, block) != BLOCK_LIVE)
        return;
    uint64_t start = tarn__now_ns();
    tarn_status status = tarn_resource_deallocate(
        player->resource, block->address, op->bytes, 0, player->streams[op->stream]);
    uint64_t end = tarn__now_ns();
    if (status != TARN_OK) {
        fail(player); /* it stays live; the end tries it once more */
        return;
    }
    atomic_store(&block->state, BLOCK_FREED);
    atomic_fetch_sub(&player->live_bytes, op->bytes);
    player->durations[index] = end - start;
    worker->frees++;
}

/* Query the device's free memory. */
static void sample_memory(struct tarn__worker *worker, const struct tarn__scope *scope)
{
    struct tarn__player *player = worker->player;
    size_t free_bytes, total_bytes;

    if (!player->sees_memory)
        return;
    uint64_t start = tarn__now_ns();
    if (scope->calls->mem_get_info(&free_bytes, &total_bytes) == CUDA_SUCCESS_ &&
        free_bytes < player->free_before)
        raise_to(&player->peak_reserved_bytes, player->free_before - free_bytes);
    worker->paused_ns += tarn__now_ns() - start;
}

/* Have the live bytes grown enough since `*seen` to query the memory before they shrink?
 */
static bool has_grown(const struct tarn__player *player, uint64_t *seen)
{
    uint64_t live = atomic_load_explicit(&player->live_bytes, memory_order_relaxed);

    if (live <= *seen + *seen / GROWTH_SHARE)
        return false;
    *seen = live;
    return true;
}

static void play(struct tarn__worker *worker, const struct tarn__scope *scope)
{
    struct tarn__player *player = worker->player;
    uint64_t seen = 0;

    worker->start_ns = tarn__now_ns();
    for (size_t i = 0; i < worker->count; i++) {
        uint32_t index = worker->order[i];
        bool is_free = tarn__load_op_is_free(&player->trace->ops[index]);
        if (atomic_load_explicit(&player->stop, memory_order_relaxed))
            break;
        if (i % LOOK_EVERY == LOOK_EVERY - 1 || (is_free && has_grown(player, &seen)))
            sample_memory(worker, scope);
        if (is_free)
            play_free(worker, index);
        else
            play_allocation(worker, index);
        atomic_store_explicit(&worker->done, i + 1, memory_order_relaxed);
    }
    sample_memory(worker, scope);
    worker->end_ns = tarn__now_ns();
}

void *tarn__player_run(void *data)
{
    struct tarn__worker *worker = data;
    struct tarn__player *player = worker->player;
    struct tarn__scope scope = {.calls = NULL};

    pthread_mutex_lock(&player->lock); /* all start together */
    pthread_mutex_unlock(&player->lock);
    if (player->device < 0 || tarn__scope_enter(player->device, &scope) == TARN_OK) {
        play(worker, &scope);
        if (player->device >= 0)
            tarn__scope_leave(&scope);
    } else {
        fail(player);
    }
    pthread_mutex_lock(&player->lock);
    player->running--;
    pthread_cond_broadcast(&player->changed);
    pthread_mutex_unlock(&player->lock);
    return NULL;
}
