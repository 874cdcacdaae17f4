/* scripted.h -- an upstream that does what the test says: fails when told to, and notes
 * what it was asked. Its memory is the host's. */
#ifndef TARN_TEST_SCRIPTED_H
#define TARN_TEST_SCRIPTED_H

#include <tarn/resource.h>

struct scripted {
    tarn_resource *resource;    /* the test's reference; scripted_end() gives it back */
    tarn_status allocate_fails; /* what the next allocations give; TARN_OK: they work */
    tarn_status free_fails;
    bool deallocate_synchronizes,
        supports_streams;    /* answers to free_waits and supports_streams */
    bool supports_no_stream; /* ... and to supports_no_stream */

    unsigned allocations, frees, trims, destroyed; /* calls, failed ones included */
    size_t bytes, alignment;                       /* of the last call */
    tarn_stream stream;
    tarn_device_ptr block;     /* of the last free */
    void (*before_free)(void); /* called when a free arrives; may be NULL */
};

/* Make it for `device`; no driver is needed. */
void scripted_begin(struct scripted *script, int device);
/* Give the reference back; the resource has to end. */
void scripted_end(struct scripted *script);

#endif
