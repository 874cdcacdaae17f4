/* first.c -- allocate from Tarn in C: a limit over the driver's allocator. The README
 * shows the part between the two lines. */
#include <stdio.h>
#include <tarn/tarn.h>

static tarn_status work(void)
{
    tarn_resource *cuda = NULL, *limiter = NULL;
    tarn_device_ptr block;
    tarn_status status;

    /* ---- */
    if ((status = tarn_cuda_create(0, &cuda)) != TARN_OK)
        return status;
    status = tarn_limiter_create(cuda, 1 << 20, &limiter); /* at most 1 MiB of it */
    if (status == TARN_OK)
        status = tarn_resource_allocate(limiter, 80, 0, TARN_STREAM_DEFAULT, &block);
    if (status == TARN_OK)
        status = tarn_resource_deallocate(limiter, block, 80, 0, TARN_STREAM_DEFAULT);
    tarn_resource_release(limiter);
    tarn_resource_release(cuda);
    /* ---- */
    return status;
}

int main(void)
{
    tarn_driver_info driver;

    if (tarn_driver_get_info(&driver) != TARN_OK || work() != TARN_OK) {
        fprintf(stderr, "first: %s\n", tarn_error_last()->message);
        return 1;
    }
    printf("80 bytes, there and back, with %s\n", driver.path);
    return 0;
}
