/* opened.c -- the table of registered streams.
 *
 * Places come in chunks. The table allocates chunks as needed and never moves or frees
 * them, so that a lookup takes no lock: two loads and a comparison. A place that was used
 * 2^32 - 1 times is not used again, so no two registrations in the life of a process
 * share a value.
 *
 * A stream may be registered under several values. They share the state of the stream:
 * the number of its values, and on how many of them a capture is announced.
 *
 * There are two locks. A thread holds `watches_lock` while it calls the watches of an
 * unregistration, which make driver calls. `places_lock` guards the free places, the
 * registered streams and the announcements. A thread holds it while it records an event
 * of the whole context, so that no capture is announced meanwhile. Calls with a
 * registered stream take neither lock, except the announcement of a capture. A forked
 * child takes neither: it registers no stream, and unregisters without them.
 */
#include "driver/opened.h"
#include "base/map.h"
#include <stdlib.h>
#include <string.h>

enum { CHUNK_PLACES = 256, CHUNKS = 4096, DEVICES_MAX = 128 };

_Static_assert(sizeof(uintptr_t) == 8, "the number of an opening is the upper half");

struct watch {
    tarn__opened_watch call;
    void *data;
    struct watch *next;
};

static pthread_mutex_t watches_lock = PTHREAD_MUTEX_INITIALIZER; /* taken first */
static struct watch *watches;

static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct tarn__opened *) chunks[CHUNKS];
static uint32_t chunk_count;
static uint32_t first_free; /* index + 1; 0: none */

/* A registered stream. Under the lock of places, as the three below. */
struct tarn__open_stream {
    CUstream_ handle;
    int device;
    uint64_t life;
    size_t announced; /* values on which a capture is announced */
    uint64_t changes; /* how often `announced` changed */
    /* Its values. Those that have not seen the last change come first. */
    struct tarn__opened *first, *last;
    struct tarn__open_stream *next; /* of the same handle */
};

static struct tarn__map streams; /* of handle + 1: the first struct tarn__open_stream */
/* values that know that their stream captures, by device */
static size_t capturing[DEVICES_MAX];

/* --- values and places --- */

static tarn_stream value_of(uint32_t index, uint32_t opening)
{
    return (tarn_stream)((uintptr_t)opening << 32 | (uintptr_t)index << 1 | 1);
}

static uint32_t index_of(tarn_stream stream)
{
    return (uint32_t)(uintptr_t)stream >> 1;
}

static uint32_t opening_of(tarn_stream stream)
{
    return (uint32_t)((uintptr_t)stream >> 32);
}

/* Return the place of an index, or NULL where there is none. */
static struct tarn__opened *place_at(uint32_t index)
{
    if (index / CHUNK_PLACES >= CHUNKS)
        return NULL;
    struct tarn__opened *chunk =
        atomic_load_explicit(&chunks[index / CHUNK_PLACES], memory_order_acquire);
    return chunk ? &chunk[index % CHUNK_PLACES] : NULL;
}

struct tarn__opened *tarn__opened_find(tarn_stream stream)
{
    uint32_t opening = opening_of(stream);

    if (!tarn__stream_is_opened(stream) || opening == 0)
        return NULL;
    struct tarn__opened *opened = place_at(index_of(stream));
    if (!opened ||
        atomic_load_explicit(&opened->opening, memory_order_acquire) != opening)
        return NULL;
    return opened;
}

/* --- streams --- */

/* Return the fields that tell the stream of a place from others. */
static struct tarn__opened stream_of(const struct tarn__opened *place)
{
    return (struct tarn__opened){
        .device = place->device, .handle = place->handle, .life = place->life};
}

static uint64_t key_of(CUstream_ handle)
{
    return (uint64_t)(uintptr_t)handle + 1;
}

static struct tarn__open_stream *first_of(CUstream_ handle)
{
    struct tarn__open_stream **first = tarn__map_get(&streams, key_of(handle));

    return first ? *first : NULL;
}

static struct tarn__open_stream *find_stream(const struct tarn__opened *like)
{
    struct tarn__open_stream *stream = first_of(like->handle);

    while (stream && (stream->device != like->device || stream->life != like->life))
        stream = stream->next;
    return stream;
}

/* Add a stream without values; NULL: no host memory. */
static struct tarn__open_stream *add_stream(const struct tarn__opened *like)
{
    struct tarn__open_stream *stream = malloc(sizeof *stream);
    struct tarn__open_stream *next = first_of(like->handle);

    if (!stream)
        return NULL;
    *stream = (struct tarn__open_stream){
        .handle = like->handle, .device = like->device, .life = like->life, .next = next};
    if (next)
        *(struct tarn__open_stream **)tarn__map_get(&streams, key_of(like->handle)) =
            stream;
    else if (!tarn__map_put(&streams, key_of(like->handle), &stream)) {
        free(stream);
        return NULL;
    }
    return stream;
}

/* Remove a stream whose last value was unregistered. */
static void remove_stream(struct tarn__open_stream *stream)
{
    struct tarn__open_stream **link = tarn__map_get(&streams, key_of(stream->handle));

    if (*link == stream && !stream->next)
        tarn__map_take(&streams, key_of(stream->handle), NULL);
    else {
        while (*link != stream)
            link = &(*link)->next;
        *link = stream->next;
    }
    free(stream);
}

static void append(struct tarn__open_stream *stream, struct tarn__opened *place)
{
    place->stream = stream;
    place->next = NULL;
    place->previous = stream->last;
    *(stream->last ? &stream->last->next : &stream->first) = place;
    stream->last = place;
}

static void take_out(struct tarn__opened *place)
{
    struct tarn__open_stream *stream = place->stream;

    *(place->previous ? &place->previous->next : &stream->first) = place->next;
    *(place->next ? &place->next->previous : &stream->last) = place->previous;
    place->stream = NULL;
}

/* Note that the value has seen all changes so far. */
static void set_captures(struct tarn__opened *place, bool captures)
{
    size_t before = atomic_load_explicit(&place->captures, memory_order_relaxed);

    capturing[place->device] += (size_t)captures - before;
    atomic_store_explicit(&place->captures, captures, memory_order_release);
    place->changes = place->stream->changes;
}

bool tarn__opened_has(int device, CUstream_ handle)
{
    pthread_mutex_lock(&places_lock);
    const struct tarn__open_stream *stream = first_of(handle);
    while (stream && stream->device != device)
        stream = stream->next;
    pthread_mutex_unlock(&places_lock);
    return stream != NULL;
}

bool tarn__opened_hold_captures(int device)
{
    pthread_mutex_lock(&places_lock);
    if (capturing[device] == 0)
        return true;
    pthread_mutex_unlock(&places_lock);
    return false;
}

void tarn__opened_let_captures_go(void)
{
    pthread_mutex_unlock(&places_lock);
}

/* --- announced captures --- */

/* Note that a capture is announced on a value, or no longer is. */
static void note_announced(struct tarn__opened *place, bool announced)
{
    if (place->announced == announced)
        return;
    place->stream->announced += (size_t)announced - (size_t)place->announced;
    place->stream->changes++;
    place->announced = announced;
}

/* Return a value of the stream that has not seen the last change; NULL: all have. */
static struct tarn__opened *find_unaware(const struct tarn__opened *like)
{
    pthread_mutex_lock(&places_lock);
    const struct tarn__open_stream *stream = find_stream(like);
    struct tarn__opened *found = stream ? stream->first : NULL;
    if (found && found->changes == stream->changes)
        found = NULL;
    pthread_mutex_unlock(&places_lock);
    return found;
}

/* Make all values of a stream see the change. A thread that queried before this whether
 * the stream captures has recorded its event once this thread has the value's lock. */
static void tell_all(const struct tarn__opened *like)
{
    struct tarn__opened *place;

    while ((place = find_unaware(like)) != NULL) {
        pthread_mutex_lock(&place->lock);
        pthread_mutex_lock(&places_lock);
        struct tarn__open_stream *stream = find_stream(like);
        if (stream && place->stream == stream) {
            set_captures(place, stream->announced > 0);
            take_out(place);
            append(stream, place);
        }
        pthread_mutex_unlock(&places_lock);
        pthread_mutex_unlock(&place->lock);
    }
}

/* --- free places --- */

/* Make the place of an unregistered value available to the next registration. Under the
 * lock. */
static void free_place(uint32_t index)
{
    struct tarn__opened *place = place_at(index);

    if (place->last_opening == UINT32_MAX)
        return; /* all its numbers are used */
    place->next_free = first_free;
    first_free = index + 1;
}

/* Under the lock. */
static bool add_chunk(void)
{
    struct tarn__opened *chunk =
        chunk_count == CHUNKS
            ? NULL
            : aligned_alloc(_Alignof(struct tarn__opened), CHUNK_PLACES * sizeof *chunk);

    if (!chunk)
        return false;
    if (chunk_count == 0)
        tarn__map_init(&streams, sizeof(struct tarn__open_stream *));
    memset(chunk, 0, CHUNK_PLACES * sizeof *chunk);
    for (int i = 0; i < CHUNK_PLACES; i++)
        pthread_mutex_init(&chunk[i].lock, NULL);
    atomic_store_explicit(&chunks[chunk_count], chunk, memory_order_release);
    uint32_t first = chunk_count++ * CHUNK_PLACES;
    for (uint32_t i = CHUNK_PLACES; i > 0; i--)
        free_place(first + i - 1);
    return true;
}

/* Put the new registration into the first free place. Under the lock. */
static tarn_stream fill_place(const struct tarn__opened *made,
                              struct tarn__open_stream *stream)
{
    uint32_t index = first_free - 1;
    struct tarn__opened *place = place_at(index);

    first_free = place->next_free;
    place->device = made->device;
    place->handle = made->handle;
    place->id = made->id;
    place->life = made->life;
    place->announced = false;
    append(stream, place);
    set_captures(place, stream->announced > 0);
    place->last_opening++;
    atomic_store_explicit(&place->opening, place->last_opening, memory_order_release);
    return value_of(index, place->last_opening);
}

/* Find a place for `made`; its value is `*out`. */
static tarn_status enter(const struct tarn__opened *made, tarn_stream *out)
{
    struct tarn__open_stream *stream = NULL;

    pthread_mutex_lock(&places_lock);
    bool has_place = first_free != 0 || add_chunk();
    if (has_place && !(stream = find_stream(made)))
        stream = add_stream(made);
    if (stream)
        *out = fill_place(made, stream);
    uint32_t places = chunk_count * CHUNK_PLACES;
    pthread_mutex_unlock(&places_lock);
    if (stream)
        return TARN_OK;
    if (has_place)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "stream: no host memory to register stream %p",
                              (void *)made->handle);
    return tarn_error_set(
        TARN_OUT_OF_MEMORY,
        "stream: the table of registered streams is full, it has %u entries", places);
}

/* --- registering --- */

/* In a scope: query the id of a stream that does not capture; the query would end its
 * capture. */
static tarn_status ask_id(const struct tarn__scope *scope, CUstream_ handle,
                          unsigned long long *out)
{
    CUstreamCaptureStatus_ capture = CU_STREAM_CAPTURE_STATUS_NONE_;
    CUresult_ result = scope->calls->stream_is_capturing(handle, &capture);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("stream", "cuStreamIsCapturing", result, "stream %p",
                                   (void *)handle);
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE_)
        return tarn_error_set(
            TARN_STREAM_CAPTURING,
            "stream: %p is capturing; register it before or after the capture",
            (void *)handle);
    result = scope->calls->stream_get_id(handle, out);
    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("stream", "cuStreamGetId", result, "stream %p",
                                   (void *)handle);
    return TARN_OK;
}

static bool can_be_opened(tarn_stream raw)
{
    return !tarn__stream_is_opened(raw) && raw != TARN_STREAM_PER_THREAD &&
           raw != TARN_STREAM_NONE;
}

tarn_status tarn_stream_register(int device, tarn_stream raw, tarn_stream *out)
{
    struct tarn__opened made = {.device = device, .handle = (CUstream_)raw};
    struct tarn__scope scope;

    if (!out || !can_be_opened(raw))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "stream: %p cannot be registered%s; a CUstream of the "
                              "caller and the default stream (0, 1) can",
                              (void *)raw, out ? "" : ", out is NULL");
    tarn_status status = tarn__scope_enter(device, &scope);
    if (status != TARN_OK)
        return status;
    made.life = scope.life;
    made.id = TARN__LEGACY_ID;
    status = tarn__stream_check("stream", &scope, raw, device);
    if (status == TARN_OK && (uintptr_t)raw > (uintptr_t)TARN_STREAM_PER_THREAD)
        status = ask_id(&scope, made.handle, &made.id);
    tarn__scope_leave(&scope);
    return status == TARN_OK ? enter(&made, out) : status;
}

/* --- unregistering --- */

static tarn_status not_open(const char *verb, tarn_stream stream)
{
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "stream: cannot %s %p: it is not a registered stream", verb,
                          (void *)stream);
}

/* Return true if its handle may be passed to the driver. */
static bool handle_is_good(const struct tarn__opened *opened)
{
    return !tarn__driver_gone() && tarn__context_lives(opened->device, opened->life);
}

/* After driver shutdown no watch is called, and the place is not used again. */
static tarn_status close_for_good(tarn_stream stream)
{
    struct tarn__opened *opened = tarn__opened_find(stream);
    uint32_t opening = opening_of(stream);

    if (!opened || !atomic_compare_exchange_strong(&opened->opening, &opening, 0))
        return not_open("unregister", stream);
    return TARN_OK;
}

/* Free the place of a value that was unregistered. Under the lock of places. */
static void leave_place(struct tarn__opened *place, uint32_t index)
{
    struct tarn__open_stream *stream = place->stream;

    note_announced(place, false);
    set_captures(place, false);
    take_out(place);
    if (!stream->first)
        remove_stream(stream);
    free_place(index);
}

tarn_status tarn_stream_unregister(tarn_stream stream)
{
    struct tarn__opened *opened;

    if (tarn__driver_gone())
        return close_for_good(stream);
    pthread_mutex_lock(&watches_lock);
    /* under the lock: of two unregistrations one fails */
    opened = tarn__opened_find(stream);
    if (!opened) {
        pthread_mutex_unlock(&watches_lock);
        return not_open("unregister", stream);
    }
    pthread_mutex_lock(&opened->lock);
    if (handle_is_good(opened))
        for (struct watch *watch = watches; watch; watch = watch->next)
            watch->call(watch->data, stream, opened);
    atomic_store_explicit(&opened->opening, 0, memory_order_release);
    pthread_mutex_unlock(&opened->lock);
    pthread_mutex_lock(&places_lock);
    bool announced = opened->announced;
    const struct tarn__opened like = stream_of(opened);
    leave_place(opened, index_of(stream));
    pthread_mutex_unlock(&places_lock);
    pthread_mutex_unlock(&watches_lock);
    if (announced) /* no other thread may have announced it */
        tell_all(&like);
    return TARN_OK;
}

/* Return true if the owner's stream captures. A stream whose capture was invalidated does
 * not any more. */
static bool is_capturing(const struct tarn__opened *opened)
{
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_NONE_;
    struct tarn__scope scope;

    if (opened->id == TARN__LEGACY_ID || !handle_is_good(opened) ||
        tarn__scope_enter(opened->device, &scope) != TARN_OK)
        return false;
    bool is =
        scope.calls->stream_is_capturing(opened->handle, &status) == CUDA_SUCCESS_ &&
        status == CU_STREAM_CAPTURE_STATUS_ACTIVE_;
    tarn__scope_leave(&scope);
    return is;
}

tarn_status tarn_stream_announce_capture(tarn_stream stream, bool begins)
{
    struct tarn__opened *opened = tarn__opened_find(stream);

    if (!opened)
        return not_open("announce a capture on", stream);
    if (!begins && is_capturing(opened))
        return tarn_error_set(
            TARN_STREAM_CAPTURING,
            "stream: %p is still capturing, the end of its capture cannot be announced",
            (void *)opened->handle);
    if (tarn__driver_gone())
        return TARN_OK; /* no call uses the answer any more */
    pthread_mutex_lock(&places_lock);
    bool is_open = tarn__opened_find(stream) == opened;
    const struct tarn__opened like = stream_of(opened);
    if (is_open)
        note_announced(opened, begins);
    pthread_mutex_unlock(&places_lock);
    if (!is_open) /* it was unregistered just now */
        return not_open("announce a capture on", stream);
    tell_all(&like);
    return TARN_OK;
}

tarn_status tarn__opened_add_watch(tarn__opened_watch call, void *data)
{
    struct watch *watch = malloc(sizeof *watch);

    if (!watch)
        return tarn_error_set(
            TARN_OUT_OF_MEMORY,
            "stream: no host memory for a callback on unregistered streams");
    pthread_mutex_lock(&watches_lock);
    *watch = (struct watch){.call = call, .data = data, .next = watches};
    watches = watch;
    pthread_mutex_unlock(&watches_lock);
    return TARN_OK;
}

void tarn__opened_remove_watch(tarn__opened_watch call, void *data)
{
    struct watch **link = &watches;

    pthread_mutex_lock(&watches_lock);
    while (*link && ((*link)->call != call || (*link)->data != data))
        link = &(*link)->next;
    struct watch *found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&watches_lock);
    free(found);
}
