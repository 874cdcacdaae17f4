/* binary_slots.h -- the chunk that each thread writes into, for each log. */
#ifndef TARN_TRACE_BINARY_SLOTS_H
#define TARN_TRACE_BINARY_SLOTS_H

#include "trace/binary_chunks.h"
#include <tarn/stack.h>

enum { TARN__BINARY_PLACE_BYTES = 256 };

/* The state of one thread for one log. Only the thread uses it, except the last three
 * members, which the lock of the slots guards. */
struct tarn__binary_slot {
    /* id of the log; 0: it has ended */
    _Alignas(TARN__CACHE_LINE) atomic_uint_least64_t writer;
    struct tarn__binary_row *rows;
    uint32_t index, capacity; /* of the next row, and of all rows */
    uint64_t seed;            /* for the checks of the rows */
    uint64_t last_ns;         /* time of the last row, or of the chunk's start */
    uint64_t thread;          /* thread id of the last row */
    uint64_t own_thread;      /* thread id of the thread itself */
    struct tarn__binary_part part;

    /* The last location and its stack; 0: none. The writer compares the next one with
     * it. */
    tarn_stack place_stack;
    char place[TARN__BINARY_PLACE_BYTES];

    struct tarn__binary_slot *next; /* of the thread */
    /* under the lock of the slots */
    pthread_t owner;
    bool is_spare; /* its thread has ended */
    struct tarn__binary_slot *next_of_writer;
};

/* The slots of a log. */
struct tarn__binary_slots {
    uint64_t writer;                 /* id of the log, not 0 */
    struct tarn__binary_slot *first; /* under the lock of the slots */
};

/* The list of the slots of this thread; the slot of the last used log is first. */
extern _Thread_local struct tarn__binary_slot *tarn__binary_slots_own
    __attribute__((visibility("hidden")));

/* Return this thread's slot for a log, and make it the first of the list. If there is
 * none, take the slot of a thread that has ended, or allocate one. `time_ns` is the time
 * of the next row. NULL: no host memory. */
struct tarn__binary_slot *tarn__binary_slots_find(struct tarn__binary_slots *slots,
                                                  uint64_t time_ns);

/* Set the chunk into which a slot writes. It was just taken for `thread`. */
void tarn__binary_slots_set_part(struct tarn__binary_slot *slot,
                                 const struct tarn__binary_part *part, uint64_t thread,
                                 uint32_t capacity);
/* Clear the chunk of a slot, without unmapping it. */
void tarn__binary_slots_forget_part(struct tarn__binary_slot *slot);

/* Unmap the chunks of a log that ends. Threads keep their slots until they end. */
void tarn__binary_slots_end(struct tarn__binary_slots *slots);

/* Clear all chunks in a forked child, where they are not mapped. The slots of other
 * threads become spare. All struct tarn__mutex are held. */
void tarn__binary_slots_in_child(struct tarn__binary_slots *slots);

#endif
