/* deferred_frees.h -- memory whose last reference is gone and that is not returned yet.
 */
#ifndef TARN_POINTER_DEFERRED_FREES_H
#define TARN_POINTER_DEFERRED_FREES_H

#include "pointer/pointer.h"

/* Return the memory of an owner without references, now or later, and then free the
 * owner. */
void tarn__deferred_frees_return(tarn_pointer *pointer);

/* Retry failed frees, the oldest first, until one fails again. The last error stays
 * unchanged. */
void tarn__deferred_frees_retry(void);

/* Retry deferred frees if `status` is out of memory. Returns true if another allocation makes
 * sense. A free that failed may have become the last error. */
bool tarn__deferred_frees_reclaimed(tarn_status status);

/* Between these calls, on `device`, deferrable pointers are kept if their return would
 * wait for the device. The calls nest. The last end returns the memory, and reports the
 * first failure of a pointer that had not failed before. The cleanup has ended in any
 * case. */
void tarn__deferred_frees_begin(int device);
tarn_status tarn__deferred_frees_end(int device);

/* Set when lazy pointers are returned. Each device keeps a list of them after their last
 * release and returns them together. That happens when the list has more than `count`
 * entries, or more bytes than `ratio` of the capacity of
 * tarn__deferred_frees_set_capacity(). It happens outside deferred cleanup; within it
 * they wait for the last end. Without a capacity only the count matters. */
void tarn__deferred_frees_set_limits(size_t count, double ratio);
void tarn__deferred_frees_limits(size_t *count_out, double *ratio_out);
void tarn__deferred_frees_set_capacity(int device, size_t bytes);

/* Report the deferred frees of `device` now. Pinned memory counts no bytes: it is not the
 * device's. */
void tarn__deferred_frees_on(int device, size_t *count_out, size_t *bytes_out);

/* Return all memory of `device` whose free was deferred or failed. */
tarn_status tarn__deferred_frees_flush(int device);

/* Keeps the first failure of a free on a thread. */
struct tarn__deferred_frees_record {
    struct tarn__deferred_frees_record *outer;
    tarn_error why; /* TARN_OK: none has failed */
};

/* From now on, keep the first failure of a free on this thread in `record`, and do not
 * print it. The calls nest. */
void tarn__deferred_frees_record_begin(struct tarn__deferred_frees_record *record);

/* Stop that. Return the first failure; it becomes the last error. */
tarn_status tarn__deferred_frees_record_end(
    const struct tarn__deferred_frees_record *record);

#endif
