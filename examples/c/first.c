/* first.c -- fill a block of a pool on a stream, and read it back. */
#include <stdio.h>
#include <stdlib.h>
#include <tarn/tarn.h>

/* End the program after a failed call, with the message of the library. */
static void check(tarn_status status)
{
    if (status == TARN_OK)
        return;
    fprintf(stderr, "%s: %s\n", tarn_status_name(status), tarn_error_last()->message);
    exit(1);
}

int main(void)
{
    tarn_pool_statistics seen = {.size = sizeof seen};
    tarn_device_ptr block;
    tarn_resource *pool;
    tarn_stream stream;
    char text[6] = "";

    check(tarn_pool_create(0, NULL, NULL, &pool)); /* on device 0 */
    check(tarn_stream_create(0, true, &stream));
    for (int round = 0; round < 1000; round++) {
        check(tarn_resource_allocate(pool, 1 << 20, 0, stream, &block));
        check(tarn_memset_async(0, block, 'a' + round % 26, 1 << 20, stream));
        check(tarn_memcpy_async(0, (tarn_device_ptr)text, block, 5, stream));
        check(tarn_resource_deallocate(pool, block, 1 << 20, 0, stream));
    }
    check(tarn_stream_synchronize(0, stream));
    check(tarn_pool_get_statistics(pool, &seen));
    printf("%s, %zu MiB reserved\n", text, (size_t)seen.reserved >> 20);
    check(tarn_stream_destroy(0, stream));
    check(tarn_resource_release(pool));
}
