/* segments.h -- the functions of pages.h for blocks of an upstream. */
#ifndef TARN_POOL_SEGMENTS_H
#define TARN_POOL_SEGMENTS_H

#include "pool/backing/backing.h"

tarn_status tarn__segments_open(struct tarn__pages *pages, tarn_resource *upstream);
void tarn__segments_close(struct tarn__pages *pages);
tarn_status tarn__segments_grow(struct tarn__pages *pages, size_t bytes,
                                tarn_stream stream, struct tarn__span *out);
struct tarn__span tarn__segments_removable(const struct tarn__pages *pages,
                                           struct tarn__span idle);
tarn_status tarn__segments_remove(struct tarn__pages *pages, struct tarn__span span);

#endif
