/* failure_callback.c -- a resource that calls a function before an allocation fails for
 * lack of memory.
 *
 * The function can free memory of its own, above all of another library or on another
 * resource, and have the upstream asked again. An out-of-memory callback of a pool does
 * that for one pool; this adaptor does it for any resource, a limiter for example.
 */
#include "adaptor/forward.h"
#include "base/error.h"
#include <stdlib.h>

struct failure_callback {
    struct tarn__adaptor adaptor; /* does the real work */
    tarn_failure_callback call;
    void *data;              /* the argument of `call` and of `end` */
    void (*end)(void *data); /* may be NULL */
};

/* Ask the function about a failed allocation of `bytes`. TARN_OK: the upstream is asked
 * again. Else the failure of the function, or that of the upstream. */
static tarn_status ask(const struct failure_callback *self, size_t bytes)
{
    struct tarn__kept_error why = tarn__error_keep();
    bool again = false;
    tarn_status status = self->call(self->data, bytes, &again);

    return status == TARN_OK && !again ? tarn__error_restore(&why) : status;
}

static tarn_status failure_callback_allocate(void *self, size_t bytes, size_t alignment,
                                             tarn_stream stream, tarn_device_ptr *out)
{
    const struct failure_callback *own = self;
    tarn_status status, asked = TARN_OK;

    do {
        status =
            tarn_resource_allocate(own->adaptor.upstream, bytes, alignment, stream, out);
        if (status == TARN_OUT_OF_MEMORY)
            asked = ask(own, bytes);
    } while (status == TARN_OUT_OF_MEMORY && asked == TARN_OK);
    return status == TARN_OUT_OF_MEMORY ? asked : status;
}

static void failure_callback_destroy(void *self)
{
    struct failure_callback *own = self;

    tarn__forward_end(&own->adaptor);
    if (own->end)
        own->end(own->data);
    free(own);
}

const tarn_resource_ops tarn__failure_callback_ops = {
    .size = sizeof tarn__failure_callback_ops,
    .name = "failure_callback",
    .allocate = failure_callback_allocate,
    .deallocate = tarn__forward_deallocate,
    .destroy = failure_callback_destroy,
    TARN__FORWARD_QUERIES(tarn__forward_empty_request, tarn__forward_trim),
};

tarn_status tarn_failure_callback_create(tarn_resource *upstream,
                                         tarn_failure_callback call, void *data,
                                         void (*end)(void *data), tarn_resource **out)
{
    if (!upstream || !call || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "failure_callback: create: upstream, call or out is NULL");
    struct failure_callback *own = calloc(1, sizeof *own);
    if (!own)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "failure_callback: no host memory");
    own->call = call;
    own->data = data;
    own->end = end;
    tarn_status status =
        tarn__forward_create(&tarn__failure_callback_ops, &own->adaptor, upstream, out);
    if (status != TARN_OK)
        free(own);
    return status;
}
