/* Test binary logs that are rings: after many rounds the checkpoint and the rows behind it
 * have exactly the blocks that live. */
#define _GNU_SOURCE
#include "decoder.h"
#include "file.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#ifdef __SANITIZE_THREAD__
enum { SIZES = 4, ROUNDS = 1 };
#else
enum { SIZES = 30, ROUNDS = 3 };
#endif
enum { RING_BYTES = 1 << 20, THREADS = 4, BLOCKS = 200 };

static tarn_trace_writer *open_ring(const char *path)
{
    const tarn_trace_writer_options options = {
        .size = sizeof options, .format = TARN_TRACE_BINARY, .ring_bytes = RING_BYTES};
    tarn_trace_writer *writer;

    CHECK_OK(tarn_trace_writer_open_with(path, &options, &writer));
    return writer;
}

/* --- what lives, from a log --- */

struct live {
    uint64_t address, bytes, time_ns;
};

static int by_address(const void *one, const void *two)
{
    const struct live *a = one, *b = two;

    return a->address < b->address ? -1 : a->address > b->address;
}

static struct live *find(struct live *blocks, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (blocks[i].address == address)
            return &blocks[i];
    return NULL;
}

/* Replay the log from its checkpoint on. Every free has its block, and no block comes
 * twice. Returns the number of blocks. */
static size_t replay(const struct decoded *log, struct live *blocks, size_t capacity)
{
    size_t count = 0;

    for (size_t i = 0; i < log->live_count; i++) {
        const struct decoded_row *row = &log->live[i];
        CHECK(count < capacity && row->time_ns < log->checkpoint_ns);
        CHECK(!find(blocks, count, row->address));
        blocks[count++] = (struct live){row->address, row->bytes, row->time_ns};
    }
    for (size_t i = 0; i < log->count; i++) {
        const struct decoded_row *row = &log->rows[i];
        struct live *known = find(blocks, count, row->address);
        if (row->action == TARN_ACTION_ALLOCATE) {
            CHECK(!known && count < capacity);
            blocks[count++] = (struct live){row->address, row->bytes, row->time_ns};
        } else {
            CHECK(known != NULL);
            *known = blocks[--count];
        }
    }
    qsort(blocks, count, sizeof *blocks, by_address);
    return count;
}

/* --- threads that allocate and free each other's blocks --- */

static struct {
    tarn_trace_writer *writer;
    pthread_mutex_t locks[BLOCKS];
    struct live blocks[BLOCKS]; /* address 0: not allocated */
    atomic_uint_least64_t clock;
    unsigned rounds;
} shared = {.clock = 1};

/* In steps of 2: a row that comes late gets a time in between. */
static uint64_t tick(void)
{
    return atomic_fetch_add(&shared.clock, 2);
}

/* Allocate or free a block; the lock is that of the address, as an allocator's is. The row
 * of a free is written after another thread could have the address. */
static bool turn(unsigned index)
{
    struct live *block = &shared.blocks[index];
    tarn_trace_event event = {.stream = 3};

    pthread_mutex_lock(&shared.locks[index]);
    if (block->address) {
        event.action = TARN_ACTION_FREE;
        event.address = block->address;
        event.start_ns = tick();
        event.bytes = block->bytes;
        *block = (struct live){0};
        pthread_mutex_unlock(&shared.locks[index]);
        event.end_ns = tick();
        return tarn_trace_write(shared.writer, &event) == TARN_OK;
    }
    event.action = TARN_ACTION_ALLOCATE;
    event.address = (uint64_t)(index + 1) << 12;
    event.bytes = tick();
    event.end_ns = tick();
    bool written = tarn_trace_write(shared.writer, &event) == TARN_OK;
    *block = (struct live){event.address, event.bytes, event.end_ns};
    pthread_mutex_unlock(&shared.locks[index]);
    return written;
}

static void *run(void *data)
{
    uint64_t state = (uint64_t)(uintptr_t)data;

    for (unsigned i = 0; i < shared.rounds; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (!turn((unsigned)(state >> 33) % BLOCKS))
            return data;
    }
    return NULL;
}

static void begin(const char *path, unsigned rounds)
{
    shared.writer = open_ring(path);
    shared.rounds = rounds;
    for (int i = 0; i < BLOCKS; i++) {
        pthread_mutex_init(&shared.locks[i], NULL);
        shared.blocks[i] = (struct live){0};
    }
}

static void check_live(const char *path)
{
    struct live known[BLOCKS], found[BLOCKS];
    size_t count = 0;
    struct decoded log = decode(path);

    for (int i = 0; i < BLOCKS; i++)
        if (shared.blocks[i].address)
            known[count++] = shared.blocks[i];
    CHECK_EQUAL(count, replay(&log, found, BLOCKS));
    for (size_t i = 0; i < count; i++) {
        CHECK_EQUAL(known[i].address, found[i].address);
        CHECK_EQUAL(known[i].bytes, found[i].bytes);
    }
    CHECK(log.checkpoint_ns > 0);
    CHECK(log.count >= 1364); /* not the checkpoint alone */
    CHECK_EQUAL(16, log.ring_chunks);
    CHECK(log.bytes <= RING_BYTES + 4096 + (THREADS + 4 + 2) * 65536);
    decoded_free(&log);
}

TEST(a_ring_of_one_thread_has_the_live_blocks_after_any_number_of_rows)
{
    struct file file = file_new();

    for (unsigned i = 0; i < SIZES; i++) {
        begin(file.path, 40000 + 997 * i);
        CHECK(run((void *)(uintptr_t)(i + 1)) == NULL);
        CHECK_OK(tarn_trace_writer_release(shared.writer));
        check_live(file.path);
    }
    unlink(file.path);
}

TEST(a_ring_of_many_threads_has_the_live_blocks)
{
    struct file file = file_new();
    pthread_t threads[THREADS];

    for (int round = 0; round < ROUNDS; round++) {
        begin(file.path, 100000);
        for (uintptr_t i = 0; i < THREADS; i++)
            CHECK_EQUAL(0, pthread_create(&threads[i], NULL, run, (void *)(i + 7)));
        for (int i = 0; i < THREADS; i++) {
            void *failed;
            CHECK_EQUAL(0, pthread_join(threads[i], &failed));
            CHECK(failed == NULL);
        }
        CHECK_OK(tarn_trace_writer_release(shared.writer));
        check_live(file.path);
    }
    unlink(file.path);
}

/* The chunk of a thread that waits stays in the file, and its old rows are folded. */
static void *wait_long(void *data)
{
    CHECK(turn(0));
    atomic_store((atomic_int *)data, 1);
    while (atomic_load((atomic_int *)data) < 2)
        usleep(1000);
    CHECK(turn(0));
    return NULL;
}

TEST(a_thread_that_waits_does_not_stop_the_ring)
{
    struct file file = file_new();
    atomic_int state = 0;
    pthread_t thread;

    begin(file.path, 100000);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, wait_long, &state));
    while (atomic_load(&state) < 1)
        usleep(1000);
    CHECK(run((void *)1) == NULL);
    atomic_store(&state, 2);
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    CHECK_OK(tarn_trace_writer_release(shared.writer));
    check_live(file.path);
    unlink(file.path);
}

/* A row may be written long after its time. */
TEST(a_row_that_comes_late_counts_in_the_order_of_its_address)
{
    struct file file = file_new();
    tarn_trace_event late_allocation = {
        .action = TARN_ACTION_ALLOCATE, .address = 0xaaaa000, .bytes = 1};
    tarn_trace_event stale_free = {.action = TARN_ACTION_FREE};

    begin(file.path, 100000);
    late_allocation.end_ns = stale_free.start_ns = tick();
    CHECK(run((void *)1) == NULL);
    for (unsigned i = 0; i < BLOCKS; i++) /* all live, and folded */
        if (!shared.blocks[i].address)
            CHECK(turn(i));
    for (unsigned i = 0; i < 60000; i++)
        CHECK(turn(i % 2));
    stale_free.address = shared.blocks[100].address;
    CHECK(stale_free.address != 0);
    CHECK_OK(tarn_trace_write(shared.writer, &late_allocation));
    CHECK_OK(tarn_trace_write(shared.writer, &stale_free));
    CHECK_OK(tarn_trace_writer_release(shared.writer));

    struct live found[BLOCKS + 1];
    struct decoded log = decode(file.path);
    size_t count = replay(&log, found, BLOCKS + 1);
    CHECK_EQUAL(BLOCKS + 1, count);
    CHECK(find(found, count, stale_free.address) != NULL);
    CHECK(find(found, count, late_allocation.address) != NULL);
    decoded_free(&log);
    unlink(file.path);
}

/* More live blocks than the ring has rows. */
TEST(a_checkpoint_may_be_larger_than_the_ring)
{
    enum { MANY = 30000 };
    struct file file = file_new();
    tarn_trace_writer *writer = open_ring(file.path);
    tarn_trace_event event = {.action = TARN_ACTION_ALLOCATE};

    for (uint64_t i = 1; i <= 3 * MANY; i++) {
        event.action = i > MANY && i % 2 ? TARN_ACTION_FREE : TARN_ACTION_ALLOCATE;
        event.address = (i <= MANY ? i : MANY + i / 2) << 8;
        event.start_ns = event.end_ns = i;
        CHECK_OK(tarn_trace_write(writer, &event));
    }
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    CHECK(log.live_count >= MANY && log.live_count <= MANY + 1);
    for (size_t i = 0; i < MANY; i++)
        CHECK(log.live[i].address != 0);
    decoded_free(&log);
    unlink(file.path);
}

/* Definitions stay; pool rows and marks go with their time. */
TEST(a_ring_keeps_its_stacks_and_its_newest_records)
{
    struct file file = file_new();
    tarn_trace_writer *writer = open_ring(file.path);
    tarn_trace_pool_row row = {.size = sizeof row, .cause = TARN_TRACE_POOL_GROWTH};
    tarn_trace_event event = {.action = TARN_ACTION_ALLOCATE, .location = "first.py:1"};

    CHECK_OK(tarn_trace_write(writer, &event));
    for (uint64_t i = 1; i <= 100000; i++) {
        event.action = i % 2 ? TARN_ACTION_ALLOCATE : TARN_ACTION_FREE;
        event.address = (i + 1) / 2 << 8;
        event.start_ns = event.end_ns = row.time_ns = 1000 * i;
        event.location = i > 99990 ? "first.py:1" : NULL;
        CHECK_OK(tarn_trace_write(writer, &event));
        if (i % 10 == 0)
            CHECK_OK(tarn_trace_write_pool(writer, &row));
    }
    CHECK_OK(tarn_trace_writer_release(writer));
    struct decoded log = decode(file.path);
    CHECK(log.rows[log.count - 1].stack != 0);
    CHECK_EQUAL(1, decoded_records(&log, 3));
    CHECK(decoded_records(&log, 4) > 100 && decoded_records(&log, 4) < 10000);
    CHECK(log.bytes <= RING_BYTES + 4096 + 6 * 65536);
    decoded_free(&log);
    unlink(file.path);
}

static void log_until_killed(const char *path)
{
    begin(path, 0x7fffffff);
    run((void *)5);
}

/* Every block that a killed process logged as freed was allocated before. */
TEST(a_ring_of_a_killed_process_is_whole)
{
    struct file file = file_new();
    const char *turns = getenv("TARN_TEST_KILLS");
    int kills = turns ? atoi(turns) : 12;

    for (int i = 0; i < kills; i++) {
        struct live found[BLOCKS];
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            log_until_killed(file.path);
            _exit(1);
        }
        usleep(20000 + 1777 * (unsigned)(i % 37));
        kill(child, SIGKILL);
        CHECK_EQUAL(child, waitpid(child, NULL, 0));
        if (access(file.path, F_OK) != 0 || size_of(file.path) < 4096 + 65536)
            continue; /* it had not begun */
        struct decoded log = decode(file.path);
        CHECK(log.torn <= 1);
        replay(&log, found, BLOCKS); /* checks it */
        decoded_free(&log);
    }
    unlink(file.path);
}
