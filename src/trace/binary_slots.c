/* binary_slots.c -- the chunk that each thread writes into, for each log.
 *
 * A thread finds its slot in a list of its own, mostly as the first one. So a row needs no
 * lock. The log has a list of its slots, too. With it the log can unmap the chunks when it
 * ends. When a thread ends, its slots become spare, and another thread writes on in their
 * chunks. So a program with many short threads does not need a chunk for each.
 */
#define _GNU_SOURCE
#include "trace/binary_slots.h"
#include "base/mutex.h"
#include "base/thread.h"
#include <stdlib.h>
#include <string.h>

_Thread_local struct tarn__binary_slot *tarn__binary_slots_own;

TARN__STATIC_MUTEX(lock);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its value is not NULL where end_thread() has to run */
static bool has_key;

static void end_thread(void *unused)
{
    struct tarn__binary_slot *slot = tarn__binary_slots_own;

    (void)unused;
    tarn__binary_slots_own = NULL;
    tarn__mutex_lock(&lock);
    while (slot) {
        struct tarn__binary_slot *next = slot->next;
        slot->next = NULL;
        if (atomic_load(&slot->writer))
            slot->is_spare = true;
        else
            free(slot);
        slot = next;
    }
    tarn__mutex_unlock(&lock);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, end_thread) == 0;
}

/* Find a slot in this thread's list, and remove it from there. */
static struct tarn__binary_slot *take_own(uint64_t writer)
{
    struct tarn__binary_slot **link = &tarn__binary_slots_own, *slot;

    while (*link && atomic_load(&(*link)->writer) != writer)
        link = &(*link)->next;
    slot = *link;
    if (slot)
        *link = slot->next;
    return slot;
}

/* Can a thread write on in a spare slot? */
static bool fits(const struct tarn__binary_slot *slot, uint64_t time_ns)
{
    return slot->is_spare && (!slot->rows || (slot->last_ns <= time_ns &&
                                              slot->index + 2 <= slot->capacity));
}

/* Take a spare slot of a log. */
static struct tarn__binary_slot *take_spare(struct tarn__binary_slots *slots,
                                            uint64_t time_ns)
{
    tarn__mutex_lock(&lock);
    struct tarn__binary_slot *slot = slots->first;
    while (slot && !fits(slot, time_ns))
        slot = slot->next_of_writer;
    if (slot) {
        slot->is_spare = false;
        slot->owner = pthread_self();
    }
    tarn__mutex_unlock(&lock);
    return slot;
}

/* Make a slot for a log, or reuse one of this thread whose log has ended. */
static struct tarn__binary_slot *make_slot(struct tarn__binary_slots *slots)
{
    struct tarn__binary_slot *slot = take_own(0);

    if (!slot)
        slot = tarn__cache_line_allocate(sizeof *slot);
    if (!slot)
        return NULL;
    memset(slot, 0, sizeof *slot);
    slot->owner = pthread_self();
    atomic_init(&slot->writer, slots->writer);
    tarn__mutex_lock(&lock);
    slot->next_of_writer = slots->first;
    slots->first = slot;
    tarn__mutex_unlock(&lock);
    return slot;
}

struct tarn__binary_slot *tarn__binary_slots_find(struct tarn__binary_slots *slots,
                                                  uint64_t time_ns)
{
    struct tarn__binary_slot *slot = take_own(slots->writer);

    pthread_once(&once, make_key);
    if (!slot) {
        if (!has_key || pthread_setspecific(key, &key) != 0)
            return NULL;
        slot = take_spare(slots, time_ns);
        if (!slot)
            slot = make_slot(slots);
        if (!slot)
            return NULL;
        slot->own_thread = tarn__thread_id();
    }
    slot->next = tarn__binary_slots_own;
    return tarn__binary_slots_own = slot;
}

void tarn__binary_slots_set_part(struct tarn__binary_slot *slot,
                                 const struct tarn__binary_part *part, uint64_t thread,
                                 uint32_t capacity)
{
    slot->part = *part;
    slot->rows = (void *)(part->memory + sizeof part->header);
    slot->index = 0;
    slot->capacity = capacity;
    slot->seed = tarn__binary_seed(part->header.id, part->header.number);
    slot->last_ns = part->header.start_ns;
    slot->thread = thread;
}

void tarn__binary_slots_forget_part(struct tarn__binary_slot *slot)
{
    slot->part = (struct tarn__binary_part){0};
    slot->rows = NULL;
    slot->index = slot->capacity = 0;
}

void tarn__binary_slots_end(struct tarn__binary_slots *slots)
{
    tarn__mutex_lock(&lock);
    for (struct tarn__binary_slot *slot = slots->first, *next; slot; slot = next) {
        next = slot->next_of_writer;
        struct tarn__binary_window *window = slot->part.window;
        tarn__binary_slots_forget_part(slot);
        tarn__binary_window_leave(window);
        bool is_spare = slot->is_spare;
        atomic_store(&slot->writer, 0); /* its thread may use it for another log */
        if (is_spare)
            free(slot);
    }
    slots->first = NULL;
    tarn__mutex_unlock(&lock);
}

void tarn__binary_slots_in_child(struct tarn__binary_slots *slots)
{
    for (struct tarn__binary_slot *slot = slots->first; slot;
         slot = slot->next_of_writer) {
        tarn__binary_window_forget(slot->part.window);
        tarn__binary_slots_forget_part(slot);
        if (!pthread_equal(slot->owner, pthread_self())) {
            slot->is_spare = true;
            slot->next = NULL;
        }
    }
}
