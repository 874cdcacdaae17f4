/* two_streams.c -- use a block on two streams: an event before the use and the free.
 *
 * A pool reuses memory in the order of the stream that freed it, and does not wait. It
 * does not know about the use on another stream: the program orders that by events.
 *
 * An ordinary program includes cuda.h and links the driver. This one resolves its calls
 * in the driver that Tarn has open, so that it builds without CUDA.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <tarn/tarn.h>

enum { BYTES = 1 << 20 };

static int (*cuDevicePrimaryCtxRetain)(void **context, int device);
static int (*cuCtxSetCurrent)(void *context);
static int (*cuEventCreate)(void **event, unsigned flags);
static int (*cuEventRecord)(void *event, void *stream);
static int (*cuStreamWaitEvent)(void *stream, void *event, unsigned flags);
static int (*cuEventDestroy)(void *event);

#define TRY(call)          \
    if ((call) != TARN_OK) \
    return fprintf(stderr, "%s\n", tarn_error_last()->message), false
#define CU(call)     \
    if ((call) != 0) \
    return fprintf(stderr, "%s failed\n", #call), false

static bool find_driver(void)
{
    tarn_driver_info driver;

    TRY(tarn_driver_get_info(&driver));
    void *library = dlopen(driver.path, RTLD_NOW);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), false;
    *(void **)&cuDevicePrimaryCtxRetain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&cuCtxSetCurrent = dlsym(library, "cuCtxSetCurrent");
    *(void **)&cuEventCreate = dlsym(library, "cuEventCreate");
    *(void **)&cuEventRecord = dlsym(library, "cuEventRecord");
    *(void **)&cuStreamWaitEvent = dlsym(library, "cuStreamWaitEvent");
    *(void **)&cuEventDestroy = dlsym(library, "cuEventDestroy_v2");
    return true;
}

/* Free the block on the stream of its allocation. */
static bool free_where_allocated(tarn_resource *pool, tarn_device_ptr result,
                                 tarn_stream producer, tarn_stream consumer)
{
    tarn_device_ptr block;
    void *written, *read;

    CU(cuEventCreate(&written, 0));
    CU(cuEventCreate(&read, 0));
    TRY(tarn_resource_allocate(pool, BYTES, 0, producer, &block));
    TRY(tarn_memset_async(0, block, 42, BYTES, producer));
    CU(cuEventRecord(written, producer));
    CU(cuStreamWaitEvent(consumer, written, 0)); /* before the first use on `consumer` */
    TRY(tarn_memcpy_async(0, result, block, BYTES, consumer));
    CU(cuEventRecord(read, consumer));
    CU(cuStreamWaitEvent(producer, read, 0)); /* before the free on `producer` */
    TRY(tarn_resource_deallocate(pool, block, BYTES, 0, producer));
    CU(cuEventDestroy(written));
    CU(cuEventDestroy(read));
    return true;
}

/* Free the block on the stream that used it last: the second event is not needed. */
static bool free_where_used(tarn_resource *pool, tarn_device_ptr result,
                            tarn_stream producer, tarn_stream consumer)
{
    tarn_device_ptr block;
    void *written;

    CU(cuEventCreate(&written, 0));
    TRY(tarn_resource_allocate(pool, BYTES, 0, producer, &block));
    TRY(tarn_memset_async(0, block, 43, BYTES, producer));
    CU(cuEventRecord(written, producer));
    CU(cuStreamWaitEvent(consumer, written, 0));
    TRY(tarn_memcpy_async(0, result, block, BYTES, consumer));
    TRY(tarn_resource_deallocate(pool, block, BYTES, 0, consumer));
    CU(cuEventDestroy(written));
    return true;
}

/* Read the last byte of `result`, behind the work of `stream`. */
static bool print_result(tarn_device_ptr result, tarn_stream stream, int wanted)
{
    unsigned char byte = 0;

    TRY(tarn_memcpy_async(0, (uintptr_t)&byte, result + BYTES - 1, 1, stream));
    TRY(tarn_stream_synchronize(0, stream));
    printf("%d was read\n", byte);
    return byte == wanted;
}

static bool use(tarn_resource *pool, tarn_stream producer, tarn_stream consumer)
{
    tarn_device_ptr result;

    TRY(tarn_resource_allocate(pool, BYTES, 0, consumer, &result));
    bool good = free_where_allocated(pool, result, producer, consumer) &&
                free_where_allocated(pool, result, producer, consumer) &&
                free_where_used(pool, result, producer, consumer) &&
                print_result(result, consumer, 43);
    TRY(tarn_resource_deallocate(pool, result, BYTES, 0, consumer));
    return good;
}

int main(void)
{
    tarn_resource *pool;
    tarn_stream producer, consumer;
    void *context;

    if (!find_driver() || cuDevicePrimaryCtxRetain(&context, 0) != 0 ||
        cuCtxSetCurrent(context) != 0 ||
        tarn_pool_create(0, NULL, NULL, &pool) != TARN_OK ||
        tarn_stream_create(0, true, &producer) != TARN_OK ||
        tarn_stream_create(0, true, &consumer) != TARN_OK)
        return 1;
    bool good = use(pool, producer, consumer);
    tarn_stream_destroy(0, producer);
    tarn_stream_destroy(0, consumer);
    return tarn_resource_release(pool) == TARN_OK && good ? 0 : 1;
}
