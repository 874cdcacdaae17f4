/* pool.c -- create the C resources of the pools of tarn/mr.py, and query them.
 *
 * As in maker.c these functions are internal to the package. The classes, their
 * documentation and the names of the results are in Python. Statistics and reports are
 * returned as dicts with the names of the C structs' members, so that one list names
 * them.
 */
#include "pool.h"
#include "arguments.h"
#include "error.h"
#include "module.h"
#include "plan.h"
#include "resource.h"

#include <stdlib.h>

tarn_resource *tarn__pool_of(tarn__state *state, PyObject *object)
{
    tarn__resource_object *self = (tarn__resource_object *)object;

    if (!PyObject_TypeCheck(object, (PyTypeObject *)state->DeviceMemoryResource) ||
        self->native == NULL) {
        PyErr_Format(PyExc_TypeError,
                     "an object of %.200s is not a resource, or not initialised",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    return self->native;
}

static PyObject *none_or_raise(tarn__state *state, tarn_status status)
{
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    Py_RETURN_NONE;
}

/* --- making them --- */

/* The inputs of a new pool, slab or binning object: an object without a resource, and the
 * upstream C resource (None: NULL). */
struct fresh {
    tarn__resource_object *self;
    PyObject *upstream_object;
    tarn_resource *upstream; /* retained */
    int device;              /* that of upstream, or as given */
};

static int begin(tarn__state *state, PyObject *object, PyObject *upstream, int device,
                 struct fresh *out)
{
    tarn__resource_object *self = (tarn__resource_object *)object;

    if (!PyObject_TypeCheck(object, (PyTypeObject *)state->DeviceMemoryResource)) {
        tarn__resource_reject(object);
        return -1;
    }
    if (tarn__resource_check_new(self) != 0)
        return -1;
    *out = (struct fresh){self, upstream, NULL, device};
    if (upstream == Py_None)
        return 0;
    out->upstream = tarn__resource_from(state, upstream, -1);
    if (out->upstream == NULL)
        return -1;
    if (device < 0)
        out->device = tarn_resource_device(out->upstream);
    return 0;
}

/* Give the object its new resource `made`, or raise an exception. */
static PyObject *finish(tarn__state *state, struct fresh *fresh, tarn_status status,
                        tarn_resource *made)
{
    int result = -1;

    if (status == TARN_OK)
        result = tarn__resource_adopt(state, fresh->self, made, fresh->upstream_object);
    else
        tarn__error_raise(state, status);
    tarn__resource_release(state, fresh->upstream, (PyObject *)fresh->self);
    if (result != 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Read a number of bytes from an argument that may be missing: then *out stays. */
static int optional_size(PyObject *object, size_t *out)
{
    return object == NULL ? 0 : tarn__arguments_size(object, out);
}

/* Convert a path, or None, to bytes or NULL. */
static int path_or_none(PyObject *object, void *out)
{
    if (object == NULL || object == Py_None) {
        Py_CLEAR(*(PyObject **)out);
        return 1;
    }
    return PyUnicode_FSConverter(object, out);
}

/* Read the plan at `path`, a reference that is dropped; NULL: no plan. Returns -1 with an
 * exception set. */
static int plan_of(tarn__state *state, PyObject *path, const tarn_plan **out)
{
    tarn_status status = TARN_OK;
    tarn_plan *plan = NULL;
    int result = 0;

    if (path == NULL)
        return 0;
    Py_BEGIN_ALLOW_THREADS;
    result = tarn__plan_read_file(PyBytes_AS_STRING(path), &plan, &status);
    Py_END_ALLOW_THREADS;
    if (result != 0)
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, PyBytes_AS_STRING(path));
    else if (status != TARN_OK)
        tarn__error_raise(state, status);
    Py_DECREF(path);
    *out = plan;
    return result != 0 || status != TARN_OK ? -1 : 0;
}

/* (self, upstream, device, initial_bytes, maximum_bytes; optional: growth_bytes,
 * release_threshold_bytes, grow_first, is oom_policy FAIL, is suspended_policy RESUME,
 * no_stream_policy, no_stream_limit_bytes, is policy TIGHT, is moves NEVER,
 * background_thread, plan as a path, learn, detect_steps) */
static PyObject *open_pool(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_pool_options options = {.size = sizeof options};
    PyObject *object, *upstream, *initial, *maximum;
    PyObject *growth = NULL, *threshold = NULL, *no_stream_limit = NULL, *path = NULL;
    int device, grow_first = 0, oom_fail = 0, resume = 0, no_stream_policy = 0, tight = 0,
                stays = 0, background_thread = 0, learn = 0, detect_steps = 0;
    tarn_resource *made = NULL;
    struct fresh fresh;
    tarn_status status;

    if (!PyArg_ParseTuple(args, "OOiOO|OOpppiOpppO&pp", &object, &upstream, &device,
                          &initial, &maximum, &growth, &threshold, &grow_first, &oom_fail,
                          &resume, &no_stream_policy, &no_stream_limit, &tight, &stays,
                          &background_thread, path_or_none, &path, &learn, &detect_steps))
        return NULL;
    if (optional_size(no_stream_limit, &options.no_stream_limit_bytes) != 0 ||
        tarn__arguments_size(initial, &options.initial_bytes) != 0 ||
        tarn__arguments_size(maximum, &options.maximum_bytes) != 0 ||
        optional_size(growth, &options.growth_bytes) != 0 ||
        optional_size(threshold, &options.release_threshold_bytes) != 0) {
        Py_XDECREF(path);
        return NULL;
    }
    options.grow_first = grow_first;
    options.background_thread = background_thread;
    options.learn = learn;
    options.detect_steps = detect_steps;
    options.policy = tight ? TARN_POOL_POLICY_TIGHT : TARN_POOL_POLICY_DEFAULT;
    options.moves = stays ? TARN_POOL_MOVES_NEVER : TARN_POOL_MOVES_DEFAULT;
    options.oom_policy = oom_fail ? TARN_POOL_OOM_FAIL : TARN_POOL_OOM_SYNCHRONIZE;
    options.no_stream_policy = (tarn_pool_no_stream_policy)no_stream_policy;
    options.suspended_policy =
        resume ? TARN_POOL_SUSPENDED_RESUME : TARN_POOL_SUSPENDED_FAIL;
    if (plan_of(state, path, &options.plan) != 0)
        return NULL;
    if (begin(state, object, upstream, device, &fresh) != 0) {
        tarn_plan_release((tarn_plan *)options.plan);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pool_create(fresh.device, fresh.upstream, &options, &made);
    Py_END_ALLOW_THREADS;
    tarn_plan_release((tarn_plan *)options.plan);
    return finish(state, &fresh, status, made);
}

/* (self, upstream, device, block_bytes, initial_blocks, maximum_blocks) */
static PyObject *open_slab(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_slab_options options = {.size = sizeof options};
    PyObject *object, *upstream, *block, *initial, *maximum;
    tarn_resource *made = NULL;
    struct fresh fresh;
    tarn_status status;
    int device;

    if (!PyArg_ParseTuple(args, "OOiOOO", &object, &upstream, &device, &block, &initial,
                          &maximum) ||
        tarn__arguments_size(block, &options.block_bytes) != 0 ||
        tarn__arguments_size(initial, &options.initial_blocks) != 0 ||
        tarn__arguments_size(maximum, &options.maximum_blocks) != 0 ||
        begin(state, object, upstream, device, &fresh) != 0)
        return NULL;
    options.growth_blocks = options.initial_blocks;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_slab_create(fresh.device, fresh.upstream, &options, &made);
    Py_END_ALLOW_THREADS;
    return finish(state, &fresh, status, made);
}

/* (self, upstream, min_size_exponent, max_size_exponent) */
static PyObject *open_binning(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_binning_options options = {.size = sizeof options};
    tarn_resource *made = NULL;
    PyObject *object, *upstream;
    struct fresh fresh;
    tarn_status status;

    if (!PyArg_ParseTuple(args, "OOII", &object, &upstream, &options.min_size_exponent,
                          &options.max_size_exponent) ||
        begin(state, object, upstream, -1, &fresh) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_binning_create(fresh.upstream, &options, &made);
    Py_END_ALLOW_THREADS;
    return finish(state, &fresh, status, made);
}

/* (self, bytes, resource or None) */
static PyObject *binning_add(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    PyObject *object, *size, *bin_object;
    tarn_resource *binning, *bin = NULL;
    tarn_status status;
    size_t bytes;

    if (!PyArg_ParseTuple(args, "OOO", &object, &size, &bin_object) ||
        (binning = tarn__pool_of(state, object)) == NULL ||
        tarn__arguments_size(size, &bytes) != 0)
        return NULL;
    if (bin_object != Py_None &&
        (bin = tarn__resource_from(state, bin_object, -1)) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_binning_add_bin(binning, bytes, bin);
    Py_END_ALLOW_THREADS;
    PyObject *result = none_or_raise(state, status);
    tarn__resource_release(state, bin, object);
    return result;
}

/* --- short calls --- */

/* (self, keep_bytes): the number of bytes returned. */
static PyObject *trim(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    PyObject *object, *keep_object;
    tarn_resource *pool;
    tarn_status status;
    size_t keep, released = 0;

    if (!PyArg_ParseTuple(args, "OO", &object, &keep_object) ||
        (pool = tarn__pool_of(state, object)) == NULL ||
        tarn__arguments_size(keep_object, &keep) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_resource_trim(pool, keep, &released);
    Py_END_ALLOW_THREADS;
    return status == TARN_OK ? PyLong_FromSize_t(released)
                             : tarn__error_raise(state, status);
}

/* (self, bytes) */
static PyObject *set_maximum(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    PyObject *object, *size;
    tarn_resource *pool;
    tarn_status status;
    size_t bytes;

    if (!PyArg_ParseTuple(args, "OO", &object, &size) ||
        (pool = tarn__pool_of(state, object)) == NULL ||
        tarn__arguments_size(size, &bytes) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pool_set_maximum(pool, bytes);
    Py_END_ALLOW_THREADS;
    return none_or_raise(state, status);
}

/* (self, keep) */
static PyObject *suspend(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_resource *pool;
    PyObject *object;
    tarn_status status;
    int keep;

    if (!PyArg_ParseTuple(args, "Op", &object, &keep) ||
        (pool = tarn__pool_of(state, object)) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pool_suspend(pool,
                               keep ? TARN_POOL_SUSPEND_KEEP : TARN_POOL_SUSPEND_DISCARD);
    Py_END_ALLOW_THREADS;
    return none_or_raise(state, status);
}

/* Make a call on a pool that has no arguments, without the GIL. */
static PyObject *call_pool(PyObject *module, PyObject *object,
                           tarn_status (*call)(tarn_resource *pool))
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_resource *pool = tarn__pool_of(state, object);
    tarn_status status;

    if (pool == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = call(pool);
    Py_END_ALLOW_THREADS;
    return none_or_raise(state, status);
}

static PyObject *resume(PyObject *module, PyObject *object)
{
    return call_pool(module, object, tarn_pool_resume);
}

static PyObject *generation(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn_resource *pool = tarn__pool_of(state, object);
    uint64_t number;

    if (pool == NULL)
        return NULL;
    tarn_status status = tarn_pool_generation(pool, &number);
    return status == TARN_OK ? PyLong_FromUnsignedLongLong(number)
                             : tarn__error_raise(state, status);
}

/* (self, peer, access) */
static PyObject *set_peer(PyObject *module, PyObject *args)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_resource *pool;
    PyObject *object;
    tarn_status status;
    int peer, access;

    if (!PyArg_ParseTuple(args, "Oip", &object, &peer, &access) ||
        (pool = tarn__pool_of(state, object)) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pool_set_peer_access(pool, peer, access);
    Py_END_ALLOW_THREADS;
    return none_or_raise(state, status);
}

static PyObject *mark_step(PyObject *module, PyObject *object)
{
    return call_pool(module, object, tarn_pool_mark_step);
}

static PyObject *reset_peaks(PyObject *module, PyObject *object)
{
    return call_pool(module, object, tarn_pool_reset_peaks);
}

/* --- structs as dicts --- */

/* A uint64_t of a struct, by name. */
struct member {
    const char *name;
    size_t offset;
};

/* Add `value` (taken over; NULL: an exception is set) under a name. */
static int add_value(PyObject *dict, const char *name, PyObject *value)
{
    int result = value != NULL ? PyDict_SetItemString(dict, name, value) : -1;

    Py_XDECREF(value);
    return result;
}

static PyObject *dict_of(const void *from, const struct member *members, size_t count)
{
    PyObject *dict = PyDict_New();

    for (size_t i = 0; dict != NULL && i < count; i++) {
        uint64_t number = *(const uint64_t *)((const char *)from + members[i].offset);
        if (add_value(dict, members[i].name, PyLong_FromUnsignedLongLong(number)) != 0)
            Py_CLEAR(dict);
    }
    return dict;
}

#define S(name) {#name, offsetof(tarn_pool_statistics, name)}
static const struct member statistics_members[] = {
    S(live),
    S(live_requested),
    S(live_blocks),
    S(thread_cached),
    S(cached),
    S(unfenced),
    S(captured),
    S(reserved),
    S(suspended),
    S(maximum),
    S(peak_allocated),
    S(peak_reserved),
    S(largest_free),
    S(allocations),
    S(frees),
    S(failures),
    S(cache_hits),
    S(same_stream),
    S(completed),
    S(steals),
    S(grown),
    S(stream_waits),
    S(events_recorded),
    S(queries),
    S(growths),
    S(shrinks),
    S(moves),
    S(device_synchronizations),
    S(driver_calls),
    S(streams),
    S(metadata),
    S(no_stream_deferred),
    S(orphaned),
    S(recent_peak_allocated),
    S(recent_peak_reserved),
    S(planned),
    S(plan_missed),
    S(plan_resynchronized),
    S(steps_learned),
    S(plans_made),
    S(plans_worse),
};
#undef S

/* What the pool does with its plan, as a str. */
static PyObject *plan_state_of(const tarn_pool_statistics *statistics)
{
    static const char *const names[] = {"none",        "followed", "off: missed",
                                        "off: memory", "learning", "off: unrepeated",
                                        "off: moves"};

    size_t state = (size_t)statistics->plan_state;
    return PyUnicode_FromString(state < sizeof names / sizeof *names ? names[state]
                                                                     : "unknown");
}

/* How many allocations of 2^i to 2^(i+1)-1 bytes there were, as {2^i: count}. */
static PyObject *classes_of(const tarn_pool_statistics *statistics)
{
    PyObject *dict = PyDict_New();

    for (int i = 0; dict != NULL && i < TARN_POOL_SIZE_CLASSES; i++) {
        if (statistics->size_classes[i] == 0)
            continue;
        PyObject *bytes = PyLong_FromUnsignedLongLong(1ull << i);
        PyObject *count = PyLong_FromUnsignedLongLong(statistics->size_classes[i]);
        if (bytes == NULL || count == NULL || PyDict_SetItem(dict, bytes, count) != 0)
            Py_CLEAR(dict);
        Py_XDECREF(bytes);
        Py_XDECREF(count);
    }
    return dict;
}

static PyObject *statistics(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn_pool_statistics got = {.size = sizeof got};
    tarn_resource *pool = tarn__pool_of(state, object);
    tarn_status status;

    if (pool == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pool_get_statistics(pool, &got);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        return tarn__error_raise(state, status);
    PyObject *dict = dict_of(&got, statistics_members,
                             sizeof statistics_members / sizeof *statistics_members);
    if (dict != NULL &&
        (add_value(dict, "fragmentation", PyFloat_FromDouble(got.fragmentation)) != 0 ||
         add_value(dict, "planned_share", PyFloat_FromDouble(got.planned_share)) != 0 ||
         add_value(dict, "plan_state", plan_state_of(&got)) != 0 ||
         add_value(dict, "size_classes", classes_of(&got)) != 0))
        Py_CLEAR(dict);
    return dict;
}

#define R(name) {#name, offsetof(tarn_pool_oom_report, name)}
static const struct member report_members[] = {
    R(requested),     R(alignment), R(live),         R(thread_cached), R(cached),
    R(unfenced),      R(captured),  R(reserved),     R(maximum),       R(same_stream),
    R(other_streams), R(completed), R(largest_free), R(device_free),   R(device_total),
};
#undef R

/* An error message, which was cut at a fixed length; NULL with an exception set. */
static PyObject *message_of(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* The text of a report; NULL with an exception set. */
static PyObject *text_of(const tarn_pool_oom_report *report)
{
    size_t bytes = tarn_pool_oom_report_text(report, NULL, 0) + 1;
    char *text = PyMem_Malloc(bytes);

    if (text == NULL)
        return PyErr_NoMemory();
    tarn_pool_oom_report_text(report, text, bytes);
    PyObject *result = message_of(text);
    PyMem_Free(text);
    return result;
}

/* This thread's last out-of-memory report, or None. */
static PyObject *last_oom_report(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    tarn_pool_oom_report report = {.size = sizeof report};

    if (tarn_pool_last_oom_report(&report) != TARN_OK)
        Py_RETURN_NONE;
    PyObject *dict =
        dict_of(&report, report_members, sizeof report_members / sizeof *report_members);
    if (dict != NULL &&
        (add_value(dict, "fragmentation", PyFloat_FromDouble(report.fragmentation)) !=
             0 ||
         add_value(dict, "attempts", PyLong_FromUnsignedLong(report.attempts)) != 0 ||
         add_value(dict, "upstream_message", message_of(report.upstream_message)) != 0 ||
         add_value(dict, "text", text_of(&report)) != 0))
        Py_CLEAR(dict);
    return dict;
}

/* --- a snapshot --- */

/* Blocks that the callback copied; Python's objects are created after the walk, since
 * creating one may run a finalizer that calls the pool. */
struct blocks {
    tarn_pool_block *all;
    size_t count, capacity;
    bool no_memory;
};

static bool keep_block(void *data, const tarn_pool_block *block)
{
    struct blocks *blocks = data;

    if (blocks->count == blocks->capacity) {
        size_t capacity = blocks->capacity ? 2 * blocks->capacity : 256;
        tarn_pool_block *all = realloc(blocks->all, capacity * sizeof *all);
        if (!all) {
            blocks->no_memory = true;
            return false;
        }
        blocks->all = all;
        blocks->capacity = capacity;
    }
    blocks->all[blocks->count++] = *block;
    return true;
}

static PyObject *list_of(const struct blocks *blocks)
{
    PyObject *list = PyList_New((Py_ssize_t)blocks->count);

    for (size_t i = 0; list != NULL && i < blocks->count; i++) {
        const tarn_pool_block *block = &blocks->all[i];
        PyObject *item =
            Py_BuildValue("(KKKiKK)", block->address, (unsigned long long)block->bytes,
                          (unsigned long long)block->requested_bytes, (int)block->state,
                          (unsigned long long)block->stream_id, block->segment);
        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *snapshot(PyObject *module, PyObject *object)
{
    tarn__state *state = tarn__state_get(module);
    tarn_resource *pool = tarn__pool_of(state, object);
    struct blocks blocks = {0};
    PyObject *list = NULL;
    tarn_status status;

    if (pool == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn_pool_snapshot(pool, keep_block, &blocks);
    Py_END_ALLOW_THREADS;
    if (blocks.no_memory)
        PyErr_NoMemory();
    else if (status != TARN_OK)
        tarn__error_raise(state, status);
    else
        list = list_of(&blocks);
    free(blocks.all);
    return list;
}

static PyMethodDef pool_functions[] = {
    {"_open_pool", open_pool, METH_VARARGS,
     "_open_pool(mr, upstream, device, initial, maximum, growth=0, threshold=0, "
     "grow_first=False, fail_on_oom=False, resume_on_use=False, no_stream=0, "
     "no_stream_limit=0, tight=False, never_moves=False, background_thread=False, "
     "plan=None, learn=False, detect_steps=False, /)\n--\n\n"
     "Create the resource of a PoolMemoryResource; sizes are bytes."},
    {"_open_slab", open_slab, METH_VARARGS,
     "_open_slab(mr, upstream, device, block_bytes, initial_blocks, maximum_blocks, "
     "/)\n--\n\n"
     "Create the resource of a FixedSizeMemoryResource."},
    {"_open_binning", open_binning, METH_VARARGS,
     "_open_binning(mr, upstream, low, high, /)\n--\n\n"
     "Create the resource of a BinningMemoryResource; 0, 0: no bins."},
    {"_binning_add", binning_add, METH_VARARGS,
     "_binning_add(mr, bytes, bin, /)\n--\n\n"
     "Add a bin for requests of up to `bytes` bytes."},
    {"_trim", trim, METH_VARARGS,
     "_trim(mr, keep, /)\n--\n\n"
     "Release free memory over `keep` bytes; return the released bytes."},
    {"_pool_set_maximum", set_maximum, METH_VARARGS,
     "_pool_set_maximum(mr, bytes, /)\n--\n\n"
     "Set the maximum of a pool in bytes; 0: none."},
    {"_pool_suspend", suspend, METH_VARARGS,
     "_pool_suspend(mr, keep, /)\n--\n\n"
     "Suspend a pool, and keep the contents of live blocks if `keep` is true."},
    {"_pool_resume", resume, METH_O,
     "_pool_resume(mr, /)\n--\n\n"
     "Resume a suspended pool."},
    {"_pool_generation", generation, METH_O,
     "_pool_generation(mr, /)\n--\n\n"
     "Return how often the pool has removed physical memory from its addresses."},
    {"_pool_set_peer_access", set_peer, METH_VARARGS,
     "_pool_set_peer_access(mr, peer, access, /)\n--\n\n"
     "Allow or forbid another device to use the memory of a pool."},
    {"_pool_mark_step", mark_step, METH_O,
     "_pool_mark_step(mr, /)\n--\n\n"
     "Mark the begin of a step, for a pool that follows or learns plans."},
    {"_pool_reset_peaks", reset_peaks, METH_O,
     "_pool_reset_peaks(mr, /)\n--\n\n"
     "Restart the recent peaks of a pool."},
    {"_pool_statistics", statistics, METH_O,
     "_pool_statistics(mr, /)\n--\n\n"
     "Return the statistics of a pool, by the names of tarn_pool_statistics."},
    {"_pool_last_oom_report", last_oom_report, METH_NOARGS,
     "_pool_last_oom_report()\n--\n\n"
     "Return this thread's last out-of-memory report, or None."},
    {"_pool_snapshot", snapshot, METH_O,
     "_pool_snapshot(mr, /)\n--\n\n"
     "Return all blocks as (address, bytes, requested_bytes, state, stream_id, "
     "segment)."},
    {NULL, NULL, 0, NULL},
};

int tarn__pool_init(PyObject *module)
{
    return PyModule_AddFunctions(module, pool_functions);
}
