/* Test the index from addresses to nodes: many blocks, and lookups while other threads
 * change the index. */
#include "pools.h"
#include "colliding_keys.h"
#include "pool/blocks/addresses.h"

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

static tarn__index find(uint64_t address)
{
    tarn__index index = tarn__addresses_find(&addresses, &nodes, address);

    CHECK_EQUAL(index, tarn__addresses_look(&addresses, &nodes, address));
    return index;
}

TEST(address_is_found_from_its_entering_to_its_leaving)
{
    CHECK_EQUAL(0, find(address_of(1)));
    for (size_t i = 1; i < MANY; i++) {
        CHECK(tarn__addresses_reserve(&addresses, &nodes, 1));
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

static size_t longest_chain(void)
{
    const struct tarn__chains *chains = tarn__addresses_chains(&addresses);
    size_t longest = 0;

    for (size_t i = 0; i < addresses.room; i++) {
        size_t length = 0;
        for (tarn__index at = tarn__addresses_chain_load(&chains->first[i]); at;
             at = tarn__addresses_chain_load(&tarn__node(&nodes, at)->chain))
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

TEST(addresses_that_were_prepared_for_a_known_hash_are_spread)
{
    uint64_t product = 0;

    memset(&addresses, 0, sizeof addresses);
    nodes = (struct tarn__nodes){0};
    for (size_t i = 1; i < MANY; i++) {
        CHECK(tarn__addresses_reserve(&addresses, &nodes, 1));
        indices[i] = new_node(next_colliding_key(&product) << TARN__QUANTUM_SHIFT);
        tarn__addresses_add(&addresses, &nodes, indices[i]);
    }
    CHECK(longest_chain() < TARN__CHAIN_LOOKS);
    tarn__addresses_free(&addresses);
    tarn__nodes_free(&nodes);
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
