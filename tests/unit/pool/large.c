/* Test pools on devices of 512 GiB and 8 TiB, which have more allocation quanta than 32
 * bits can count. */
#include "pools.h"
#include "pool/pool.h"

#define GIB ((size_t)1 << 30)
#define TIB ((size_t)1 << 40)

enum { BLOCKS_MAX = 64 };

static struct {
    tarn_resource *pool;
    tarn_device_ptr blocks[BLOCKS_MAX];
    size_t count, bytes; /* of each block */
} large;

/* The simulator reserves addresses when the driver is opened. Without exported handles it
 * needs no descriptor for each handle. */
__attribute__((constructor)) static void be_large(void)
{
    setenv("TARN_SIM", "devices=1,memory=8TiB,attribute=103:0", 1);
}

static void use_large_device(const char *options)
{
    sim_configure(options);
    use_driver(0);
}

/* Write the first and the last byte of each block, and read all of them afterwards. */
static void check_contents(void)
{
    for (size_t i = 0; i < large.count; i++) {
        char *memory = (char *)(uintptr_t)large.blocks[i];
        memory[0] = memory[large.bytes - 1] = (char)(i + 1);
    }
    for (size_t i = 0; i < large.count; i++) {
        const char *memory = (const char *)(uintptr_t)large.blocks[i];
        CHECK_EQUAL(i + 1, memory[0]);
        CHECK_EQUAL(i + 1, memory[large.bytes - 1]);
    }
}

/* Allocate blocks until 90 % of `device_bytes` are live. */
static void fill(size_t device_bytes)
{
    for (large.count = 0; (large.count + 1) * large.bytes <= device_bytes / 10 * 9;
         large.count++)
        large.blocks[large.count] = take(large.pool, large.bytes, NULL);
    CHECK_EQUAL(large.count, statistics(large.pool).live_blocks);
    CHECK_EQUAL(large.count * large.bytes, statistics(large.pool).live);
    CHECK(statistics(large.pool).reserved <= device_bytes);
    check_contents();
    adds_up(large.pool);
}

static void put_every(size_t step)
{
    for (size_t i = 0; i < large.count; i += step)
        put(large.pool, large.blocks[i], large.bytes, NULL);
    adds_up(large.pool);
}

static void use_all_of(size_t device_bytes, size_t block_bytes, size_t initial_bytes)
{
    tarn_pool_options options = {.size = sizeof options, .initial_bytes = initial_bytes};
    size_t released = 0;

    large.pool = new_pool(&options);
    large.bytes = block_bytes;
    CHECK(statistics(large.pool).reserved >= initial_bytes);
    CHECK_EQUAL(statistics(large.pool).reserved, statistics(large.pool).cached);
    fill(device_bytes);
    put_every(2);
    uint64_t reserved = statistics(large.pool).reserved;
    for (size_t i = 0; i < large.count; i += 2)
        large.blocks[i] = take(large.pool, block_bytes, NULL);
    CHECK_EQUAL(reserved, statistics(large.pool).reserved);
    check_contents();
    put_every(1);
    CHECK_OK(tarn_resource_trim(large.pool, 0, &released));
    CHECK_EQUAL(reserved, released);
    CHECK_EQUAL(0, statistics(large.pool).reserved);
    fill(device_bytes);
    put_every(1);
    end_pool(large.pool);
}

TEST(pool_on_a_device_of_512_gib_serves_all_of_it)
{
    if (!on_sim())
        skip();
    use_large_device("memory=512GiB,attribute=103:0");
    use_all_of(512 * GIB, 30 * GIB, 0);
    use_all_of(512 * GIB, 200 * GIB, 100 * GIB);
}

TEST(pool_on_a_device_of_8_tib_serves_all_of_it)
{
    if (!on_sim())
        skip();
    use_large_device("memory=8TiB,attribute=103:0");
    use_all_of(8 * TIB, 300 * GIB, 0);
    use_all_of(8 * TIB, 900 * GIB, 7 * TIB);
}

/* New memory follows the memory that the pool has, so that its page table is short. */
TEST(pool_on_a_large_device_uses_its_addresses_in_order)
{
    if (!on_sim())
        skip();
    use_large_device("memory=8TiB,attribute=103:0");
    large.pool = new_pool(NULL);
    large.bytes = 300 * GIB;
    fill(8 * TIB);
    for (size_t i = 1; i < large.count; i++) {
        CHECK(large.blocks[i] > large.blocks[i - 1]);
        CHECK(large.blocks[i] - large.blocks[i - 1] < TIB);
    }
    put_every(1);
    end_pool(large.pool);
}

/* Free memory lies between live blocks, and half of it moves for each request. */
TEST(pool_on_a_large_device_moves_and_suspends_its_memory)
{
    tarn_device_ptr longer[8];
    size_t count = 0;

    if (!on_sim())
        skip();
    use_large_device("memory=8TiB,attribute=103:0");
    large.pool = new_pool(NULL);
    large.bytes = 300 * GIB;
    fill(8 * TIB);
    put_every(2);
    uint64_t reserved = statistics(large.pool).reserved;
    for (; count < large.count / 4; count++) {
        longer[count] = take(large.pool, 600 * GIB, NULL);
        char *memory = (char *)(uintptr_t)longer[count];
        memory[0] = memory[600 * GIB - 1] = 77;
    }
    CHECK_EQUAL(reserved, statistics(large.pool).reserved);
    CHECK(statistics(large.pool).moves >= count);
    for (size_t i = 1; i < large.count; i += 2)
        CHECK_EQUAL(i + 1, *(const char *)(uintptr_t)large.blocks[i]);
    while (count > 0)
        put(large.pool, longer[--count], 600 * GIB, NULL);
    CHECK_OK(tarn_pool_suspend(large.pool, TARN_POOL_SUSPEND_DISCARD));
    CHECK_EQUAL(reserved, statistics(large.pool).suspended);
    CHECK_OK(tarn_pool_resume(large.pool));
    for (size_t i = 1; i < large.count; i += 2)
        put(large.pool, large.blocks[i], large.bytes, NULL);
    adds_up(large.pool);
    end_pool(large.pool);
}

/* Fill two thirds of a device of 40 GiB, and keep every third block. What the kept blocks
 * pin is less than their own size, so a block of half of the device fits. */
static void assemble_half(size_t bytes, const tarn_stream *streams, size_t stream_count)
{
    enum { COUNT_MAX = 2048 };
    static tarn_device_ptr blocks[COUNT_MAX];
    size_t count = 40 * GIB / 3 * 2 / bytes;

    large.pool = new_pool(NULL);
    CHECK(count <= COUNT_MAX);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = take(large.pool, bytes, streams[i % stream_count]);
        char *memory = (char *)(uintptr_t)blocks[i];
        memory[0] = memory[bytes - 1] = (char)(i + 1);
    }
    for (size_t i = 0; i < count; i++)
        if (i % 3 != 0)
            put(large.pool, blocks[i], bytes, streams[i % stream_count]);
    tarn_device_ptr half = take(large.pool, 20 * GIB, streams[0]);
    char *memory = (char *)(uintptr_t)half;
    memory[0] = memory[20 * GIB - 1] = 77;
    for (size_t i = 0; i < count; i += 3) {
        memory = (char *)(uintptr_t)blocks[i];
        CHECK(memory[0] == (char)(i + 1) && memory[bytes - 1] == (char)(i + 1));
        put(large.pool, blocks[i], bytes, streams[i % stream_count]);
    }
    put(large.pool, half, 20 * GIB, streams[0]);
    adds_up(large.pool);
    end_pool(large.pool);
}

TEST(pool_assembles_half_of_the_device_between_blocks_that_stay)
{
    enum { STREAMS = 4 };
    const tarn_stream none = TARN_STREAM_NONE;
    tarn_stream streams[STREAMS];

    if (!on_sim())
        skip();
    use_large_device("memory=40GiB,attribute=103:0");
    assemble_half(18 * 1000 * 1000, &none, 1); /* docs/out-of-memory.md */
    for (size_t i = 0; i < STREAMS; i++)
        streams[i] = new_stream();
    assemble_half(18 * 1000 * 1000, streams, STREAMS);
    assemble_half(30 * 1000 * 1000, streams, STREAMS);
    for (size_t i = 0; i < STREAMS; i++)
        CU(cuStreamDestroy_v2(streams[i]));
}

/* Most of a program is live, and its temporary arrays are freed without a stream. Small
 * arrays wait for each other, and large ones for a 512th of the device. */
static void use_temporary_arrays(size_t bytes, size_t waits)
{
    enum { LIVE = 8, TEMPORARY = 64 };
    tarn_device_ptr live[LIVE];

    large.pool = new_pool(NULL);
    for (size_t i = 0; i < LIVE; i++)
        live[i] = take(large.pool, 300 * MIB, TARN_STREAM_NONE);
    for (int i = 0; i < TEMPORARY; i++) {
        tarn_device_ptr array = take(large.pool, bytes, TARN_STREAM_NONE);
        put(large.pool, array, bytes, TARN_STREAM_NONE);
    }
    CHECK(statistics(large.pool).peak_reserved <= (LIVE * 300 * MIB + bytes) / 10 * 13);
    CHECK(statistics(large.pool).device_synchronizations <= waits);
    for (size_t i = 0; i < LIVE; i++)
        put(large.pool, live[i], 300 * MIB, TARN_STREAM_NONE);
    adds_up(large.pool);
    end_pool(large.pool);
}

TEST(pool_on_a_large_device_defers_little_of_what_is_freed_without_a_stream)
{
    if (!on_sim())
        skip();
    use_large_device("memory=140GiB,attribute=103:0");
    use_temporary_arrays(300 * MIB, 64);
    use_temporary_arrays(30 * MIB, 8);
    use_temporary_arrays(MIB, 1);
}

TEST(segments_of_a_large_device_are_at_most_1_tib)
{
    tarn_pool_options options = {
        .size = sizeof options, .initial_bytes = GIB, .growth_bytes = 3 * TIB};
    tarn_resource *upstream, *pool = NULL;

    if (!on_sim())
        skip();
    use_large_device("memory=8TiB,attribute=103:0");
    CHECK_OK(tarn_cuda_create(0, &upstream));
    CHECK_OK(tarn_pool_create(0, upstream, &options, &pool));
    CHECK_EQUAL(TIB, statistics(pool).reserved);
    tarn_device_ptr block = take(pool, 900 * GIB, NULL),
                    other = take(pool, TIB / 2, NULL);
    CHECK_EQUAL(2 * TIB, statistics(pool).reserved);
    put(pool, block, 900 * GIB, NULL);
    put(pool, other, TIB / 2, NULL);
    end_pool(pool);
    options.initial_bytes = 3 * TIB;
    options.growth_bytes = 0;
    CHECK_OK(tarn_pool_create(0, upstream, &options, &pool));
    CHECK(statistics(pool).reserved >= 3 * TIB);
    adds_up(pool);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(upstream));
}

TEST(largest_block_is_a_quantum_less_than_1_tib)
{
    tarn_device_ptr block = 77;

    if (!on_sim())
        skip();
    use_large_device("memory=8TiB,attribute=103:0");
    tarn_resource *pool = new_pool(NULL);
    put(pool, take(pool, TIB - TARN_POOL_QUANTUM, NULL), TIB - TARN_POOL_QUANTUM, NULL);
    CHECK_STATUS(TARN_OUT_OF_MEMORY, tarn_resource_allocate(pool, TIB, 0, NULL, &block));
    CHECK_MESSAGE("1099511627776 bytes exceed the largest block of 1099511627264 bytes");
    CHECK_EQUAL(77, block);
    end_pool(pool);
}
