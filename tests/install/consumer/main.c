/* main.c -- the smallest program of another project: allocates from Tarn, and frees. */
#include <stdio.h>
#include <tarn/tarn.h>

int main(void)
{
    tarn_resource *resource;
    tarn_device_ptr block;

    if (tarn_device_resource(0, &resource) != TARN_OK ||
        tarn_resource_allocate(resource, 80, 0, TARN_STREAM_DEFAULT, &block) != TARN_OK ||
        tarn_resource_deallocate(resource, block, 80, 0, TARN_STREAM_DEFAULT) !=
            TARN_OK ||
        tarn_resource_release(resource) != TARN_OK) {
        fprintf(stderr, "consumer: %s\n", tarn_error_last()->message);
        return 1;
    }
    printf("tarn %s\n", tarn_version());
    return 0;
}
