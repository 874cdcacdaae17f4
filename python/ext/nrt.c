/* nrt.c -- the runtime for compiled code in Python: counters, modes, allocation sites.
 *
 * These are the numbers of libtarn's default instance, whether Numba or a C library runs
 * on it. tarn/nrt makes readable objects of them.
 */
#include "error.h"
#include "module.h"
#include "nrt_allocator.h"
#include "resource.h"

#include <stdlib.h>
#include <string.h>

#define PAIR(name) {#name, offsetof(tarn_runtime_stats, name)}

/* The plain numbers; the histogram follows them. */
static const struct {
    const char *name;
    size_t offset;
} stats_fields[] = {
    PAIR(alloc),      PAIR(free),         PAIR(mi_alloc),         PAIR(mi_free),
    PAIR(failed),     PAIR(misuses),      PAIR(bytes_total),      PAIR(bytes_live),
    PAIR(bytes_peak), PAIR(bytes_chunks), PAIR(bytes_quarantine),
};

enum { STATS_FIELDS = sizeof stats_fields / sizeof *stats_fields };

static PyObject *histogram_tuple(const uint64_t *histogram)
{
    PyObject *tuple = PyTuple_New(TARN_NRT_HISTOGRAM);

    for (Py_ssize_t i = 0; tuple != NULL && i < TARN_NRT_HISTOGRAM; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(histogram[i]);
        if (number == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, number);
    }
    return tuple;
}

static PyObject *stats_tuple(const tarn_runtime_stats *stats)
{
    PyObject *tuple = PyTuple_New(STATS_FIELDS + 1);

    for (Py_ssize_t i = 0; tuple != NULL && i <= STATS_FIELDS; i++) {
        uint64_t number = 0;
        if (i < STATS_FIELDS)
            memcpy(&number, (const char *)stats + stats_fields[i].offset, sizeof number);
        PyObject *item = i < STATS_FIELDS ? PyLong_FromUnsignedLongLong(number)
                                          : histogram_tuple(stats->histogram);
        if (item == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

static PyObject *nrt_stats(PyObject *module, PyObject *Py_UNUSED(none))
{
    tarn_runtime_stats stats = {.size = sizeof stats};
    tarn_status status = tarn_runtime_stats_read(tarn_runtime_default(), &stats);

    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    return stats_tuple(&stats);
}

/* --- modes --- */

static PyObject *nrt_modes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLong(tarn_runtime_modes(tarn_runtime_default()));
}

static PyObject *nrt_set_modes(PyObject *module, PyObject *number)
{
    unsigned long modes = PyLong_AsUnsignedLong(number);

    if (PyErr_Occurred())
        return NULL;
    tarn_status status =
        modes > UINT_MAX
            ? tarn_error_set(TARN_INVALID_ARGUMENT, "nrt: modes 0x%lx have unknown bits",
                             modes)
            : tarn_runtime_set_modes(tarn_runtime_default(), (unsigned)modes);
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    Py_RETURN_NONE;
}

static PyObject *nrt_modes_parse(PyObject *module, PyObject *text)
{
    unsigned modes;
    const char *text_bytes = PyUnicode_AsUTF8(text);

    if (text_bytes == NULL)
        return NULL;
    tarn_status status = tarn_nrt_modes_parse(text_bytes, &modes);
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    return PyLong_FromUnsignedLong(modes);
}

static PyObject *nrt_trim(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    TARN__CALL;
    return PyLong_FromSize_t(tarn_runtime_trim(tarn_runtime_default()));
}

/* --- allocation sites --- */

static PyObject *site_tuple(const tarn_nrt_site *site)
{
    char text_bytes[512] = "";
    const char *where = site->label != NULL ? site->label : "";

    if (site->address != NULL)
        tarn_nrt_describe(site->address, text_bytes, sizeof text_bytes);
    /* A symbol may be cut in the middle of a character. */
    return Py_BuildValue(
        "(NNNLL)", PyLong_FromVoidPtr((void *)(uintptr_t)site->address),
        PyUnicode_DecodeUTF8(where, (Py_ssize_t)strlen(where), "replace"),
        PyUnicode_DecodeUTF8(text_bytes, (Py_ssize_t)strlen(text_bytes), "replace"),
        (long long)site->blocks, (long long)site->bytes);
}

static PyObject *sites_list(const tarn_nrt_snapshot *snapshot)
{
    PyObject *list = PyList_New(0);
    size_t count = tarn_nrt_snapshot_sites(snapshot);

    for (size_t i = 0; list != NULL && i < count; i++) {
        tarn_nrt_site site;
        if (tarn_nrt_snapshot_site(snapshot, i, &site) != TARN_OK)
            break;
        PyObject *tuple = site_tuple(&site);
        if (tuple == NULL || PyList_Append(list, tuple) != 0)
            Py_CLEAR(list);
        Py_XDECREF(tuple);
    }
    return list;
}

static PyObject *nrt_sites(PyObject *module, PyObject *Py_UNUSED(none))
{
    tarn_nrt_snapshot *snapshot;
    tarn_status status = tarn_nrt_snapshot_take(tarn_runtime_default(), &snapshot);

    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_get(module), status);
    PyObject *list = sites_list(snapshot);
    tarn_nrt_snapshot_release(snapshot);
    return list;
}

/* --- names of compiled functions, for the report at exit --- */

/* The report is printed after Python has ended, so the names are copied, once, at that
 * end. */
struct named {
    uintptr_t start;
    char *name;
};

static struct named *named; /* by address; stays until the process ends */
static Py_ssize_t named_count;

/* No function compiled by Numba is assumed to be longer. */
enum { LONGEST_FUNCTION = 1 << 20 };

static bool find_name(void *Py_UNUSED(data), const void *address, char *out, size_t bytes)
{
    uintptr_t place = (uintptr_t)address;
    const struct named *best = NULL;

    for (Py_ssize_t i = 0; i < named_count && named[i].start <= place; i++)
        best = &named[i];
    if (best == NULL || place - best->start >= LONGEST_FUNCTION)
        return false;
    snprintf(out, bytes, "%s", best->name);
    return true;
}

/* One (address, name). */
static bool copy_name(PyObject *pair, struct named *to)
{
    unsigned long long start;
    const char *name;

    if (!PyTuple_Check(pair)) {
        PyErr_Format(PyExc_TypeError, "%R is not a pair (address, name)", pair);
        return false;
    }
    if (!PyArg_ParseTuple(pair, "Ks", &start, &name))
        return false;
    to->start = (uintptr_t)start;
    to->name = strdup(name);
    if (to->name == NULL)
        PyErr_NoMemory();
    return to->name != NULL;
}

static PyObject *nrt_set_names(PyObject *Py_UNUSED(module), PyObject *list)
{
    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "expected a list of pairs (address, name)");
    if (named != NULL || PyList_GET_SIZE(list) == 0)
        Py_RETURN_NONE;
    named = calloc((size_t)PyList_GET_SIZE(list), sizeof *named);
    if (named == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++, named_count++)
        if (!copy_name(PyList_GET_ITEM(list, i), &named[i]))
            return NULL; /* those before it are good */
    tarn_nrt_set_symbolizer(find_name, NULL);
    Py_RETURN_NONE;
}

/* --- memory from a resource: nrt_allocator.c --- */

static PyObject *nrt_use_resource(PyObject *module, PyObject *object)
{
    TARN__CALL;
    tarn__state *state = tarn__state_get(module);
    tarn_resource *resource = tarn__resource_from(state, object, -1);
    NRT_ExternalAllocator *allocator;
    tarn_status status;

    if (resource == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tarn__nrt_allocator_over(resource, &allocator);
    if (status == TARN_OK)
        status = tarn_runtime_set_allocator(tarn_runtime_default(), allocator);
    Py_END_ALLOW_THREADS;
    if (status != TARN_OK)
        tarn__error_raise(state, status);
    tarn__resource_release(state, resource, object);
    if (status != TARN_OK)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *nrt_use_python(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    tarn_nrt_MemSys_set_allocator(PyMem_RawMalloc, PyMem_RawRealloc, PyMem_RawFree);
    Py_RETURN_NONE;
}

static PyMethodDef nrt_functions[] = {
    {"nrt_stats", nrt_stats, METH_NOARGS,
     "nrt_stats()\n--\n\n"
     "Return the counters of the default runtime: eleven numbers and the histogram."},
    {"nrt_modes", nrt_modes, METH_NOARGS,
     "nrt_modes()\n--\n\n"
     "Return the debug modes of the default runtime, a sum of bits."},
    {"nrt_set_modes", nrt_set_modes, METH_O,
     "nrt_set_modes(modes, /)\n--\n\n"
     "Set the debug modes; InvalidArgumentError for an unknown bit."},
    {"nrt_modes_parse", nrt_modes_parse, METH_O,
     "nrt_modes_parse(text, /)\n--\n\n"
     "Return the sum of the modes that are named; InvalidArgumentError for an unknown "
     "name."},
    {"nrt_trim", nrt_trim, METH_NOARGS,
     "nrt_trim()\n--\n\n"
     "Return unused memory to its allocator; return the number of bytes."},
    {"nrt_sites", nrt_sites, METH_NOARGS,
     "nrt_sites()\n--\n\n"
     "Return the sites of live memory, as (address, label, symbol, blocks, bytes)."},
    {"nrt_set_names", nrt_set_names, METH_O,
     "nrt_set_names(names, /)\n--\n\n"
     "Set the names of compiled functions, a list of (address, name) in order."},
    {"nrt_use_resource", nrt_use_resource, METH_O,
     "nrt_use_resource(resource, /)\n--\n\n"
     "Allocate the memory of compiled code from a resource of host memory."},
    {"nrt_use_python", nrt_use_python, METH_NOARGS,
     "nrt_use_python()\n--\n\n"
     "Allocate the memory of compiled code from CPython's raw allocator."},
    {NULL, NULL, 0, NULL},
};

int tarn__nrt_init(PyObject *module)
{
    return PyModule_AddFunctions(module, nrt_functions);
}
