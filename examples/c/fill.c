/* fill.c -- fill memory of the current device resource, copy it back, and free it.
 *
 * cc fill.c $(pkg-config --cflags --libs tarn) && ./a.out
 *
 * Without a GPU: TARN_DRIVER=sim ./a.out
 */
#include <stdio.h>
#include <tarn/tarn.h>

/* End the program after a failed call. The message names the component, the operation and
 * its numbers. */
#define TRY(call)          \
    if ((call) != TARN_OK) \
    return fprintf(stderr, "%s\n", tarn_error_last()->message), 1

int main(void)
{
    unsigned char back[1000] = {0};
    tarn_resource *resource;
    tarn_device_ptr block;

    TRY(tarn_current_device_resource(&resource));
    TRY(tarn_resource_allocate(resource, sizeof back, 0, TARN_STREAM_DEFAULT, &block));
    TRY(tarn_memset_async(0, block, 42, sizeof back, TARN_STREAM_DEFAULT));
    TRY(tarn_memcpy_async(0, (uintptr_t)back, block, sizeof back, TARN_STREAM_DEFAULT));
    TRY(tarn_stream_synchronize(0, TARN_STREAM_DEFAULT));
    TRY(tarn_resource_deallocate(resource, block, sizeof back, 0, TARN_STREAM_DEFAULT));
    printf("%zu bytes from %s, each is %d\n", sizeof back, tarn_resource_name(resource),
           back[999]);
    TRY(tarn_resource_release(resource));
    return back[0] == 42 && back[999] == 42 ? 0 : 1;
}
