/* Test TARN_SIM, the controls, and faults: a failed call has changed nothing. */
#include "driver.h"
#include "sim/core/options.h"

TEST(options_that_do_not_parse_report_the_allowed_values)
{
    static const char *const wrong[] = {
        "memory=lots",
        "memory=1KiB",
        "memory=9TiB",
        "memory=99999999999999999999",
        "devices=0",
        "devices=17",
        "fail=nth:0",
        "fail=17",
        "seed=",
        "nonsense=1",
        "devices=2;memory=1GiB",
        "memory=18446744073709551615GiB",
        "mode=lazy",
        "latency=5",
        "latency=5-4",
        "fail=call:cuNothing",
        "fail=call:cuMemAlloc:0",
        "fail=one-in:0",
        "slow=cuMemAlloc",
        "host-memory=1",
        "dead=maybe",
        "races=1",
        "lost-code=0",
        "attribute=19",
        "attribute=0:1",
        "attribute=19:many",
    };
    use_device(0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQUAL(1, driver.configure(wrong[i]));
        CHECK(strstr(driver.error(), "devices="));
        CHECK(strstr(driver.error(), "memory="));
        CHECK(strstr(driver.error(), "fail=nth:N"));
        CHECK(strstr(driver.error(), "seed=N"));
    }
    CHECK_EQUAL(0, driver.configure("memory=3GiB,seed=7,"));
    CHECK_TEXT("", driver.error());
    CHECK_EQUAL(0, driver.configure(NULL));
}

/* The page and the table agree: every option has its row, with its default. */
TEST(options_are_in_the_documentation)
{
    static const char *const rows[] = {
#define X(name, syntax, parse, standard, meaning) "| `" #name "` |",
        SIM_OPTIONS(X)
#undef X
    };
    static char page[20000];
    FILE *file = fopen(TARN_SOURCE_DIR "/docs/sim.md", "r");

    CHECK(file != NULL);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(strstr(page, rows[i]));
}

TEST(options_change_the_value_of_an_attribute)
{
    enum { CAN_MAP_HOST_MEMORY = 19 };
    int before, value;

    use_device(0);
    CU(cuDeviceGetAttribute(&before, CAN_MAP_HOST_MEMORY, 0));
    CHECK_EQUAL(0, driver.configure("attribute=19:0"));
    CU(cuDeviceGetAttribute(&value, CAN_MAP_HOST_MEMORY, 0));
    CHECK_EQUAL(0, value);
    CHECK_EQUAL(0, driver.configure(NULL));
    CU(cuDeviceGetAttribute(&value, CAN_MAP_HOST_MEMORY, 0));
    CHECK_EQUAL(before, value);
    CHECK_EQUAL(1, value);
    CU_IS(CUDA_ERROR_INVALID_VALUE,
          cuDeviceGetAttribute(&value, 0, 0)); /* there is none */
}

TEST(options_that_do_not_parse_change_nothing)
{
    size_t total, again, free_bytes;

    use_device(0);
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    CHECK_EQUAL(1, driver.configure("memory=1GiB,seed=x"));
    CU(cuMemGetInfo_v2(&free_bytes, &again));
    CHECK(total == again);
}

TEST(options_do_not_change_the_number_of_devices_after_init)
{
    int count, again;

    use_device(0);
    CU(cuDeviceGetCount(&count));
    CHECK_EQUAL(1, driver.configure(count == 3 ? "devices=4" : "devices=3"));
    CHECK(strstr(driver.error(), "cuInit created"));
    CU(cuDeviceGetCount(&again));
    CHECK_EQUAL(count, again);
}

TEST(options_nth_call_fails_once_and_is_counted)
{
    CUdeviceptr address = 77;
    size_t free_bytes, total;

    use_device(0);
    CHECK_EQUAL(0, driver.configure("fail=nth:2"));
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    CU_IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&address, 100));
    CHECK(address == 0);
    CU(cuMemAlloc_v2(&address, 100));
    CHECK(driver.faults() == 1);
    CHECK(driver.calls() == 3);
    CHECK_EQUAL(0, driver.configure("fail=nth:1"));
    CHECK(driver.calls() == 0);
    CU_IS(CUDA_ERROR_UNKNOWN, cuMemFree_v2(address));
    CU(cuMemFree_v2(address));
    CHECK_EQUAL(0, driver.configure(NULL));
    CHECK(driver.faults() == 0);
}

TEST(options_calls_that_cannot_fail_are_not_counted)
{
    const char *text;
    void *function;
    int version;

    use_device(0);
    CHECK_EQUAL(0, driver.configure(NULL));
    CU(cuGetErrorName(CUDA_SUCCESS, &text));
    CU(cuGetErrorString(CUDA_ERROR_UNKNOWN, &text));
    CU(cuDriverGetVersion(&version));
    CU(cuGetProcAddress_v2("cuInit", &function, 12000, 0, NULL));
    CHECK(driver.calls() == 0);
}

/* Whatever call of the scenario fails, the rest can be undone and nothing leaks. */
static void scenario(void)
{
    CUdeviceptr memory = 0, pooled = 0;
    CUstream stream = NULL;
    CUevent event = NULL;
    void *pinned = NULL;

    driver.cuMemAlloc_v2(&memory, 1000);
    driver.cuStreamCreate(&stream, 0);
    driver.cuEventCreate(&event, 0);
    driver.cuMemHostAlloc(&pinned, 1000, 0);
    if (stream)
        driver.cuMemAllocAsync(&pooled, 5000, stream);
    if (memory && pinned && stream)
        driver.cuMemcpyHtoDAsync_v2(memory, pinned, 1000, stream);
    if (event && stream)
        driver.cuEventRecord(event, stream);
    for (int i = 0; i < 2 && pooled; i++)
        if (driver.cuMemFreeAsync(pooled, stream) == CUDA_SUCCESS)
            pooled = 0;
    for (int i = 0; i < 2 && pinned; i++)
        if (driver.cuMemFreeHost(pinned) == CUDA_SUCCESS)
            pinned = NULL;
    for (int i = 0; i < 2 && memory; i++)
        if (driver.cuMemFree_v2(memory) == CUDA_SUCCESS)
            memory = 0;
    for (int i = 0; i < 2 && event; i++)
        if (driver.cuEventDestroy_v2(event) == CUDA_SUCCESS)
            event = NULL;
    for (int i = 0; i < 2 && stream; i++)
        if (driver.cuStreamDestroy_v2(stream) == CUDA_SUCCESS)
            stream = NULL;
    CHECK(!memory && !pooled && !pinned && !event && !stream);
}

TEST(options_every_call_of_a_scenario_can_fail_and_nothing_leaks)
{
    unsigned long long live = driver.live_bytes();
    unsigned nth = 0;

    use_device(0);
    do {
        char text[32];
        snprintf(text, sizeof text, "fail=nth:%u", ++nth);
        CHECK_EQUAL(0, driver.configure(text));
        scenario();
        CHECK(driver.live_bytes() == live);
    } while (driver.faults() > 0);
    CHECK(nth > 10);
    CHECK_EQUAL(0, driver.configure(NULL));
}
