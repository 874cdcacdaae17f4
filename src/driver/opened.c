/* opened.c -- the table of streams that were opened.
 *
 * Places come in chunks that are made as they are needed and never move or go, so that
 * finding one takes no lock: two loads and a comparison. A place that was opened 2^32 - 1
 * times is not used again, so no two openings in the life of a process share a value.
 *
 * Two locks. `watches_lock` is held while watches are told of a close, which makes driver
 * calls; `places_lock` covers the list of free places and what was announced, and is held
 * while an event of the whole context is recorded, so that no capture is announced
 * meanwhile. No call that is given an opened stream takes either, but the announcement of a
 * capture. Both are held over a fork, and the child makes the places' own locks anew:
 * whoever held one in the parent is not there.
 */
#include "driver/opened.h"
#include <stdlib.h>
#include <string.h>

enum { CHUNK_PLACES = 256, CHUNKS = 4096 };

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

/* The place of an index, or NULL where there is none. */
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

bool tarn__opened_has(int device, CUstream_ handle)
{
    bool found = false;

    pthread_mutex_lock(&places_lock);
    for (uint32_t i = 0; i < chunk_count * CHUNK_PLACES && !found; i++) {
        struct tarn__opened *opened = place_at(i);
        found = atomic_load_explicit(&opened->opening, memory_order_acquire) != 0 &&
                opened->handle == handle && opened->device == device;
    }
    pthread_mutex_unlock(&places_lock);
    return found;
}

bool tarn__opened_hold_captures(int device)
{
    bool found = false;

    pthread_mutex_lock(&places_lock);
    for (uint32_t i = 0; i < chunk_count * CHUNK_PLACES && !found; i++) {
        struct tarn__opened *opened = place_at(i);
        found = atomic_load_explicit(&opened->opening, memory_order_acquire) != 0 &&
                atomic_load(&opened->captures) && opened->device == device;
    }
    if (found)
        pthread_mutex_unlock(&places_lock);
    return !found;
}

void tarn__opened_let_captures_go(void)
{
    pthread_mutex_unlock(&places_lock);
}

/* --- announced captures --- */

/* What tells the stream of a place from others. */
static struct tarn__opened stream_of(const struct tarn__opened *place)
{
    return (struct tarn__opened){
        .device = place->device, .handle = place->handle, .life = place->life};
}

/* Does the place stand for the same stream? Under the lock of places. */
static bool is_alike(const struct tarn__opened *place, const struct tarn__opened *like)
{
    return atomic_load_explicit(&place->opening, memory_order_acquire) != 0 &&
           place->handle == like->handle && place->device == like->device &&
           place->life == like->life;
}

/* On any value of the stream? Under the lock of places. */
static bool is_announced(const struct tarn__opened *like)
{
    for (uint32_t i = 0; i < chunk_count * CHUNK_PLACES; i++)
        if (is_alike(place_at(i), like) && place_at(i)->announced)
            return true;
    return false;
}

/* The first value of the stream from `*index` on, which becomes its own; NULL: there is
 * none. */
static struct tarn__opened *value_from(uint32_t *index, const struct tarn__opened *like)
{
    struct tarn__opened *found = NULL;

    pthread_mutex_lock(&places_lock);
    for (uint32_t i = *index; i < chunk_count * CHUNK_PLACES && !found; i++)
        if (is_alike(place_at(i), like)) {
            found = place_at(i);
            *index = i;
        }
    pthread_mutex_unlock(&places_lock);
    return found;
}

/* Have all values of a stream know. Who asked before this whether it captures has recorded
 * when the lock of its value is had. */
static void tell_all(const struct tarn__opened *like)
{
    struct tarn__opened *place;

    for (uint32_t i = 0; (place = value_from(&i, like)) != NULL; i++) {
        pthread_mutex_lock(&place->lock);
        pthread_mutex_lock(&places_lock);
        if (is_alike(place, like))
            atomic_store_explicit(&place->captures, is_announced(like),
                                  memory_order_release);
        pthread_mutex_unlock(&places_lock);
        pthread_mutex_unlock(&place->lock);
    }
}

/* --- forks --- */

static void hold(void)
{
    pthread_mutex_lock(&watches_lock);
    pthread_mutex_lock(&places_lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&places_lock);
    pthread_mutex_unlock(&watches_lock);
}

static void let_go_in_child(void)
{
    for (uint32_t i = 0; i < chunk_count * CHUNK_PLACES; i++)
        pthread_mutex_init(&place_at(i)->lock, NULL);
    let_go();
}

static void watch_forks(void)
{
    pthread_atfork(hold, let_go, let_go_in_child);
}

static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;

/* --- free places --- */

/* Put a place that is closed where the next opening finds it. Under the lock. */
static void free_place(uint32_t index)
{
    struct tarn__opened *place = place_at(index);

    if (place->last_opening == UINT32_MAX)
        return; /* it has no number left */
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
    memset(chunk, 0, CHUNK_PLACES * sizeof *chunk);
    for (int i = 0; i < CHUNK_PLACES; i++)
        pthread_mutex_init(&chunk[i].lock, NULL);
    atomic_store_explicit(&chunks[chunk_count], chunk, memory_order_release);
    uint32_t first = chunk_count++ * CHUNK_PLACES;
    for (uint32_t i = CHUNK_PLACES; i > 0; i--)
        free_place(first + i - 1);
    return true;
}

/* A place for `made`, whose value is `*out`. */
static tarn_status enter(const struct tarn__opened *made, tarn_stream *out)
{
    pthread_once(&forks_watched, watch_forks);
    pthread_mutex_lock(&places_lock);
    if (first_free == 0 && !add_chunk()) {
        pthread_mutex_unlock(&places_lock);
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "stream: no place for one more opened stream, there are %u",
                              chunk_count * CHUNK_PLACES);
    }
    uint32_t index = first_free - 1;
    struct tarn__opened *place = place_at(index);
    first_free = place->next_free;
    place->device = made->device;
    place->handle = made->handle;
    place->id = made->id;
    place->life = made->life;
    place->announced = false;
    atomic_store_explicit(&place->captures, is_announced(made), memory_order_relaxed);
    place->last_opening++;
    atomic_store_explicit(&place->opening, place->last_opening, memory_order_release);
    *out = value_of(index, place->last_opening);
    pthread_mutex_unlock(&places_lock);
    return TARN_OK;
}

/* --- opening --- */

/* In a scope: the id of a stream that does not capture; asking would end its capture. */
static tarn_status ask_id(const struct tarn__scope *scope, CUstream_ handle,
                          unsigned long long *out)
{
    CUstreamCaptureStatus_ capture = CU_STREAM_CAPTURE_STATUS_NONE_;
    CUresult_ result = scope->calls->stream_is_capturing(handle, &capture);

    if (result != CUDA_SUCCESS_)
        return tarn__driver_failed("stream", "cuStreamIsCapturing", result, "stream %p",
                                   (void *)handle);
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE_)
        return tarn_error_set(TARN_STILL_IN_USE,
                              "stream: %p captures; it can be opened before or after",
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

tarn_status tarn_stream_open(int device, tarn_stream raw, tarn_stream *out)
{
    struct tarn__opened made = {.device = device, .handle = (CUstream_)raw};
    struct tarn__scope scope;

    if (!out || !can_be_opened(raw))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "stream: %p cannot be opened%s: a CUstream of one's own or "
                              "a default stream (0, 1) can",
                              (void *)raw, out ? "" : " into NULL");
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

/* --- closing --- */

static tarn_status not_open(const char *verb, tarn_stream stream)
{
    return tarn_error_set(
        TARN_INVALID_ARGUMENT,
        "stream: %s %p, which is not open: it was closed already, or is "
        "no value of tarn_stream_open()",
        verb, (void *)stream);
}

/* May its handle be given to the driver? */
static bool handle_is_good(const struct tarn__opened *opened)
{
    return !tarn__driver_gone() && tarn__context_lives(opened->device, opened->life);
}

tarn_status tarn_stream_close(tarn_stream stream)
{
    struct tarn__opened *opened;

    pthread_mutex_lock(&watches_lock);
    opened = tarn__opened_find(stream); /* under the lock: of two closes one is refused */
    if (!opened) {
        pthread_mutex_unlock(&watches_lock);
        return not_open("close", stream);
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
    free_place(index_of(stream));
    pthread_mutex_unlock(&places_lock);
    pthread_mutex_unlock(&watches_lock);
    if (announced) /* nobody else may have said so */
        tell_all(&like);
    return TARN_OK;
}

/* Does a stream of one's own capture? One whose capture is lost does not any more. */
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

tarn_status tarn_stream_announce_capture(tarn_stream stream, bool capturing)
{
    struct tarn__opened *opened = tarn__opened_find(stream);

    if (!opened)
        return not_open("announce a capture on", stream);
    if (!capturing && is_capturing(opened))
        return tarn_error_set(TARN_STILL_IN_USE,
                              "stream: %p still captures, so that this has ended cannot "
                              "be announced",
                              (void *)opened->handle);
    pthread_mutex_lock(&places_lock);
    opened->announced = capturing;
    const struct tarn__opened like = stream_of(opened);
    pthread_mutex_unlock(&places_lock);
    tell_all(&like);
    return TARN_OK;
}

tarn_status tarn__opened_add_watch(tarn__opened_watch call, void *data)
{
    struct watch *watch = malloc(sizeof *watch);

    if (!watch)
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "stream: no host memory to watch for closed streams");
    pthread_once(&forks_watched, watch_forks);
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
