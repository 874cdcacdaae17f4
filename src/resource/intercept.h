/* intercept.h -- functions that serve the public calls of all resources in place of the
 * resource: guard mode. They are above resources, and call them.
 *
 * One word tells whether a call goes straight to its resource: it is 0 then. It also has
 * the flag of the observer (observer.h), so that a call loads one word.
 *
 * With samples most calls go straight to a pool, too. Each thread counts down to its next
 * sample. A free recognizes a sample by its address: pools and the driver return multiples
 * of 512, and the guard a multiple of 512 plus TARN__INTERCEPT_MARK. While there are other
 * samples, no call goes straight to a pool.
 */
#ifndef TARN_RESOURCE_INTERCEPT_H
#define TARN_RESOURCE_INTERCEPT_H

#include <tarn/resource.h>
#include <stdatomic.h>

struct tarn__intercept_functions {
    /* As the public calls, with arguments that the public calls have checked. They call
     * tarn__operations_allocate() and tarn__operations_deallocate(). */
    tarn_status (*allocate)(tarn_resource *resource, size_t bytes, size_t alignment,
                            tarn_stream stream, tarn_device_ptr *out);
    tarn_status (*deallocate)(tarn_resource *resource, tarn_device_ptr block,
                              size_t bytes, size_t alignment, tarn_stream stream);
    /* Find the requested bytes of a block. False: it is the resource's own. */
    bool (*requested_bytes)(tarn_device_ptr block, size_t *out);
    /* Return the freed memory that the functions keep to `resource`. */
    void (*flush)(tarn_resource *resource);
};

enum {
    TARN__INTERCEPT_OBSERVED = 1, /* an observer is set */
    TARN__INTERCEPT_ON = 2,       /* functions are set; permanent */
    TARN__INTERCEPT_SAMPLED = 4,  /* they serve samples alone */
    TARN__INTERCEPT_UNMARKED = 8, /* a live sample has no mark in its address */
    TARN__INTERCEPT_ON_SAMPLES = TARN__INTERCEPT_ON | TARN__INTERCEPT_SAMPLED,
    TARN__INTERCEPT_MARK = 256 /* in the address of a sample */
};
extern atomic_uint tarn__intercept_word __attribute__((visibility("hidden")));
/* Allocations of this thread up to the next sample; below 1: this is one. */
extern _Thread_local int64_t tarn__intercept_countdown
    __attribute__((visibility("hidden")));

/* Return address of this thread's last call that did not go straight to a pool. It may be
 * within the library. */
extern _Thread_local void *tarn__intercept_caller __attribute__((visibility("hidden")));

static inline unsigned tarn__intercept_load(void)
{
    return atomic_load_explicit(&tarn__intercept_word, memory_order_relaxed);
}

/* Count an allocation. Returns true if it is no sample. */
static inline bool tarn__intercept_skips_allocation(unsigned word)
{
    return (word & TARN__INTERCEPT_SAMPLED) && --tarn__intercept_countdown > 0;
}

/* Return true if the block is no sample. */
static inline bool tarn__intercept_skips_free(unsigned word, tarn_device_ptr block)
{
    return (word & TARN__INTERCEPT_SAMPLED) && !(word & TARN__INTERCEPT_UNMARKED) &&
           !(block & TARN__INTERCEPT_MARK);
}

/* Return true if an allocation or a free goes straight to a pool. Another word than these
 * two is for the other path, which finds out more. */
static inline bool tarn__intercept_is_direct_allocation(void)
{
    unsigned word = tarn__intercept_load();

    return word == 0 ||
           (word == TARN__INTERCEPT_ON_SAMPLES && --tarn__intercept_countdown > 0);
}

static inline bool tarn__intercept_is_direct_free(tarn_device_ptr block)
{
    unsigned word = tarn__intercept_load();

    return word == 0 ||
           (word == TARN__INTERCEPT_ON_SAMPLES && !(block & TARN__INTERCEPT_MARK));
}

/* Set the functions, once in a process. */
void tarn__intercept_set(const struct tarn__intercept_functions *functions,
                         bool is_sampled);

/* Return the functions. TARN__INTERCEPT_ON is set. */
const struct tarn__intercept_functions *tarn__intercept_get(void);

/* Count a live sample without the mark in its address, or one less. Any thread. */
void tarn__intercept_count_unmarked(bool is_less);

/* Set or clear the flag of the observer. */
void tarn__intercept_set_observed(bool is_observed);

/* Have the functions return the freed memory that they keep to `resource`. */
static inline void tarn__intercept_flush(tarn_resource *resource)
{
    if (tarn__intercept_load() & TARN__INTERCEPT_ON)
        tarn__intercept_get()->flush(resource);
}

#endif
