/* log.c -- the log of this process, in the format of NBEP 7, in memory and in a file.
 *
 * The rows are in a queue of bounded length (log_rows.c). Each row takes its place in the
 * queue at the moment that decides its order: an allocation when it is over, a free before
 * it begins. A row goes to the file when all before it are complete. So the log never
 * shows an address as allocated twice.
 *
 * A free that failed is removed from the queue. Tarn retries it. The observer reports a
 * retry as another free. For a manager the row is written once a retry has succeeded
 * (log_failed.c).
 *
 * The lock is never held while Python or the driver is called, so it may be taken with or
 * without the GIL. All of this is plain C data: blocks are freed, and rows written, after
 * the module's own state is gone.
 */
#include "log.h"
#include "live.h"
#include "log_failed.h"
#include "log_file.h"
#include "log_rows.h"
#include "log_site.h"
#include "module.h"

#include <stdlib.h>

static bool is_forked; /* this is a forked child */

/* --- for managers --- */

void tarn__log_add(const struct tarn__log_call *call)
{
    tarn__log_failed_settle_all();
    pthread_mutex_lock(&tarn__log_rows.lock);
    if (call->action == TARN_ACTION_ALLOCATE)
        tarn__log_failed_settle_address(call);
    tarn__log_rows_append(call, true);
    tarn__log_rows_drain();
    pthread_mutex_unlock(&tarn__log_rows.lock);
}

uint64_t tarn__log_free_begin(const struct tarn__log_call *call)
{
    struct tarn__live_block block;

    if (is_forked && !tarn__live_find(call->address, &block))
        return UINT64_MAX; /* a block of the parent */
    pthread_mutex_lock(&tarn__log_rows.lock);
    uint64_t number = tarn__log_rows_append(call, false);
    pthread_mutex_unlock(&tarn__log_rows.lock);
    return number;
}

void tarn__log_free_end(uint64_t number, const struct tarn__log_call *call, bool is_back)
{
    pthread_mutex_lock(&tarn__log_rows.lock);
    if (number >= tarn__log_rows.first && number < tarn__log_rows.next) {
        struct tarn__log_row *row = tarn__log_rows_at(number);
        row->call.end_ns = call->end_ns;
        row->call.free_bytes = call->free_bytes;
        row->call.total_bytes = call->total_bytes;
        row->complete = true;
        if (!is_back)
            tarn__log_rows_withdraw(number);
        if (!is_back && row->call.of_manager)
            tarn__log_failed_keep(&row->call);
    }
    tarn__log_rows_drain();
    pthread_mutex_unlock(&tarn__log_rows.lock);
    tarn__log_failed_settle_all();
}

tarn_trace_writer *tarn__log_pool_writer(void)
{
    pthread_mutex_lock(&tarn__log_rows.lock);
    tarn_trace_writer *out = tarn_trace_writer_retain(tarn__log_rows.out);
    pthread_mutex_unlock(&tarn__log_rows.lock);
    return out;
}

/* --- forks and the end -------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&tarn__log_rows.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&tarn__log_rows.lock);
}

/* The child has its own log; the parent's file is left to the parent. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&tarn__log_rows.lock, NULL);
    tarn__log_rows.out = NULL;
    tarn__log_rows.first = tarn__log_rows.next;
    tarn__log_rows.live = 0;
    is_forked = true;
    tarn__log_failed_forget();
    tarn__log_file_forget();
}

/* The interpreter has ended and has freed its blocks: the logs get their end, also those of
 * loggers. Interrupted by Ctrl-C, Python ends by a signal, without exit(). A program that
 * embeds Python can call exit() without an end of the interpreter. */
static void at_exit(void)
{
    pthread_mutex_lock(&tarn__log_rows.lock);
    tarn__log_rows_drain();
    tarn_trace_writer *out = tarn__log_rows.out;
    tarn__log_rows.out = NULL;
    pthread_mutex_unlock(&tarn__log_rows.lock);
    if (out)
        tarn_trace_writer_release(out); /* it warns of a failure */
    tarn_trace_flush_all();
}

int tarn__log_init(PyObject *module)
{
    static bool begun; /* the hooks are the process's, not the module's */

    if (!begun) {
        begun = true;
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        Py_AtExit(at_exit);
        atexit(at_exit);
        tarn__log_site_set_finder();
    }
    return PyModule_AddFunctions(module, tarn__log_site_methods);
}
