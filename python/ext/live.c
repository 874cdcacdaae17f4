/* live.c -- the live blocks that the log of this process knows.
 *
 * A hash table by address, with linear probing. The log finds here whether it has a row
 * for the allocation of a block, so that frees of other blocks get none. The plugin for
 * pytest reads the bytes, their peak, and the blocks since a mark.
 *
 * A mark may have a limit. The allocation that first exceeds it takes a copy of the
 * blocks since the mark: those of the peak would have to be copied at each new peak.
 *
 * The lock is taken last, and nothing is called while it is held.
 */
#include "live.h"
#include "module.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES_FIRST = 1024 };

/* A copy of some blocks. */
struct blocks {
    struct tarn__live_block *list;
    size_t count;
};

static struct {
    pthread_mutex_t lock;
    struct tarn__live_block *places; /* `capacity` of them, a power of two */
    size_t capacity, count;
    uint64_t numbers; /* number of the last allocation */
    uint64_t lost;    /* blocks for which there was no host memory */
    uint64_t bytes, peak_bytes;
    uint64_t mark, limit_bytes; /* of live_mark(); no limit: UINT64_MAX */
    struct blocks over;         /* those since the mark when the limit was exceeded */
} live = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit_bytes = UINT64_MAX};

/* --- the table; lock held ----------------------------------------------------------- */

static size_t home_of(uint64_t address)
{
    return (size_t)((address >> 8) * 0x9e3779b97f4a7c15u >> 20) & (live.capacity - 1);
}

/* The place of an address, or the unused one where it belongs. */
static struct tarn__live_block *place_of(uint64_t address)
{
    size_t i = home_of(address);

    while (live.places[i].address != 0 && live.places[i].address != address)
        i = (i + 1) & (live.capacity - 1);
    return &live.places[i];
}

static bool grow(void)
{
    struct tarn__live_block *before = live.places;
    size_t places = live.capacity;
    size_t capacity = places ? 2 * places : PLACES_FIRST;
    struct tarn__live_block *larger = calloc(capacity, sizeof *larger);

    if (!larger)
        return false;
    live.places = larger;
    live.capacity = capacity;
    for (size_t i = 0; i < places; i++)
        if (before[i].address != 0)
            *place_of(before[i].address) = before[i];
    free(before);
    return true;
}

/* Empty a place, and move those behind it that would not be found any more. */
static void vacate(struct tarn__live_block *place)
{
    size_t hole = (size_t)(place - live.places), mask = live.capacity - 1;

    for (size_t i = (hole + 1) & mask; live.places[i].address != 0; i = (i + 1) & mask) {
        size_t home = home_of(live.places[i].address);
        if (((i - home) & mask) < ((i - hole) & mask))
            continue; /* its home is behind the hole */
        live.places[hole] = live.places[i];
        hole = i;
    }
    live.places[hole].address = 0;
}

/* Copy the blocks with at least that number. An empty copy where there is no memory. */
static struct blocks copy_since(uint64_t number)
{
    struct blocks blocks = {malloc((live.count + 1) * sizeof *blocks.list), 0};

    for (size_t i = 0; blocks.list && i < live.capacity; i++)
        if (live.places[i].address != 0 && live.places[i].number >= number)
            blocks.list[blocks.count++] = live.places[i];
    return blocks;
}

static void drop_over(void)
{
    free(live.over.list);
    live.over = (struct blocks){NULL, 0};
}

static void count_bytes(uint64_t bytes)
{
    live.bytes += bytes;
    if (live.bytes > live.peak_bytes)
        live.peak_bytes = live.bytes;
    if (live.bytes > live.limit_bytes && !live.over.list)
        live.over = copy_since(live.mark);
}

static void remove_at(struct tarn__live_block *place)
{
    live.bytes -= place->bytes;
    live.count--;
    vacate(place);
}

/* --- for the log -------------------------------------------------------------------- */

void tarn__live_add(const struct tarn__live_block *block)
{
    pthread_mutex_lock(&live.lock);
    if (4 * (live.count + 1) > 3 * live.capacity && !grow()) {
        live.lost++;
    } else {
        struct tarn__live_block *place = place_of(block->address);
        if (place->address != 0) { /* its free was not seen */
            remove_at(place);
            place = place_of(block->address);
        }
        *place = *block;
        place->number = ++live.numbers;
        live.count++;
        count_bytes(block->bytes);
    }
    pthread_mutex_unlock(&live.lock);
}

void tarn__live_remove(uint64_t address)
{
    pthread_mutex_lock(&live.lock);
    if (live.capacity > 0) {
        struct tarn__live_block *place = place_of(address);
        if (place->address != 0)
            remove_at(place);
    }
    pthread_mutex_unlock(&live.lock);
}

bool tarn__live_find(uint64_t address, struct tarn__live_block *out)
{
    bool found = false;

    pthread_mutex_lock(&live.lock);
    if (live.capacity > 0) {
        const struct tarn__live_block *place = place_of(address);
        found = place->address != 0;
        if (found)
            *out = *place;
    }
    pthread_mutex_unlock(&live.lock);
    return found;
}

/* --- for Python --------------------------------------------------------------------- */

PyDoc_STRVAR(live_mark_doc,
             "_live_mark(limit=-1, /)\n--\n\n"
             "Begin to measure, and return the live bytes.\n\n"
             "limit: bytes above the live ones at which a copy of the blocks is taken\n"
             "(_live_over()); -1: none.");

static PyObject *live_mark(PyObject *module, PyObject *arguments)
{
    long long limit = -1;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "|L:_live_mark", &limit))
        return NULL;
    pthread_mutex_lock(&live.lock);
    live.mark = live.numbers + 1;
    live.peak_bytes = live.bytes;
    live.limit_bytes = limit < 0 ? UINT64_MAX : live.bytes + (uint64_t)limit;
    drop_over();
    uint64_t bytes = live.bytes;
    pthread_mutex_unlock(&live.lock);
    return PyLong_FromUnsignedLongLong(bytes);
}

PyDoc_STRVAR(live_counts_doc,
             "_live_counts()\n--\n\n"
             "Return (bytes, peak, lost).\n\n"
             "bytes: live bytes. peak: the most since the mark. lost: blocks for which\n"
             "there was no host memory.");

static PyObject *live_counts(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pthread_mutex_lock(&live.lock);
    unsigned long long bytes = live.bytes, peak = live.peak_bytes, lost = live.lost;
    pthread_mutex_unlock(&live.lock);
    return Py_BuildValue("(KKK)", bytes, peak, lost);
}

/* A block as a tuple. */
static PyObject *tuple_of(const struct tarn__live_block *block)
{
    const char *file = block->site.file ? block->site.file : "";

    return Py_BuildValue(
        "(KKiNiI)", (unsigned long long)block->address, (unsigned long long)block->bytes,
        block->device,
        PyUnicode_DecodeUTF8(file, (Py_ssize_t)strlen(file), "backslashreplace"),
        block->site.line, (unsigned)block->stack);
}

/* The blocks as a list; `blocks` is released. */
static PyObject *list_of(struct blocks blocks)
{
    PyObject *list = PyList_New((Py_ssize_t)blocks.count);

    for (size_t i = 0; list && i < blocks.count; i++) {
        PyObject *tuple = tuple_of(&blocks.list[i]);
        if (tuple)
            PyList_SET_ITEM(list, (Py_ssize_t)i, tuple);
        else
            Py_CLEAR(list);
    }
    free(blocks.list);
    return list;
}

PyDoc_STRVAR(live_blocks_doc,
             "_live_blocks()\n--\n\n"
             "Return the live blocks that were allocated since the mark.\n\n"
             "A block is a tuple (address, bytes, device, file, line, stack).");

static PyObject *live_blocks(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pthread_mutex_lock(&live.lock);
    struct blocks blocks = copy_since(live.mark);
    pthread_mutex_unlock(&live.lock);
    return blocks.list ? list_of(blocks) : PyErr_NoMemory();
}

PyDoc_STRVAR(live_over_doc, "_live_over()\n--\n\n"
                            "Return the blocks that were live when the limit of the mark "
                            "was first exceeded.");

static PyObject *live_over(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pthread_mutex_lock(&live.lock);
    struct blocks blocks = live.over;
    live.over = (struct blocks){NULL, 0};
    live.limit_bytes = UINT64_MAX;
    pthread_mutex_unlock(&live.lock);
    return list_of(blocks);
}

static PyMethodDef live_functions[] = {
    {"_live_mark", live_mark, METH_VARARGS, live_mark_doc},
    {"_live_counts", live_counts, METH_NOARGS, live_counts_doc},
    {"_live_blocks", live_blocks, METH_NOARGS, live_blocks_doc},
    {"_live_over", live_over, METH_NOARGS, live_over_doc},
    {NULL, NULL, 0, NULL},
};

/* --- forks -------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&live.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&live.lock);
}

/* The blocks are the parent's: the child cannot free them. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&live.lock, NULL);
    if (live.capacity > 0)
        memset(live.places, 0, live.capacity * sizeof *live.places);
    live.count = 0;
    live.bytes = live.peak_bytes = 0;
}

int tarn__live_init(PyObject *module)
{
    static bool begun; /* the hooks are the process's, not the module's */

    if (!begun) {
        begun = true;
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
    return PyModule_AddFunctions(module, live_functions);
}
