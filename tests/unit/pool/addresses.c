/* Test the index from addresses to nodes: many blocks, growth in steps, and look-ups while
 * other threads change the index. */
#include "pools.h"
#include "colliding_keys.h"
#include "pool/blocks/addresses.h"
#include <stdatomic.h>
#include <sys/resource.h>

enum { MANY = 5000, FAR = 1 << 20, LOOPS = 4, ROUNDS = 4000, KEPT = 600 };

static struct tarn__nodes nodes;
static struct tarn__addresses addresses;
static tarn__index indices[MANY];

static uint64_t address_of(size_t i)
{
    return ((uint64_t)1 << 40) + i * (i % 3 ? (uint64_t)TARN__QUANTUM : FAR);
}

static tarn__index new_node(uint64_t address)
{
    CHECK(tarn__nodes_reserve(&nodes, 1));
    tarn__index index = tarn__nodes_take(&nodes);
    tarn__node_set_address(tarn__node(&nodes, index), address);
    return index;
}

static tarn__index look(uint64_t address)
{
    tarn__index index = tarn__addresses_look(&addresses, &nodes, address);

    return index ? index : tarn__addresses_look_in_older(&addresses, &nodes, address);
}

static tarn__index find(uint64_t address)
{
    tarn__index index = tarn__addresses_find(&addresses, &nodes, address);

    CHECK_EQUAL(index, look(address));
    return index;
}

TEST(address_is_found_from_its_entering_to_its_leaving)
{
    CHECK_EQUAL(0, find(address_of(1)));
    for (size_t i = 1; i < MANY; i++) {
        CHECK(tarn__addresses_reserve(&addresses, &nodes));
        indices[i] = new_node(address_of(i));
        CHECK_EQUAL(0, find(address_of(i)));
        tarn__addresses_add(&addresses, &nodes, indices[i]);
    }
    for (size_t i = 1; i < MANY; i++)
        CHECK_EQUAL(indices[i], find(address_of(i)));
    for (size_t i = 1; i < MANY; i += 2) {
        tarn__index by = new_node(address_of(i));
        tarn__addresses_replace(&addresses, &nodes, indices[i], by);
        CHECK_EQUAL(by, find(address_of(i)));
        indices[i] = by;
    }
    for (size_t i = 1; i < MANY; i += 3) {
        tarn__addresses_remove(&addresses, &nodes, indices[i]);
        indices[i] = 0;
    }
    for (size_t i = 1; i < MANY; i++)
        CHECK_EQUAL(indices[i], find(address_of(i)));
    CHECK_EQUAL(0, find(address_of(MANY) + TARN__QUANTUM));
    tarn__addresses_free(&addresses);
    tarn__nodes_free(&nodes);
}

static void begin(void)
{
    addresses = (struct tarn__addresses){.count = 0};
    nodes = (struct tarn__nodes){0};
}

static void end(void)
{
    tarn__addresses_free(&addresses);
    tarn__nodes_free(&nodes);
}

static void add(size_t i)
{
    CHECK(tarn__addresses_reserve(&addresses, &nodes));
    indices[i] = new_node(address_of(i));
    tarn__addresses_add(&addresses, &nodes, indices[i]);
}

/* A table is moving while `room` is 0. */
static bool is_moving(void)
{
    return addresses.room == 0 && addresses.count > 0;
}

/* Add until the table moves; returns the number of blocks. */
static size_t add_until_moving(void)
{
    size_t count = 1;

    while (!is_moving())
        add(count++);
    return count;
}

TEST(address_is_found_at_every_step_of_growth)
{
    size_t steps = 0;

    begin();
    for (size_t i = 1; i < MANY; i++) {
        add(i);
        steps += is_moving();
        for (size_t j = i % 7 + 1; j <= i; j += is_moving() ? 37 : 997)
            CHECK_EQUAL(indices[j], find(address_of(j)));
    }
    CHECK(steps > MANY / 8); /* a step moves a few chains */
    CHECK_EQUAL(0, find(address_of(MANY)));
    end();
}

/* Most chains are not moved yet when a block there leaves. */
TEST(block_can_leave_and_be_replaced_before_its_chain_is_moved)
{
    begin();
    size_t count = add_until_moving();
    for (size_t i = 1; i < count; i += 3) {
        tarn__addresses_remove(&addresses, &nodes, indices[i]);
        indices[i] = 0;
        CHECK_EQUAL(0, find(address_of(i)));
    }
    for (size_t i = 2; i < count; i += 3) {
        tarn__index by = new_node(address_of(i));
        tarn__addresses_replace(&addresses, &nodes, indices[i], by);
        indices[i] = by;
        CHECK_EQUAL(by, find(address_of(i)));
    }
    CHECK(is_moving());
    for (size_t i = 1; i < count; i++)
        CHECK_EQUAL(indices[i], find(address_of(i)));
    while (is_moving())
        CHECK(tarn__addresses_reserve(&addresses, &nodes));
    for (size_t i = 1; i < count; i++)
        CHECK_EQUAL(indices[i], find(address_of(i)));
    end();
}

/* The system provides no more addresses to this process. */
TEST(blocks_are_entered_and_found_where_the_table_cannot_grow)
{
    struct rlimit before, none;
    size_t i = 1;

    begin();
    CHECK(tarn__nodes_reserve(&nodes, MANY));
    add(i++);
    CHECK_EQUAL(0, getrlimit(RLIMIT_AS, &before));
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = before.rlim_max};
    while (addresses.count < addresses.room)
        add(i++);
    CHECK_EQUAL(0, setrlimit(RLIMIT_AS, &none));
    bool grew = tarn__addresses_reserve(&addresses, &nodes);
    for (; i < MANY / 2; i++) {
        indices[i] = new_node(address_of(i));
        tarn__addresses_add(&addresses, &nodes, indices[i]);
    }
    CHECK_EQUAL(0, setrlimit(RLIMIT_AS, &before));
    CHECK(!grew && !is_moving());
    for (; i < MANY; i++)
        add(i);
    for (i = 1; i < MANY; i++)
        CHECK_EQUAL(indices[i], find(address_of(i)));
    end();
}

/* --- look-ups without the lock while the table grows --- */

enum { LOOKERS = 3, OLD = 1000, TURNS = 6 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool table_is_done;

static tarn__index find_with_lock(uint64_t address)
{
    pthread_mutex_lock(&table_lock);
    tarn__index index = tarn__addresses_find(&addresses, &nodes, address);
    pthread_mutex_unlock(&table_lock);
    return index;
}

/* Look up the first OLD blocks, which stay. The result of a look-up without the lock is
 * right, or it is 0 and the one with the lock is right. */
static void *look_up(void *data)
{
    size_t *wrong = data;

    do
        for (size_t i = 1; i < OLD; i++) {
            tarn__index index = look(address_of(i));
            *wrong += (index ? index : find_with_lock(address_of(i))) != indices[i];
        }
    while (!atomic_load(&table_is_done));
    return NULL;
}

/* Add and remove blocks, which takes the table through two sizes. */
static void come_and_go(void)
{
    for (int turn = 0; turn < TURNS; turn++)
        for (size_t i = OLD; i < MANY; i++) {
            pthread_mutex_lock(&table_lock);
            if (turn % 2 == 0) {
                add(i);
            } else {
                tarn__addresses_remove(&addresses, &nodes, indices[i]);
                tarn__nodes_put(&nodes, indices[i]);
            }
            pthread_mutex_unlock(&table_lock);
        }
}

TEST(look_ups_without_the_lock_go_on_while_the_table_grows)
{
    pthread_t threads[LOOKERS];
    size_t wrong[LOOKERS] = {0};

    begin();
    for (size_t i = 1; i < OLD; i++)
        add(i);
    atomic_store(&table_is_done, false);
    for (int i = 0; i < LOOKERS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, look_up, &wrong[i]));
    come_and_go();
    atomic_store(&table_is_done, true);
    for (int i = 0; i < LOOKERS; i++) {
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
        CHECK_EQUAL(0, wrong[i]);
    }
    CHECK(addresses.room > 4 * OLD);
    end();
}

/* --- hashing --- */

static size_t longest_chain(void)
{
    const struct tarn__chains *chains = tarn__addresses_chains(&addresses);
    size_t longest = 0;

    for (size_t i = 0; i < addresses.room; i++) {
        size_t length = 0;
        for (tarn__index at = tarn__addresses_chain_load(&chains->first[i]);
             at > TARN__CHAIN_END;
             at = tarn__addresses_chain_load(&tarn__node(&nodes, at)->chain))
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

TEST(addresses_that_were_prepared_for_a_known_hash_are_spread)
{
    uint64_t product = 0;

    begin();
    for (size_t i = 1; i < MANY; i++) {
        CHECK(tarn__addresses_reserve(&addresses, &nodes));
        indices[i] = new_node(next_colliding_key(&product) << TARN__QUANTUM_SHIFT);
        tarn__addresses_add(&addresses, &nodes, indices[i]);
    }
    while (is_moving())
        CHECK(tarn__addresses_reserve(&addresses, &nodes));
    CHECK(longest_chain() < TARN__CHAIN_LOOKS);
    end();
}

/* Blocks are allocated and freed, split and coalesced, while the hash chains grow. The
 * free of a live block never fails. */
static tarn_resource *pool;

static void *loop(void *data)
{
    tarn_stream stream = data;
    tarn_device_ptr blocks[KEPT] = {0};
    size_t bytes[KEPT];
    uint64_t state = (uintptr_t)stream;

    for (size_t i = 0; i < ROUNDS + KEPT; i++) {
        size_t at = i % KEPT;
        if (blocks[at] &&
            tarn_resource_deallocate(pool, blocks[at], bytes[at], 0, stream) != TARN_OK)
            abort();
        blocks[at] = 0;
        if (i >= ROUNDS)
            continue;
        state = state * 6364136223846793005u + 1442695040888963407u;
        bytes[at] = TARN__QUANTUM << (state >> 60);
        if (tarn_resource_allocate(pool, bytes[at], 0, stream, &blocks[at]) != TARN_OK)
            abort();
    }
    return NULL;
}

TEST(block_that_is_out_is_found_while_others_come_and_go)
{
    use_driver(0);
    pool = new_pool(NULL);
    tarn_stream streams[LOOPS];
    pthread_t threads[LOOPS];

    for (int i = 0; i < LOOPS; i++) {
        streams[i] = new_stream();
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, loop, streams[i]));
    }
    for (int i = 0; i < LOOPS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, statistics(pool).live);
    adds_up(pool);
    end_pool(pool);
    for (int i = 0; i < LOOPS; i++)
        CU(cuStreamDestroy_v2(streams[i]));
}
