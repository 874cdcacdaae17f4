/* sim_faults.c -- test a function on the driver simulator: with each driver call failing
 * once, and in a hundred orders of its work.
 *
 * It has nothing to do on another driver, where the controls of the simulator are missing.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <tarn/sim.h>
#include <tarn/tarn.h>

enum { BYTES = 1 << 20 };

static tarn_sim_configure_fn *configure;
static tarn_sim_faults_fn *faults_so_far;
static tarn_sim_live_bytes_fn *live_bytes;
static unsigned mistakes;

/* Look the controls up in the driver that Tarn has open. */
static bool find_simulator(void)
{
    tarn_driver_info driver;

    if (tarn_driver_get_info(&driver) != TARN_OK)
        return false;
    void *library = dlopen(driver.path, RTLD_NOW);
    if (!library || !dlsym(library, "tarn_sim_configure"))
        return false;
    configure = (tarn_sim_configure_fn *)dlsym(library, "tarn_sim_configure");
    faults_so_far = (tarn_sim_faults_fn *)dlsym(library, "tarn_sim_faults");
    live_bytes = (tarn_sim_live_bytes_fn *)dlsym(library, "tarn_sim_live_bytes");
    return true;
}

/* Write a block on one stream and copy it on another. */
static tarn_status fill_and_copy(tarn_stream fill, tarn_stream copy,
                                 unsigned char *result)
{
    tarn_resource *cuda = NULL;
    tarn_device_ptr block = 0;
    tarn_status status = tarn_cuda_create(0, &cuda);

    if (status == TARN_OK)
        status = tarn_resource_allocate(cuda, BYTES, 0, fill, &block);
    if (status == TARN_OK)
        status = tarn_memset_async(0, block, 42, BYTES, fill);
    if (status == TARN_OK)
        status = tarn_stream_wait(0, copy, fill); /* without it the copy can be early */
    if (status == TARN_OK)
        status = tarn_memcpy_async(0, (tarn_device_ptr)result, block, BYTES, copy);
    if (status == TARN_OK)
        status = tarn_stream_synchronize(0, copy);
    if (block && tarn_resource_deallocate(cuda, block, BYTES, 0, copy) != TARN_OK)
        tarn_resource_deallocate(cuda, block, BYTES, 0, copy); /* it is still live */
    tarn_resource_release(cuda);
    return status;
}

/* Run the function; it has to write the bytes, or to report a failure. */
static void scenario(void)
{
    static unsigned char result[BYTES];
    tarn_stream fill, copy;

    memset(result, 0, sizeof result);
    if (tarn_stream_create(0, true, &fill) != TARN_OK)
        return;
    if (tarn_stream_create(0, true, &copy) == TARN_OK) {
        if (fill_and_copy(fill, copy, result) == TARN_OK && result[BYTES - 1] != 42)
            mistakes++;
        tarn_stream_destroy(0, copy);
    }
    tarn_stream_destroy(0, fill);
}

static unsigned fail_each_call_once(void)
{
    char options[64];
    unsigned tried = 0;

    for (unsigned nth = 1, faults = 1; faults; nth++) {
        snprintf(options, sizeof options, "fail=nth:%u", nth);
        configure(options); /* tarn_sim_configure, found with dlsym */
        scenario();         /* must leave nothing behind, whatever failed */
        faults = (unsigned)faults_so_far();
        configure(NULL);
        tried += faults;
    }
    return tried;
}

static void run_in_each_order(void)
{
    char options[64];

    for (unsigned seed = 0; seed < 100; seed++) {
        snprintf(options, sizeof options, "mode=seeded,seed=%u", seed);
        configure(options);
        scenario(); /* checks the bytes that it copies to the host */
    }
    configure(NULL);
}

int main(void)
{
    if (!find_simulator()) {
        printf("this driver is not the simulator\n");
        return 0;
    }
    printf("%u driver calls failed, one in each run\n", fail_each_call_once());
    run_in_each_order();
    printf("%u mistakes, %llu bytes live\n", mistakes, live_bytes());
    return mistakes > 0 || live_bytes() > 0;
}
