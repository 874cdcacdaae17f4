/* main.c -- a resource of another project: it forwards to its upstream and adds nothing.
 * Built against an installed Tarn and run through the installed conformance suite. */
#include <stdio.h>
#include <stdlib.h>
#include <tarn_conformance.h>

static tarn_status own_allocate(void *self, size_t bytes, size_t alignment,
                                tarn_stream stream, tarn_device_ptr *out)
{
    return tarn_resource_allocate(self, bytes, alignment, stream, out);
}

static tarn_status own_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                  size_t alignment, tarn_stream stream)
{
    return tarn_resource_deallocate(self, block, bytes, alignment, stream);
}

static void own_destroy(void *self)
{
    tarn_resource_release(self);
}

static const tarn_resource_ops own_ops = {
    .size = sizeof(tarn_resource_ops),
    .name = "own",
    .allocate = own_allocate,
    .deallocate = own_deallocate,
    .destroy = own_destroy,
};

static tarn_status own_create(void *data, int device, tarn_resource **out)
{
    tarn_resource *upstream;
    tarn_status status = tarn_cuda_create(device, &upstream);

    (void)data;
    if (status != TARN_OK)
        return status;
    status = tarn_resource_create(&own_ops, upstream, device, out);
    if (status != TARN_OK)
        tarn_resource_release(upstream);
    return status;
}

static void report(void *data, const char *check, const char *what)
{
    int *checks = data;

    *checks += 1;
    if (what)
        printf("%s: %s\n", check, what);
}

int main(void)
{
    int checks = 0;
    tarn_conformance_subject subject = {sizeof subject, "own", own_create, NULL, 0,
                                        false,          false, 0};
    int failed = tarn_conformance_run(&subject, report, &checks);

    printf("%d checks, %d failed\n", checks, failed);
    return failed != 0 || checks == 0;
}
