/* handle_size.h -- the size of a growth, and of the physical handles that it makes. */
#ifndef TARN_POOL_HANDLE_SIZE_H
#define TARN_POOL_HANDLE_SIZE_H

#include "pool/backing/pages.h"

/* Return how much a growth that needs `bytes` should add, at most `most`. It is the step
 * of growth, a multiple of the page, and at least `bytes` rounded to pages. It is rounded
 * to handles where `most` allows. 0: it exceeds `most`. */
size_t tarn__handle_size_step(const struct tarn__pages *pages, size_t bytes, size_t most);

/* Return the size of the handles that a growth by `more` bytes makes: a power of two, by
 * the size of the pool after it and by the memory left on the device. For segments, 0. */
size_t tarn__handle_size(const struct tarn__pages *pages, size_t more);

#endif
