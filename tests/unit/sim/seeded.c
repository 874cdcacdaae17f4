/* Test the seeded mode: late, in many orders, reproducible by the seed, and never in an
 * order that the API forbids. */
#include "driver.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { STREAMS = 4, NOTES = 64 };

/* The work that ran, in the order in which it ran. */
static struct {
    char text[NOTES + 1];
    unsigned count;
} notes;

static void note(void *letter)
{
    notes.text[notes.count++] = (char)(uintptr_t)letter;
}

static void queue_note(CUstream stream, char letter)
{
    CU(cuLaunchHostFunc(stream, note, (void *)(uintptr_t)letter));
}

static void start(unsigned seed, const char *more)
{
    char options[96];

    memset(&notes, 0, sizeof notes);
    snprintf(options, sizeof options, "mode=seeded,seed=%u,%s", seed, more);
    CHECK_EQUAL(0, driver.configure(options));
}

/* Eight notes on each of four streams; the second waits for the first one's fourth. */
static void run_program(unsigned seed, char out[NOTES + 1])
{
    CUstream streams[STREAMS];
    CUevent event;

    start(seed, "");
    CU(cuEventCreate(&event, 0));
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < STREAMS; i++)
        for (int k = 0; k < 8; k++) {
            if (i == 1 && k == 0)
                CU(cuStreamWaitEvent(streams[1], event, 0));
            queue_note(streams[i], (char)('A' + 8 * i + k));
            if (i == 0 && k == 3)
                CU(cuEventRecord(event, streams[0]));
        }
    CU(cuCtxSynchronize());
    for (int i = 0; i < STREAMS; i++)
        CU(cuStreamDestroy_v2(streams[i]));
    CU(cuEventDestroy_v2(event));
    memcpy(out, notes.text, sizeof notes.text);
    CHECK_EQUAL(0, driver.configure(NULL));
}

static size_t place_of(const char *text, char letter)
{
    const char *place = strchr(text, letter);

    CHECK(place != NULL);
    return (size_t)(place - text);
}

TEST(seeded_a_seed_repeats_its_run_and_other_seeds_differ)
{
    char first[NOTES + 1], again[NOTES + 1];
    unsigned different = 0;

    use_device(0);
    run_program(1, first);
    for (unsigned seed = 1; seed <= 20; seed++) {
        char run[NOTES + 1];
        run_program(seed, run);
        run_program(seed, again);
        CHECK_TEXT(run, again);
        different += strcmp(first, run) != 0;
    }
    CHECK(different > 10);
}

TEST(seeded_no_seed_breaks_the_order_of_a_stream_or_of_a_wait)
{
    char run[NOTES + 1];

    use_device(0);
    for (unsigned seed = 0; seed < 50; seed++) {
        run_program(seed, run);
        CHECK_EQUAL(STREAMS * 8, strlen(run));
        for (char letter = 'A'; letter < 'A' + STREAMS * 8 - 1; letter++)
            if ((letter - 'A') % 8 != 7)
                CHECK(place_of(run, letter) < place_of(run, (char)(letter + 1)));
        CHECK(place_of(run, 'D') < place_of(run, 'I'));
    }
}

TEST(seeded_the_order_of_this_seed_is_known)
{
    char run[NOTES + 1];

    use_device(0);
    run_program(7, run); /* on any machine: change it only with the scheduler */
    CHECK_TEXT("AYBQRZCDS[TEFIU\\GV]H^JKWL_M`XNOP", run);
}

TEST(seeded_a_stream_runs_before_or_after_another_by_the_seed)
{
    CUstream first, second;
    unsigned swapped = 0;

    use_device(0);
    for (unsigned seed = 0; seed < 40; seed++) {
        start(seed, "");
        CU(cuStreamCreate(&first, 0));
        CU(cuStreamCreate(&second, 0));
        queue_note(first, 'A');
        queue_note(second, 'B');
        CU(cuCtxSynchronize());
        swapped += notes.text[0] == 'B';
        CU(cuStreamDestroy_v2(first));
        CU(cuStreamDestroy_v2(second));
    }
    CHECK(swapped > 5 && swapped < 35);
    CHECK_EQUAL(0, driver.configure(NULL));
}

TEST(seeded_the_default_stream_synchronizes_only_with_blocking_streams)
{
    CUstream blocking, running;
    unsigned before = 0;

    use_device(0);
    for (unsigned seed = 0; seed < 40; seed++) {
        start(seed, "");
        CU(cuStreamCreate(&blocking, 0));
        CU(cuStreamCreate(&running, CU_STREAM_NON_BLOCKING));
        queue_note(blocking, 'A');
        queue_note(NULL, 'B');
        queue_note(blocking, 'C');
        queue_note(running, 'x');
        CU(cuCtxSynchronize());
        CHECK(place_of(notes.text, 'A') < place_of(notes.text, 'B'));
        CHECK(place_of(notes.text, 'B') < place_of(notes.text, 'C'));
        before += place_of(notes.text, 'x') < place_of(notes.text, 'C');
        CU(cuStreamDestroy_v2(blocking));
        CU(cuStreamDestroy_v2(running));
    }
    CHECK(before > 0 && before < 40);
    CHECK_EQUAL(0, driver.configure(NULL));
}

TEST(seeded_nothing_runs_before_simulated_time_passes)
{
    CUstream stream;

    use_device(0);
    start(8, "latency=1000000-1000000");
    CU(cuStreamCreate(&stream, 0));
    queue_note(stream, 'A');
    CHECK_EQUAL(0, notes.count);
    CU(cuStreamSynchronize(stream));
    CHECK_EQUAL(1, notes.count);
    CU(cuStreamDestroy_v2(stream));
    CHECK_EQUAL(0, driver.configure(NULL));
}

TEST(seeded_loops_of_queries_end)
{
    CUstream stream, other;
    CUevent event;

    use_device(0);
    for (unsigned seed = 0; seed < 20; seed++) {
        unsigned queries = 0;
        start(seed, "latency=1000-100000000");
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        CU(cuEventCreate(&event, 0));
        for (int i = 0; i < 10; i++) {
            queue_note(stream, 'A');
            queue_note(other, 'B');
        }
        CU(cuEventRecord(event, stream));
        while (driver.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            CHECK(++queries < 100);
        while (driver.cuStreamQuery(other) == CUDA_ERROR_NOT_READY)
            CHECK(++queries < 100);
        CHECK_EQUAL(20, notes.count);
        CU(cuEventDestroy_v2(event));
        CU(cuStreamDestroy_v2(stream));
        CU(cuStreamDestroy_v2(other));
    }
    CHECK_EQUAL(0, driver.configure(NULL));
}

TEST(seeded_events_measure_simulated_time)
{
    CUevent before, after;
    CUdeviceptr address;
    float milliseconds;

    use_device(0);
    start(0, "latency=1000000-1000000");
    CU(cuMemAlloc_v2(&address, 100));
    CU(cuEventCreate(&before, 0));
    CU(cuEventCreate(&after, 0));
    CU(cuEventRecord(before, NULL));
    CU(cuMemsetD8Async(address, 1, 100, NULL));
    CU(cuEventRecord(after, NULL));
    CU(cuCtxSynchronize());
    CU(cuEventElapsedTime(&milliseconds, before, after));
    CHECK(milliseconds >= 1.9f); /* the memset's millisecond, and the record's */
    CU(cuEventDestroy_v2(before));
    CU(cuEventDestroy_v2(after));
    CU(cuMemFree_v2(address));
    CHECK_EQUAL(0, driver.configure(NULL));
}

static unsigned scenarios;

static void write_and_read(void)
{
    CUdeviceptr address;
    unsigned char byte = 0;
    CUstream stream;

    CU(cuStreamCreate(&stream, 0));
    CU(cuMemAllocAsync(&address, 100, stream));
    CU(cuMemsetD8Async(address, 7, 100, stream));
    CU(cuMemcpyDtoH_v2(&byte, address, 1)); /* the default stream waits for this one */
    CHECK_EQUAL(7, byte);
    CU(cuMemFreeAsync(address, stream));
    CU(cuStreamDestroy_v2(stream));
    scenarios++;
}

TEST(seeded_the_test_helper_runs_all_seeds)
{
    use_device(0);
    seeds(20, write_and_read);
    CHECK_EQUAL(20, scenarios);
    CHECK(sim_races() == 0 && sim_misuses() == 0);
    CHECK_TEXT("", sim_race());
}

/* --- host functions that block --- */

static atomic_bool is_open;

static void wait_until_open(void *unused)
{
    (void)unused;
    while (!atomic_load(&is_open))
        sched_yield();
}

TEST(seeded_a_host_function_that_blocks_holds_only_its_stream)
{
    CUstream stream, other;

    use_device(0);
    start(3, "patience=5");
    atomic_store(&is_open, false);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuLaunchHostFunc(stream, wait_until_open, NULL));
    queue_note(stream, 'A');
    queue_note(other, 'B');
    CU(cuStreamSynchronize(other));
    CHECK_TEXT("B", notes.text);
    CU_IS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    atomic_store(&is_open, true);
    CU(cuStreamSynchronize(stream));
    CHECK_TEXT("BA", notes.text);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
    CHECK_EQUAL(0, driver.configure(NULL));
}

/* --- several threads --- */

enum { THREADS = 4, ROUNDS = 50, WORDS = 256 };

/* Each thread has its own stream: its messages do not depend on the others. */
static void *use_own_stream(void *number)
{
    unsigned words[WORDS], value = (unsigned)(uintptr_t)number;
    CUdeviceptr address;
    CUstream stream;

    use_device(0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < ROUNDS; i++) {
        CU(cuMemAllocAsync(&address, sizeof words, stream));
        CU(cuMemsetD32Async(address, value + i, WORDS, stream));
        CU(cuMemcpyDtoHAsync_v2(words, address, sizeof words, stream));
        for (int k = 0; k < WORDS; k++)
            CHECK(words[k] == value + i);
        CU(cuMemFreeAsync(address, stream));
        CU(cuStreamSynchronize(stream));
    }
    CU(cuStreamDestroy_v2(stream));
    return NULL;
}

TEST(seeded_threads_take_turns_and_lose_nothing)
{
    pthread_t threads[THREADS];

    use_device(0);
    start(11, "races=on");
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQUAL(
            0, pthread_create(&threads[i], NULL, use_own_stream, (void *)(i * 1000)));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    CHECK(driver.races() == 0);
    CHECK_EQUAL(0, driver.configure(NULL));
}
