/* work.c -- the scheduler: the order of turns, and the threads that do the work.
 *
 * In the eager mode threads do all work as soon as they can. In the seeded mode the
 * host's own calls do it, when they wait, query, or find something due: one operation
 * after the other in the order of seeded.h. Only an operation that may block runs on a
 * thread.
 *
 * Threads are started when there is work and none is idle. A host function may block
 * until another stream has reached some point, so a fixed small number of threads would
 * deadlock.
 */
#define _GNU_SOURCE
#include "sim/work/work.h"
#include "sim/core/lock.h"
#include "sim/core/options.h"
#include "sim/core/phase.h"
#include "sim/races/races.h"
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum {
    WORKERS_MAX = 256,
    /* for operations that cannot block: more threads slow each other down */
    COPY_WORKERS_MAX = 2,
};

/* Streams whose first operation a worker may start, oldest first. */
static struct sim_stream *ready_first, *ready_last;
static unsigned ready_count, idle_count, starting_count, worker_count;
static unsigned blocked_count; /* workers in a host function, which may block */
static pthread_cond_t ready_signal = PTHREAD_COND_INITIALIZER;

static struct sim_stream
    *check_list; /* streams whose first operation may have its turn */
static uint64_t last_sequence;

/* --- streams --- */

static void list_busy(struct sim_stream *stream)
{
    struct sim_context *context = stream->context;

    stream->previous = NULL;
    stream->next = context->busy;
    if (context->busy)
        context->busy->previous = stream;
    context->busy = stream;
}

static void unlist_busy(struct sim_stream *stream)
{
    if (stream->next)
        stream->next->previous = stream->previous;
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        stream->context->busy = stream->next;
}

/* --- operations --- */

static void list_in_context(struct sim_op *op)
{
    struct sim_context *context = op->stream->context;

    op->previous_in_context = context->last_op;
    if (context->last_op)
        context->last_op->next_in_context = op;
    else
        context->first_op = op;
    context->last_op = op;
}

static void unlist_in_context(struct sim_op *op)
{
    struct sim_context *context = op->stream->context;

    if (op->next_in_context)
        op->next_in_context->previous_in_context = op->previous_in_context;
    else
        context->last_op = op->previous_in_context;
    if (op->previous_in_context)
        op->previous_in_context->next_in_context = op->next_in_context;
    else
        context->first_op = op->next_in_context;
}

/* --- the threads --- */

static void finish_first(struct sim_stream *stream);

static struct sim_stream *take_ready(void)
{
    struct sim_stream *stream = ready_first;

    ready_first = stream->next_ready;
    if (!ready_first)
        ready_last = NULL;
    ready_count--;
    return stream;
}

/* Run `op`, unless its check forbids it. Releases the lock meanwhile. */
static void run_unlocked(struct sim_op *op)
{
    if (op->check && !op->check->enter(op->data))
        return;
    sim_lock_release();
    op->run(op->data);
    sim_lock();
    if (op->check)
        op->check->leave(op->data);
}

static bool start_worker(void);

/* A worker that may block first makes another worker available for ready streams. */
static void run_first(struct sim_stream *stream)
{
    bool may_block = !stream->first->touch;

    blocked_count += may_block;
    if (may_block && ready_count > idle_count + starting_count)
        start_worker();
    if (may_block)
        sim_lock_wake(); /* sim_work_settle() does not wait for it */
    run_unlocked(stream->first);
    blocked_count -= may_block;
    finish_first(stream);
}

static void *work(void *unused)
{
    (void)unused;
    sim_lock();
    starting_count--;
    for (;;) {
        while (!ready_first || sim_phase_is_stopped()) {
            idle_count++;
            sim_lock_wait(&ready_signal);
            idle_count--;
        }
        run_first(take_ready());
    }
    return NULL;
}

/* Block all signals: they are for the program's own threads. */
static bool start_worker(void)
{
    sigset_t all, old;
    pthread_attr_t attributes;
    pthread_t thread;
    bool started;

    if (worker_count == WORKERS_MAX || pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    started = pthread_create(&thread, &attributes, work, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    worker_count += started;
    starting_count += started;
    return started;
}

static void queue_for_workers(struct sim_stream *stream)
{
    stream->first->is_started = true;
    stream->next_ready = NULL;
    if (ready_last)
        ready_last->next_ready = stream;
    else
        ready_first = stream;
    ready_last = stream;
    ready_count++;
    if (sim_phase_is_stopped())
        return; /* a waiter of the signal may belong to the process before a fork */
    if (ready_count > idle_count + starting_count &&
        (!stream->first->touch || worker_count < blocked_count + COPY_WORKERS_MAX))
        start_worker(); /* otherwise a busy worker takes it later */
    pthread_cond_signal(&ready_signal);
}

/* --- turns --- */

static void check_later(struct sim_stream *stream)
{
    if (stream->is_in_check_list)
        return;
    stream->is_in_check_list = true;
    sim_stream_retain(stream);
    stream->next_to_check = check_list;
    check_list = stream;
}

/* One dependency of `op` is met. */
static void complete_dependency(struct sim_op *op)
{
    if (--op->pending != 0)
        return;
    if (op->is_dropped)
        free(op);
    else if (op->stream && op->stream->first == op)
        check_later(op->stream);
}

static void wake_waiters(struct sim_stream *stream)
{
    struct sim_waiter **link = &stream->waiters;

    while (*link) {
        struct sim_waiter *waiter = *link;
        if (waiter->until > stream->done) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        complete_dependency(waiter->op);
        free(waiter);
    }
}

/* The first operation of `stream` is complete. */
static void complete(struct sim_stream *stream)
{
    struct sim_op *op = stream->first;

    stream->first = op->next;
    if (!stream->first)
        stream->last = NULL;
    stream->done++;
    unlist_in_context(op);
    if (stream->done == stream->queued)
        unlist_busy(stream);
    if (op->finish)
        op->finish(op->data);
    free(op);
    wake_waiters(stream);
    sim_lock_wake();
    check_later(stream);
    sim_stream_release(stream);
}

/* Start, complete or offer operations whose turn it is, until nothing more follows. */
static void process_check_list(void)
{
    while (check_list) {
        struct sim_stream *stream = check_list;
        struct sim_op *op = stream->first;
        check_list = stream->next_to_check;
        stream->is_in_check_list = false;
        if (!op || op->pending || op->is_started) {
            /* nothing to do, or already running */
        } else if (sim_is_seeded) {
            op->is_started = true;
            sim_seeded_offer(&stream->turn, op->sequence);
        } else if (op->runs_in_caller) {
            op->is_started = op->is_turn = true;
            sim_lock_wake();
        } else if (op->run) {
            queue_for_workers(stream);
        } else {
            complete(stream);
        }
        sim_stream_release(stream);
    }
}

/* The first operation of `stream` has run: complete it and what follows. */
static void finish_first(struct sim_stream *stream)
{
    complete(stream);
    process_check_list();
}

/* --- the seeded mode --- */

/* A host function runs on a thread of its own, since it may block until the client acts.
 * Mostly it does not, and then nothing else happens meanwhile. */
static void run_in_thread(struct sim_stream *stream)
{
    uint64_t until = stream->done + 1;
    struct timespec deadline;

    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += (time_t)(sim_options.patience_ms / 1000);
    deadline.tv_nsec += (long)(sim_options.patience_ms % 1000) * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_nsec -= 1000000000;
        deadline.tv_sec++;
    }
    sim_stream_retain(stream);
    queue_for_workers(stream);
    while (stream->done < until && sim_lock_wait_progress_until(&deadline))
        ;
    sim_stream_release(stream);
}

static struct sim_stream *stream_of(struct sim_turn *turn)
{
    return (struct sim_stream *)(void *)((char *)turn -
                                         offsetof(struct sim_stream, turn));
}

/* Run the operation of the next turn. */
static void step(void)
{
    struct sim_stream *stream = stream_of(sim_seeded_take());
    struct sim_op *op = stream->first;

    if (op->run && !op->touch) {
        run_in_thread(stream);
        return;
    }
    if (op->run && (!op->check || op->check->enter(op->data))) {
        op->run(op->data);
        if (op->check)
            op->check->leave(op->data);
    }
    finish_first(stream);
}

/* The duration of a call. Without it nothing would ever become due. */
enum { CALL_NS = 200 };

void sim_work_tick(uint64_t number)
{
    sim_seeded_advance(CALL_NS);
    while (sim_seeded_is_due())
        step();
    if (sim_seeded_has_turns() && sim_seeded_wants_more(number))
        step();
}

void sim_work_poll(void)
{
    if (sim_is_seeded && sim_seeded_has_turns() && sim_seeded_query_progresses())
        step();
}

bool sim_work_step(void)
{
    if (!sim_is_seeded || !sim_seeded_has_turns())
        return false;
    step();
    return true;
}

/* Make progress: the event that a waiting thread waits for may be closer after this. */
static void advance(void)
{
    if (!sim_work_step())
        sim_lock_wait_progress();
}

/* --- queueing --- */

/* Apply the rules of the default stream: it waits for all blocking streams, and they for
 * it. */
static bool order_by_default_stream(struct sim_stream *stream, struct sim_op *op)
{
    struct sim_context *context = stream->context;

    if (stream->is_internal || stream->flags & CU_STREAM_NON_BLOCKING)
        return true;
    if (stream != context->legacy)
        return sim_op_after(op, context->legacy, context->legacy->queued);
    for (struct sim_stream *other = context->busy; other; other = other->next)
        if (other != stream && !other->is_internal &&
            !(other->flags & CU_STREAM_NON_BLOCKING) &&
            !sim_op_after(op, other, other->queued))
            return false;
    return true;
}

static void append(struct sim_stream *stream, struct sim_op *op)
{
    op->stream = stream;
    op->sequence = ++last_sequence;
    if (stream->done == stream->queued)
        list_busy(stream);
    stream->queued++;
    if (stream->last)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    list_in_context(op);
    sim_stream_retain(stream);
}

bool sim_work_ready(void)
{
    return worker_count > 0 || start_worker();
}

CUresult sim_work_queue(struct sim_stream *stream, struct sim_op *op)
{
    if (!order_by_default_stream(stream, op)) {
        sim_op_drop(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (op->run && !op->runs_in_caller && !sim_work_ready()) {
        sim_op_drop(op);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    sim_races_queue(stream, op);
    append(stream, op);
    check_later(stream);
    process_check_list();
    if (sim_is_seeded)
        sim_lock_wake(); /* a waiting thread takes the turn */
    return CUDA_SUCCESS;
}

CUresult sim_work_do(struct sim_stream *stream, struct sim_op *op)
{
    CUresult result;

    op->runs_in_caller = !sim_is_seeded;
    result = sim_work_queue(stream, op);
    if (result != CUDA_SUCCESS)
        return result;
    sim_races_host_waits(stream);
    if (sim_is_seeded) {
        struct sim_context *context = stream->context;
        sim_work_wait(stream, stream->queued);
        return sim_context_error(context);
    }
    while (!op->is_turn)
        sim_lock_wait_progress();
    run_unlocked(op);
    struct sim_context *context = stream->context;
    finish_first(stream);
    return sim_context_error(context);
}

/* --- waiting --- */

void sim_work_wait(struct sim_stream *stream, uint64_t until)
{
    sim_stream_retain(stream);
    while (stream->done < until)
        advance();
    sim_stream_release(stream);
}

void sim_work_wait_context(struct sim_context *context)
{
    uint64_t until = last_sequence;

    sim_races_host_waits_for_context(context);
    while (context->first_op && context->first_op->sequence <= until)
        advance();
}

void sim_work_wait_device(CUdevice device)
{
    for (struct sim_context *context = sim_contexts; context; context = context->next)
        if (context->device == device)
            sim_work_wait_context(context);
}

void sim_work_wait_all(void)
{
    for (struct sim_context *context = sim_contexts; context; context = context->next)
        sim_work_wait_context(context);
}

void sim_work_settle(void)
{
    while (
        !sim_is_seeded && worker_count > 0 &&
        (ready_count > 0 || worker_count > idle_count + starting_count + blocked_count))
        sim_lock_wait_progress();
}

bool sim_work_is_idle(CUdevice device)
{
    for (const struct sim_context *context = sim_contexts; context;
         context = context->next)
        if (context->device == device && context->first_op)
            return false;
    return true;
}
