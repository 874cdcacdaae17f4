/* log_methods.c -- the functions of the module for the log: its text, and its file. */
#include "error.h"
#include "log_failed.h"
#include "log_file.h"
#include "log_rows.h"
#include "log_site.h"
#include "module.h"

#include <stdlib.h>
#include <string.h>

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
    tarn__log_failed_settle_all();
    pthread_mutex_lock(&tarn__log_rows.lock);
    for (uint64_t n = tarn__log_rows.first; status == TARN_OK && n < tarn__log_rows.next;
         n++) {
        if (tarn__log_rows_at(n)->complete && !tarn__log_rows_at(n)->withdrawn)
            status = tarn__log_rows_write(out, tarn__log_rows_at(n));
    }
    pthread_mutex_unlock(&tarn__log_rows.lock);
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

/* Return None, or raise the error of a call. */
static PyObject *none_of(PyObject *module, tarn_status status)
{
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
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
    pthread_mutex_lock(&tarn__log_rows.lock);
    tarn__log_file_set(PyBytes_AS_STRING(path), owner, &options);
    pthread_mutex_unlock(&tarn__log_rows.lock);
    Py_DECREF(path);
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
    pthread_mutex_lock(&tarn__log_rows.lock);
    if (tarn__log_file_is_due())
        status = tarn__log_rows_open_file();
    tarn__log_rows_drain();
    pthread_mutex_unlock(&tarn__log_rows.lock);
    return none_of(module, status);
}

PyDoc_STRVAR(log_flush_doc,
             "log_flush()\n--\n\n"
             "Write all complete rows to the file.\n\n"
             "Raises TarnError for a failure of the file since the last flush.");

static PyObject *log_flush(PyObject *module, PyObject *unused)
{
    (void)unused;
    tarn__log_failed_settle_all();
    pthread_mutex_lock(&tarn__log_rows.lock);
    tarn_status status =
        tarn__log_rows.out ? tarn_trace_flush(tarn__log_rows.out) : TARN_OK;
    pthread_mutex_unlock(&tarn__log_rows.lock);
    return none_of(module, status);
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
        pthread_mutex_lock(&tarn__log_rows.lock);
        tarn__log_rows_drain();
        if (tarn__log_rows.out)
            tarn_trace_write_mark(tarn__log_rows.out, "<exit>",
                                  UINT64_MAX); /* the writer warns */
        pthread_mutex_unlock(&tarn__log_rows.lock);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(log_close_doc, "log_close()\n--\n\n"
                            "Close the file and drop all rows.");

static PyObject *log_close(PyObject *module, PyObject *unused)
{
    tarn_trace_writer *out;

    (void)unused;
    pthread_mutex_lock(&tarn__log_rows.lock);
    out = tarn__log_rows.out;
    tarn__log_rows.out = NULL;
    tarn__log_rows.first = tarn__log_rows.next;
    tarn__log_rows.lost = 0;
    tarn__log_rows.began_ns = 0;
    pthread_mutex_unlock(&tarn__log_rows.lock);
    tarn_status status = out ? tarn_trace_writer_release(out) : TARN_OK;
    return none_of(module, status);
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
    tarn__log_failed_settle_all();
    pthread_mutex_lock(&tarn__log_rows.lock);
    unsigned long long rows =
        tarn__log_rows.next + tarn__log_rows.lost - tarn__log_rows.withdrawn;
    unsigned long long kept = tarn__log_rows.next - tarn__log_rows.first;
    unsigned long long live = tarn__log_rows.live;
    pthread_mutex_unlock(&tarn__log_rows.lock);
    return Py_BuildValue("(KKK)", rows, kept, live);
}

static PyMethodDef methods[] = {
    {"csv_log", csv_log, METH_NOARGS, csv_log_doc},
    {"log_set_file", log_set_file, METH_VARARGS, log_set_file_doc},
    {"log_open_file", log_open_file, METH_NOARGS, log_open_file_doc},
    {"log_flush", log_flush, METH_NOARGS, log_flush_doc},
    {"log_exiting", log_exiting, METH_NOARGS, log_exiting_doc},
    {"log_close", log_close, METH_NOARGS, log_close_doc},
    {"log_counts", log_counts, METH_NOARGS, log_counts_doc},
    {NULL, NULL, 0, NULL},
};

int tarn__log_methods_init(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
