/* scripted.h -- an upstream whose results the test chooses. It fails on request, and
 * records its calls. Its memory is the host's. */
#ifndef TARN_TEST_SCRIPTED_H
#define TARN_TEST_SCRIPTED_H

#include <tarn/resource.h>

struct scripted {
    tarn_resource *resource;    /* the test's reference; scripted_end() releases it */
    tarn_status allocate_fails; /* of the next allocations; TARN_OK: they succeed */
    tarn_status free_fails;
    bool deallocate_synchronizes,
        supports_streams;    /* answers to deallocate_synchronizes and supports_streams */
    bool supports_no_stream; /* ... and to supports_no_stream */

    unsigned allocations, frees, trims, destroyed; /* calls, failed ones included */
    size_t bytes, alignment;                       /* of the last call */
    tarn_stream stream;
    tarn_device_ptr block;     /* of the last free */
    tarn_device_ptr address;   /* of all blocks; 0: each has memory of the host */
    void (*before_free)(void); /* called at each free; may be NULL */
};

/* Create it for `device`; no driver is needed. */
void scripted_begin(struct scripted *script, int device);
/* Release the reference; the resource has to end. */
void scripted_end(struct scripted *script);

#endif
