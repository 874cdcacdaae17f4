/* log.c -- the log of this process, in the format of NBEP 7, in memory and in a file.
 *
 * The rows are in a queue of bounded length; the oldest are dropped when it is full. Each
 * row takes its place in the queue at the moment that decides its order: an allocation
 * when it is over, a free before it begins. A row goes to the file when all before it are
 * complete. So the log never shows an address as allocated twice.
 *
 * A free that failed is removed from the queue. Tarn retries it. The observer reports a
 * retry as another free. For a manager the row is written once a retry has succeeded:
 * before the address is reused, or once no failed free is left
 * (tarn_pointer_deferred_frees()).
 *
 * The lock is never held while Python or the driver is called, so it may be taken with or
 * without the GIL. All of this is plain C data: blocks are freed, and rows written, after
 * the module's own state is gone.
 */
#include "log.h"
#include "error.h"
#include "live.h"
#include "log_file.h"
#include "log_site.h"
#include "module.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

enum {
    ROWS_FIRST = 1024,
    ROWS_MAX = 65536 /* rows that csv_log() remembers, 8 MiB */
};

struct row {
    struct tarn__log_call call;
    uint64_t thread;
    uint64_t live; /* live blocks after it */
    bool complete;
    bool withdrawn; /* of a free that failed: not shown */
};

/* A free that failed. */
struct failed {
    struct tarn__log_call call;
    uint64_t number; /* from 1 on, in the order in which they failed */
    struct failed *next;
};

static struct {
    pthread_mutex_t lock;
    struct row *rows;       /* row number n is rows[n % capacity] */
    uint64_t capacity;      /* a power of two */
    uint64_t first, next;   /* numbers of the oldest row kept, and of the next one */
    uint64_t written;       /* rows below this number are written */
    uint64_t lost;          /* rows for which there was no memory */
    uint64_t withdrawn;     /* rows that were removed again */
    struct failed *failed;  /* those that are still not freed, newest first */
    uint64_t last_failed;   /* number of the newest one so far */
    atomic_size_t failures; /* length of the list; read without the lock */
    uint64_t live;          /* live blocks */
    uint64_t began_ns;      /* when the log began; 0: not yet */
    tarn_trace_writer *out; /* the file, or NULL; flushes itself in a second, at exit */
} the_log = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_forked; /* this is a forked child */

uint64_t tarn__log_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- rows out ----------------------------------------------------------------------- */

/* The time of a row. A text counts from the oldest row, a binary log as its writer. */
static uint64_t time_in(const tarn_trace_writer *out, uint64_t time_ns, uint64_t began_ns)
{
    if (tarn_trace_writer_format(out) == TARN_TRACE_BINARY)
        return tarn_trace_writer_time_ns(out, time_ns);
    return time_ns - began_ns;
}

static tarn_status write_row(tarn_trace_writer *out, const struct row *row,
                             uint64_t began_ns)
{
    char location[4200] = "";
    const struct tarn__log_call *call = &row->call;

    if (call->site.file && call->site.line > 0)
        snprintf(location, sizeof location, "%s:%d", call->site.file, call->site.line);
    else if (call->site.file)
        snprintf(location, sizeof location, "%s", call->site.file);
    const tarn_trace_event event = {.action = call->action,
                                    .device = call->device,
                                    .address = call->address,
                                    .stream = call->stream,
                                    .bytes = call->bytes,
                                    .thread = row->thread,
                                    .free_bytes = call->free_bytes,
                                    .total_bytes = call->total_bytes,
                                    .live_blocks = row->live,
                                    .start_ns = time_in(out, call->start_ns, began_ns),
                                    .end_ns = time_in(out, call->end_ns, began_ns),
                                    .location = location,
                                    .stack = call->stack};
    return tarn_trace_write(out, &event);
}

static struct row *row_at(uint64_t number)
{
    return &the_log.rows[number & (the_log.capacity - 1)];
}

/* Open the file with the first row. The program goes on without one. Lock held. */
static void open_file_that_is_due(void)
{
    if (tarn__log_file_open(&the_log.out) != TARN_OK)
        fprintf(stderr, "tarn: warning: %s\n", tarn_error_last()->message);
    the_log.written = the_log.first;
}

/* Write the complete rows up to the first incomplete one. Lock held. */
static void drain(void)
{
    if (tarn__log_file_is_due() && the_log.next > the_log.first)
        open_file_that_is_due();
    for (; the_log.out && the_log.written < the_log.next; the_log.written++) {
        const struct row *row = row_at(the_log.written);
        if (!row->complete)
            break;
        if (!row->withdrawn)
            write_row(the_log.out, row, the_log.began_ns); /* it warns of a failure */
    }
}

/* --- rows in ------------------------------------------------------------------------ */

/* Double the queue; false if it has its largest size. Lock held. */
static bool grow(void)
{
    uint64_t capacity = the_log.capacity ? the_log.capacity * 2 : ROWS_FIRST;
    struct row *rows = capacity <= ROWS_MAX ? malloc(capacity * sizeof *rows) : NULL;

    if (!rows)
        return false;
    for (uint64_t n = the_log.first; n < the_log.next; n++)
        rows[n & (capacity - 1)] = *row_at(n);
    free(the_log.rows);
    the_log.rows = rows;
    the_log.capacity = capacity;
    return true;
}

/* Drop the oldest row; the file gets it first, complete or not. Lock held. */
static void drop_oldest(void)
{
    if (the_log.written == the_log.first) {
        row_at(the_log.first)->complete = true; /* a free that is still running */
        drain();
    }
    the_log.first++;
    if (the_log.written < the_log.first)
        the_log.written = the_log.first;
}

/* Get space for one more row; if need be that of the oldest. NULL: no memory. Lock held.
 */
static struct row *next_row(void)
{
    if (the_log.next - the_log.first == the_log.capacity && !grow()) {
        if (the_log.capacity == 0) {
            the_log.lost++;
            return NULL;
        }
        drop_oldest();
    }
    return row_at(the_log.next);
}

static void add_live(const struct tarn__log_call *call)
{
    const struct tarn__live_block block = {.address = call->address,
                                           .bytes = call->bytes,
                                           .device = call->device,
                                           .of_manager = call->of_manager,
                                           .site = call->site,
                                           .stack = call->stack};

    tarn__live_add(&block);
    the_log.live++;
}

static void remove_live(const struct tarn__log_call *call)
{
    tarn__live_remove(call->address);
    if (the_log.live > 0)
        the_log.live--;
}

/* Append a row. Its number, or UINT64_MAX. Lock held. */
static uint64_t append(const struct tarn__log_call *call, bool complete)
{
    if (call->action == TARN_ACTION_ALLOCATE)
        add_live(call);
    else if (call->action == TARN_ACTION_FREE)
        remove_live(call);
    struct row *row = next_row();
    if (!row)
        return UINT64_MAX;
    *row = (struct row){.call = *call,
                        .thread = (uint64_t)syscall(SYS_gettid),
                        .live = the_log.live,
                        .complete = complete};
    if (the_log.began_ns == 0 || row->call.start_ns < the_log.began_ns)
        the_log.began_ns = row->call.start_ns;
    return the_log.next++;
}

/* --- frees that failed --- */

/* Append the row of a free that failed and succeeded since. Lock held. */
static void append_late(struct failed *failed)
{
    uint64_t now = tarn__log_now();

    failed->call.start_ns = failed->call.end_ns = now;
    append(&failed->call, true);
    free(failed);
    atomic_fetch_sub(&the_log.failures, 1);
}

/* An address is allocated: if its free failed, it has succeeded since. Lock held. */
static void settle_address(const struct tarn__log_call *call)
{
    struct failed **link = &the_log.failed;

    while (*link && ((*link)->call.address != call->address ||
                     (*link)->call.device != call->device))
        link = &(*link)->next;
    struct failed *found = *link;
    if (!found)
        return;
    *link = found->next;
    append_late(found);
}

/* The number of the newest failed free, if all failed frees have succeeded since; else 0.
 * Failures after this check have a higher number. */
static uint64_t find_settled(void)
{
    tarn_deferred_frees frees = {.size = sizeof frees};

    if (atomic_load(&the_log.failures) == 0)
        return 0;
    pthread_mutex_lock(&the_log.lock);
    uint64_t newest = the_log.last_failed;
    pthread_mutex_unlock(&the_log.lock);
    if (tarn_pointer_deferred_frees(&frees) != TARN_OK || frees.failed_count > 0)
        return 0;
    return newest;
}

/* Append the rows of the failed frees up to number `newest`, the oldest first. Lock
 * held. */
static void settle(uint64_t newest)
{
    struct failed **link = &the_log.failed, *oldest_first = NULL;

    while (*link && (*link)->number > newest)
        link = &(*link)->next;
    for (struct failed *next, *at = *link; at; at = next) {
        next = at->next;
        at->next = oldest_first;
        oldest_first = at;
    }
    *link = NULL;
    for (struct failed *next; oldest_first; oldest_first = next) {
        next = oldest_first->next;
        append_late(oldest_first);
    }
}

/* Write the rows that have become due. */
static void settle_all(void)
{
    uint64_t newest = find_settled();

    if (newest == 0)
        return;
    pthread_mutex_lock(&the_log.lock);
    settle(newest);
    drain();
    pthread_mutex_unlock(&the_log.lock);
}

static void keep_failed(const struct tarn__log_call *call)
{
    struct failed *failed = malloc(sizeof *failed);

    if (!failed) {
        the_log.lost++;
        return;
    }
    *failed = (struct failed){*call, ++the_log.last_failed, the_log.failed};
    the_log.failed = failed;
    atomic_fetch_add(&the_log.failures, 1);
}

/* Remove the row of a free as if it had never been added. Lock held. */
static void withdraw(uint64_t number)
{
    struct row *row = row_at(number);

    row->withdrawn = true;
    the_log.withdrawn++;
    add_live(&row->call);
    for (uint64_t n = number + 1; n < the_log.next; n++)
        row_at(n)->live++;
    if (row->call.of_manager)
        keep_failed(&row->call);
}

static void forget_failed(void)
{
    struct failed *failed = the_log.failed;

    the_log.failed = NULL;
    atomic_store(&the_log.failures, 0);
    for (struct failed *next; failed; failed = next) {
        next = failed->next;
        free(failed);
    }
}

/* --- for managers --- */

void tarn__log_add(const struct tarn__log_call *call)
{
    settle_all();
    pthread_mutex_lock(&the_log.lock);
    if (the_log.failed && call->action == TARN_ACTION_ALLOCATE)
        settle_address(call);
    append(call, true);
    drain();
    pthread_mutex_unlock(&the_log.lock);
}

uint64_t tarn__log_free_begin(const struct tarn__log_call *call)
{
    struct tarn__live_block block;

    if (is_forked && !tarn__live_find(call->address, &block))
        return UINT64_MAX; /* a block of the parent */
    pthread_mutex_lock(&the_log.lock);
    uint64_t number = append(call, false);
    pthread_mutex_unlock(&the_log.lock);
    return number;
}

void tarn__log_free_end(uint64_t number, const struct tarn__log_call *call, bool is_back)
{
    pthread_mutex_lock(&the_log.lock);
    if (number >= the_log.first && number < the_log.next) {
        struct row *row = row_at(number);
        row->call.end_ns = call->end_ns;
        row->call.free_bytes = call->free_bytes;
        row->call.total_bytes = call->total_bytes;
        row->complete = true;
        if (!is_back)
            withdraw(number);
    }
    drain();
    pthread_mutex_unlock(&the_log.lock);
    settle_all();
}

tarn_trace_writer *tarn__log_pool_writer(void)
{
    pthread_mutex_lock(&the_log.lock);
    tarn_trace_writer *out = the_log.out;
    if (out && tarn_trace_writer_format(out) != TARN_TRACE_BINARY)
        out = NULL;
    tarn_trace_writer_retain(out);
    pthread_mutex_unlock(&the_log.lock);
    return out;
}

/* --- forks and the end -------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&the_log.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&the_log.lock);
}

/* The child has its own log; the parent's file is left to the parent. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&the_log.lock, NULL);
    the_log.out = NULL;
    the_log.first = the_log.written = the_log.next;
    the_log.live = 0;
    is_forked = true;
    forget_failed();
    tarn__log_file_forget();
}

/* The interpreter has ended and has freed its blocks: a binary log gets its end. */
static void at_exit(void)
{
    pthread_mutex_lock(&the_log.lock);
    drain();
    tarn_trace_writer *out = the_log.out;
    the_log.out = NULL;
    pthread_mutex_unlock(&the_log.lock);
    if (out)
        tarn_trace_writer_release(out); /* it warns of a failure */
}

/* --- for Python --------------------------------------------------------------------- */

struct text {
    char *bytes;
    size_t count, capacity;
};

static bool text_add(void *data, const char *bytes, size_t count)
{
    struct text *text = data;

    if (count > text->capacity - text->count) {
        size_t capacity = text->capacity * 2 + count + 4096;
        char *larger = realloc(text->bytes, capacity);
        if (!larger)
            return false;
        text->bytes = larger;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    return true;
}

static tarn_status text_of_log(struct text *text)
{
    tarn_trace_writer *out;
    tarn_status status = tarn_trace_writer_create(text_add, text, TARN_TRACE_NBEP7, &out);

    if (status != TARN_OK)
        return status;
    settle_all();
    pthread_mutex_lock(&the_log.lock);
    for (uint64_t n = the_log.first; status == TARN_OK && n < the_log.next; n++) {
        if (row_at(n)->complete && !row_at(n)->withdrawn)
            status = write_row(out, row_at(n), the_log.began_ns);
    }
    pthread_mutex_unlock(&the_log.lock);
    tarn_status closed = tarn_trace_writer_release(out);
    return status != TARN_OK ? status : closed;
}

PyDoc_STRVAR(
    csv_log_doc,
    "csv_log()\n--\n\n"
    "Return the log of this process as text of comma-separated values.\n\n"
    "It has NBEP 7's twelve columns, and a row for each block that a manager of\n"
    "tarn.numba allocated or freed; under TARN_LOG, for each block of a resource, too.\n"
    "It has the last 65,536 rows. Raises TarnError if host memory for the text is\n"
    "unavailable.");

static PyObject *csv_log(PyObject *module, PyObject *unused)
{
    struct text text = {0};
    tarn_status status;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS;
    status = text_of_log(&text);
    Py_END_ALLOW_THREADS;
    PyObject *result =
        status == TARN_OK
            ? PyUnicode_DecodeUTF8(text.bytes ? text.bytes : "", (Py_ssize_t)text.count,
                                   "surrogateescape")
            : tarn__error_raise(tarn__state_get(module), status);
    free(text.bytes);
    return result;
}

/* Open a file and write its header: a full disk is reported here and not at the end. */
static tarn_status open_file(const char *path, bool each_row, tarn_trace_writer **out)
{
    tarn_trace_writer *writer;
    tarn_status status = tarn_trace_writer_open(path, TARN_TRACE_NBEP7, &writer);

    if (status != TARN_OK)
        return status;
    status = tarn_trace_writer_set_auto_flush(writer, each_row);
    if (status == TARN_OK)
        *out = writer;
    else
        tarn_trace_writer_release(writer);
    return status;
}

PyDoc_STRVAR(
    log_open_doc,
    "log_open(path, /, each_row=False)\n--\n\n"
    "Write the rows to a file as well, from the oldest row in memory on.\n\n"
    "each_row: write every row at once, for processes that another one may end.\n"
    "Raises TarnError if the file cannot be written.");

static PyObject *log_open(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"", "each_row", NULL};
    int each_row = 0;
    PyObject *path;
    tarn_trace_writer *out, *before;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&|p:log_open", names,
                                     PyUnicode_FSConverter, &path, &each_row))
        return NULL;
    tarn_status status = open_file(PyBytes_AS_STRING(path), each_row != 0, &out);
    Py_DECREF(path);
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    pthread_mutex_lock(&the_log.lock);
    before = the_log.out;
    the_log.out = out;
    the_log.written = the_log.first;
    drain();
    pthread_mutex_unlock(&the_log.lock);
    if (before)
        tarn_trace_writer_release(before);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    log_set_file_doc,
    "log_set_file(path, owner, format, depth=0, ring=0, /)\n--\n\n"
    "Write the rows to a file as well, which is opened with the next row.\n\n"
    "owner: the process that has the name itself; others, also forked children, have\n"
    "PATH.PID. format: a tarn_trace_format. depth, ring: frames of a call stack, and\n"
    "bytes of a ring, for a binary log.");

static PyObject *log_set_file(PyObject *module, PyObject *arguments)
{
    tarn_trace_writer_options options = {.size = sizeof options};
    unsigned long long ring = 0;
    PyObject *path;
    int format;
    long owner;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "O&li|IK:log_set_file", PyUnicode_FSConverter, &path,
                          &owner, &format, &options.stack_depth, &ring))
        return NULL;
    options.format = (tarn_trace_format)format;
    options.ring_bytes = ring;
    char *copy = strdup(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    if (!copy)
        return PyErr_NoMemory();
    pthread_mutex_lock(&the_log.lock);
    tarn__log_file_set(copy, owner, &options);
    pthread_mutex_unlock(&the_log.lock);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(log_open_file_doc,
             "log_open_file()\n--\n\n"
             "Open the file of log_set_file() now, unless it is open.\n\n"
             "Raises TarnError if the file cannot be written.");

static PyObject *log_open_file(PyObject *module, PyObject *unused)
{
    tarn_status status = TARN_OK;

    (void)unused;
    pthread_mutex_lock(&the_log.lock);
    if (tarn__log_file_is_due())
        status = tarn__log_file_open(&the_log.out);
    pthread_mutex_unlock(&the_log.lock);
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(log_flush_doc,
             "log_flush()\n--\n\n"
             "Write all complete rows to the file.\n\n"
             "Raises TarnError for a failure of the file since the last flush.");

static PyObject *log_flush(PyObject *module, PyObject *unused)
{
    (void)unused;
    settle_all();
    pthread_mutex_lock(&the_log.lock);
    tarn_status status = the_log.out ? tarn_trace_flush(the_log.out) : TARN_OK;
    pthread_mutex_unlock(&the_log.lock);
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(log_exiting_doc,
             "log_exiting()\n--\n\n"
             "Record that exit has begun: later frees have the Location <exit>.\n\n"
             "A binary log gets the mark <exit>.");

static PyObject *log_exiting(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (tarn__log_site_begin_exit()) {
        pthread_mutex_lock(&the_log.lock);
        drain();
        if (the_log.out)
            tarn_trace_write_mark(the_log.out, "<exit>"); /* the writer warns */
        pthread_mutex_unlock(&the_log.lock);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(log_close_doc, "log_close()\n--\n\n"
                            "Close the file and drop all rows.");

static PyObject *log_close(PyObject *module, PyObject *unused)
{
    tarn_trace_writer *out;

    (void)unused;
    pthread_mutex_lock(&the_log.lock);
    out = the_log.out;
    the_log.out = NULL;
    the_log.first = the_log.written = the_log.next;
    the_log.lost = 0;
    the_log.began_ns = 0;
    pthread_mutex_unlock(&the_log.lock);
    tarn_status status = out ? tarn_trace_writer_release(out) : TARN_OK;
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    log_counts_doc,
    "log_counts()\n--\n\n"
    "Return (rows, kept, live).\n\n"
    "rows: number of all rows. kept: number of rows in memory. live: number of live\n"
    "blocks.");

static PyObject *log_counts(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    settle_all();
    pthread_mutex_lock(&the_log.lock);
    unsigned long long rows = the_log.next + the_log.lost - the_log.withdrawn;
    unsigned long long kept = the_log.next - the_log.first;
    unsigned long long live = the_log.live;
    pthread_mutex_unlock(&the_log.lock);
    return Py_BuildValue("(KKK)", rows, kept, live);
}

PyMethodDef tarn__log_methods[] = {
    {"csv_log", csv_log, METH_NOARGS, csv_log_doc},
    {"log_open", (PyCFunction)(void (*)(void))log_open, METH_VARARGS | METH_KEYWORDS,
     log_open_doc},
    {"log_set_file", log_set_file, METH_VARARGS, log_set_file_doc},
    {"log_open_file", log_open_file, METH_NOARGS, log_open_file_doc},
    {"log_flush", log_flush, METH_NOARGS, log_flush_doc},
    {"log_exiting", log_exiting, METH_NOARGS, log_exiting_doc},
    {"log_close", log_close, METH_NOARGS, log_close_doc},
    {"log_counts", log_counts, METH_NOARGS, log_counts_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__log_init(PyObject *module)
{
    static bool begun; /* the hooks are the process's, not the module's */

    if (!begun) {
        begun = true;
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        atexit(at_exit);
        tarn__log_site_set_finder();
    }
    if (PyModule_AddFunctions(module, tarn__log_methods) != 0)
        return -1;
    return PyModule_AddFunctions(module, tarn__log_site_methods);
}
