/* registration.c -- the table of registered streams.
 *
 * Places come in chunks. The table allocates chunks as needed and never moves or frees
 * them, so that a lookup takes no lock: two loads and a comparison. A place that was used
 * 2^32 - 1 times is not used again, so no two registrations in the life of a process
 * share a value.
 *
 * A stream may be registered under several values. They share the state of the stream:
 * the number of its values, and on how many of them a capture is announced.
 *
 * There are two locks. A thread holds `callbacks_lock` while it calls the watches of an
 * unregistration, which make driver calls. `places_lock` guards the free places, the
 * registered streams and the announcements. A thread holds it while it records an event
 * of the whole context, so that no capture is announced meanwhile. Calls with a
 * registered stream take neither lock, except the announcement of a capture. A forked
 * child takes neither: it registers no stream, and unregisters without them.
 */
#include "driver/registration.h"
#include "base/mutex_assert.h"
#include "base/map.h"
#include <stdlib.h>
#include <string.h>

enum { CHUNK_PLACES = 256, CHUNKS = 4096 };

_Static_assert(sizeof(uintptr_t) == 8, "the number of an opening is the upper half");

struct callback {
    tarn__unregister_callback call;
    void *data;
    struct callback *next;
};

static pthread_mutex_t callbacks_lock = PTHREAD_MUTEX_INITIALIZER; /* taken first */
static struct callback *callbacks;

static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct tarn__registration *) chunks[CHUNKS];
static uint32_t chunk_count;
static uint32_t first_free; /* index + 1; 0: none */

/* A registered stream. Under the lock of places, as the three below. */
struct tarn__registered_stream {
    CUstream_ handle;
    int device;
    uint64_t context_generation;
    size_t announced; /* values on which a capture is announced */
    uint64_t changes; /* how often `announced` changed */
    /* Its values. Those that have not seen the last change come first. */
    struct tarn__registration *first, *last;
    struct tarn__registered_stream *next; /* of the same handle */
};

static struct tarn__map
    streams; /* of handle + 1: the first struct tarn__registered_stream */
/* values that know that their stream captures, by device */
static size_t capturing[TARN__DEVICES_MAX];

/* --- values and places --- */

static tarn_stream value_of(uint32_t index, uint32_t registration_number)
{
    return (tarn_stream)((uintptr_t)registration_number << 32 | (uintptr_t)index << 1 |
                         1);
}

static uint32_t index_of(tarn_stream stream)
{
    return (uint32_t)(uintptr_t)stream >> 1;
}

static uint32_t registration_number_of(tarn_stream stream)
{
    return (uint32_t)((uintptr_t)stream >> 32);
}

/* Return the place of an index, or NULL where there is none. */
static struct tarn__registration *place_at(uint32_t index)
{
    if (index / CHUNK_PLACES >= CHUNKS)
        return NULL;
    struct tarn__registration *chunk =
        atomic_load_explicit(&chunks[index / CHUNK_PLACES], memory_order_acquire);
    return chunk ? &chunk[index % CHUNK_PLACES] : NULL;
}

struct tarn__registration *tarn__registration_find(tarn_stream stream)
{
    uint32_t registration_number = registration_number_of(stream);

    if (!tarn__registration_is_value(stream) || registration_number == 0)
        return NULL;
    struct tarn__registration *registration = place_at(index_of(stream));
    if (!registration ||
        atomic_load_explicit(&registration->registration_number, memory_order_acquire) !=
            registration_number)
        return NULL;
    return registration;
}

/* --- streams --- */

/* Return the fields that tell the stream of a place from others. */
static struct tarn__registration stream_of(const struct tarn__registration *place)
{
    return (struct tarn__registration){.device = place->device,
                                       .handle = place->handle,
                                       .context_generation = place->context_generation};
}

static uint64_t key_of(CUstream_ handle)
{
    return (uint64_t)(uintptr_t)handle + 1;
}

static struct tarn__registered_stream *first_of(CUstream_ handle)
{
    struct tarn__registered_stream **first = tarn__map_get(&streams, key_of(handle));

    return first ? *first : NULL;
}

static struct tarn__registered_stream *find_stream(const struct tarn__registration *like)
{
    struct tarn__registered_stream *stream = first_of(like->handle);

    while (stream && (stream->device != like->device ||
                      stream->context_generation != like->context_generation))
        stream = stream->next;
    return stream;
}

/* Add a stream without values; NULL: no host memory. */
static struct tarn__registered_stream *add_stream(const struct tarn__registration *like)
{
    struct tarn__registered_stream *stream = malloc(sizeof *stream);
    struct tarn__registered_stream *next = first_of(like->handle);

    if (!stream)
        return NULL;
    *stream =
        (struct tarn__registered_stream){.handle = like->handle,
                                         .device = like->device,
                                         .context_generation = like->context_generation,
                                         .next = next};
    if (next)
        *(struct tarn__registered_stream **)tarn__map_get(&streams,
                                                          key_of(like->handle)) = stream;
    else if (!tarn__map_put(&streams, key_of(like->handle), &stream)) {
        free(stream);
        return NULL;
    }
    return stream;
}

/* Remove a stream whose last value was unregistered. */
static void remove_stream(struct tarn__registered_stream *stream)
{
    struct tarn__registered_stream **link =
        tarn__map_get(&streams, key_of(stream->handle));

    if (*link == stream && !stream->next)
        tarn__map_take(&streams, key_of(stream->handle), NULL);
    else {
        while (*link != stream)
            link = &(*link)->next;
        *link = stream->next;
    }
    free(stream);
}

static void append(struct tarn__registered_stream *stream,
                   struct tarn__registration *place)
{
    place->stream = stream;
    place->next = NULL;
    place->previous = stream->last;
    *(stream->last ? &stream->last->next : &stream->first) = place;
    stream->last = place;
}

static void unlink_registration(struct tarn__registration *place)
{
    struct tarn__registered_stream *stream = place->stream;

    *(place->previous ? &place->previous->next : &stream->first) = place->next;
    *(place->next ? &place->next->previous : &stream->last) = place->previous;
    place->stream = NULL;
}

/* Note that the value has seen all changes so far. */
static void set_captures(struct tarn__registration *place, bool captures)
{
    size_t before = atomic_load_explicit(&place->captures, memory_order_relaxed);

    capturing[place->device] += (size_t)captures - before;
    atomic_store_explicit(&place->captures, captures, memory_order_release);
    place->changes = place->stream->changes;
}

bool tarn__registration_exists(int device, CUstream_ handle)
{
    pthread_mutex_lock(&places_lock);
    const struct tarn__registered_stream *stream = first_of(handle);
    while (stream && stream->device != device)
        stream = stream->next;
    pthread_mutex_unlock(&places_lock);
    return stream != NULL;
}

bool tarn__registration_block_announcements(int device)
{
    pthread_mutex_lock(&places_lock);
    if (capturing[device] == 0)
        return true;
    pthread_mutex_unlock(&places_lock);
    return false;
}

void tarn__registration_unblock_announcements(void)
{
    pthread_mutex_unlock(&places_lock);
}

/* --- announced captures --- */

/* Note that a capture is announced on a value, or no longer is. */
static void note_announced(struct tarn__registration *place, bool announced)
{
    if (place->announced == announced)
        return;
    place->stream->announced += (size_t)announced - (size_t)place->announced;
    place->stream->changes++;
    place->announced = announced;
}

/* Return a value of the stream that has not seen the last change; NULL: all have. */
static struct tarn__registration *find_unaware(const struct tarn__registration *like)
{
    pthread_mutex_lock(&places_lock);
    const struct tarn__registered_stream *stream = find_stream(like);
    struct tarn__registration *found = stream ? stream->first : NULL;
    if (found && found->changes == stream->changes)
        found = NULL;
    pthread_mutex_unlock(&places_lock);
    return found;
}

/* Make all values of a stream see the change. A thread that queried before this whether
 * the stream captures has recorded its event once this thread has the value's lock. */
static void update_registrations(const struct tarn__registration *like)
{
    struct tarn__registration *place;

    while ((place = find_unaware(like)) != NULL) {
        pthread_mutex_lock(&place->lock);
        pthread_mutex_lock(&places_lock);
        struct tarn__registered_stream *stream = find_stream(like);
        if (stream && place->stream == stream) {
            set_captures(place, stream->announced > 0);
            unlink_registration(place);
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
    struct tarn__registration *place = place_at(index);

    if (place->registration_count == UINT32_MAX)
        return; /* all its numbers are used */
    place->next_free = first_free;
    first_free = index + 1;
}

/* Add a chunk of free places. `places_lock` held. */
static bool add_chunk(void)
{
    tarn__assert_mutex_held(&places_lock);

    struct tarn__registration *chunk =
        chunk_count == CHUNKS ? NULL
                              : aligned_alloc(_Alignof(struct tarn__registration),
                                              CHUNK_PLACES * sizeof *chunk);

    if (!chunk)
        return false;
    if (chunk_count == 0)
        tarn__map_init(&streams, sizeof(struct tarn__registered_stream *));
    memset(chunk, 0, CHUNK_PLACES * sizeof *chunk);
    for (int i = 0; i < CHUNK_PLACES; i++)
        pthread_mutex_init(&chunk[i].lock, NULL);
    atomic_store_explicit(&chunks[chunk_count], chunk, memory_order_release);
    uint32_t first = chunk_count++ * CHUNK_PLACES;
    for (uint32_t i = CHUNK_PLACES; i > 0; i--)
        free_place(first + i - 1);
    return true;
}

/* Put the new registration into the first free place. `places_lock` held. */
static tarn_stream fill_place(const struct tarn__registration *made,
                              struct tarn__registered_stream *stream)
{
    tarn__assert_mutex_held(&places_lock);

    uint32_t index = first_free - 1;
    struct tarn__registration *place = place_at(index);

    first_free = place->next_free;
    place->device = made->device;
    place->handle = made->handle;
    place->id = made->id;
    place->context_generation = made->context_generation;
    place->announced = false;
    append(stream, place);
    set_captures(place, stream->announced > 0);
    place->registration_count++;
    atomic_store_explicit(&place->registration_number, place->registration_count,
                          memory_order_release);
    return value_of(index, place->registration_count);
}

tarn_status tarn__registration_add(const struct tarn__registration *made,
                                   tarn_stream *out)
{
    struct tarn__registered_stream *stream = NULL;

    pthread_mutex_lock(&places_lock);
    bool has_place = first_free != 0 || add_chunk();
    if (has_place && !(stream = find_stream(made)))
        stream = add_stream(made);
    if (stream)
        *out = fill_place(made, stream);
    bool is_full = !has_place && chunk_count == CHUNKS;
    pthread_mutex_unlock(&places_lock);
    if (stream)
        return TARN_OK;
    if (!is_full)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "stream: no host memory to register stream %p",
                              (void *)made->handle);
    return tarn_error_set(
        TARN_OUT_OF_MEMORY,
        "stream: the table of registered streams is full, it has %u entries",
        (unsigned)(CHUNKS * CHUNK_PLACES));
}

/* --- unregistering --- */

static tarn_status not_open(const char *verb, tarn_stream stream)
{
    return tarn_error_set(TARN_INVALID_ARGUMENT,
                          "stream: cannot %s %p: it is not a registered stream", verb,
                          (void *)stream);
}

/* Return true if its handle may be passed to the driver. */
static bool handle_is_good(const struct tarn__registration *registration)
{
    return !tarn__driver_gone() &&
           tarn__context_generation_is_current(registration->device,
                                               registration->context_generation);
}

/* After driver shutdown no watch is called, and the place is not used again. */
static tarn_status close_for_good(tarn_stream stream)
{
    struct tarn__registration *registration = tarn__registration_find(stream);
    uint32_t registration_number = registration_number_of(stream);

    if (!registration || !atomic_compare_exchange_strong(
                             &registration->registration_number, &registration_number, 0))
        return not_open("unregister", stream);
    return TARN_OK;
}

/* Free the place of a value that was unregistered. `places_lock` held. */
static void leave_place(struct tarn__registration *place, uint32_t index)
{
    tarn__assert_mutex_held(&places_lock);

    struct tarn__registered_stream *stream = place->stream;

    note_announced(place, false);
    set_captures(place, false);
    unlink_registration(place);
    if (!stream->first)
        remove_stream(stream);
    free_place(index);
}

tarn_status tarn_stream_unregister(tarn_stream stream)
{
    struct tarn__registration *registration;

    if (tarn__driver_gone())
        return close_for_good(stream);
    pthread_mutex_lock(&callbacks_lock);
    /* under the lock: of two unregistrations one fails */
    registration = tarn__registration_find(stream);
    if (!registration) {
        pthread_mutex_unlock(&callbacks_lock);
        return not_open("unregister", stream);
    }
    pthread_mutex_lock(&registration->lock);
    if (handle_is_good(registration))
        for (struct callback *callback = callbacks; callback; callback = callback->next)
            callback->call(callback->data, stream, registration);
    atomic_store_explicit(&registration->registration_number, 0, memory_order_release);
    pthread_mutex_unlock(&registration->lock);
    pthread_mutex_lock(&places_lock);
    bool announced = registration->announced;
    const struct tarn__registration like = stream_of(registration);
    leave_place(registration, index_of(stream));
    pthread_mutex_unlock(&places_lock);
    pthread_mutex_unlock(&callbacks_lock);
    if (announced) /* no other thread may have announced it */
        update_registrations(&like);
    return TARN_OK;
}

/* Return true if the owner's stream captures. A stream whose capture was invalidated does
 * not any more. */
static bool is_capturing(const struct tarn__registration *registration)
{
    CUstreamCaptureStatus_ status = CU_STREAM_CAPTURE_STATUS_NONE_;
    struct tarn__scope scope;

    if (registration->id == TARN__LEGACY_ID || !handle_is_good(registration) ||
        tarn__scope_enter(registration->device, &scope) != TARN_OK)
        return false;
    bool is = scope.calls->stream_is_capturing(registration->handle, &status) ==
                  CUDA_SUCCESS_ &&
              status == CU_STREAM_CAPTURE_STATUS_ACTIVE_;
    tarn__scope_leave(&scope);
    return is;
}

tarn_status tarn_stream_announce_capture(tarn_stream stream, bool begins)
{
    struct tarn__registration *registration = tarn__registration_find(stream);

    if (!registration)
        return not_open("announce a capture on", stream);
    if (!begins && is_capturing(registration))
        return tarn_error_set(
            TARN_STREAM_CAPTURING,
            "stream: %p is still capturing, the end of its capture cannot be announced",
            (void *)registration->handle);
    if (tarn__driver_gone())
        return TARN_OK; /* no call uses the answer any more */
    pthread_mutex_lock(&places_lock);
    bool is_open = tarn__registration_find(stream) == registration;
    const struct tarn__registration like = stream_of(registration);
    if (is_open)
        note_announced(registration, begins);
    pthread_mutex_unlock(&places_lock);
    if (!is_open) /* it was unregistered just now */
        return not_open("announce a capture on", stream);
    update_registrations(&like);
    return TARN_OK;
}

tarn_status tarn__registration_callback_add(tarn__unregister_callback call, void *data)
{
    struct callback *callback = malloc(sizeof *callback);

    if (!callback)
        return tarn_error_set(
            TARN_OUT_OF_MEMORY,
            "stream: no host memory for a callback on unregistered streams");
    pthread_mutex_lock(&callbacks_lock);
    *callback = (struct callback){.call = call, .data = data, .next = callbacks};
    callbacks = callback;
    pthread_mutex_unlock(&callbacks_lock);
    return TARN_OK;
}

void tarn__registration_callback_remove(tarn__unregister_callback call, void *data)
{
    struct callback **link = &callbacks;

    pthread_mutex_lock(&callbacks_lock);
    while (*link && ((*link)->call != call || (*link)->data != data))
        link = &(*link)->next;
    struct callback *found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&callbacks_lock);
    free(found);
}
