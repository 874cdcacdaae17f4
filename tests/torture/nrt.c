/* Run random operations beside a model of their results: bytes, counts, data.
 *
 * TARN_NRT_OPERATIONS is their number (1,000,000 by default, 10^8 for the long run); each
 * set of debug modes gets a share. Two threads pass blocks to each other.
 */
#include "test.h"
#include "base/random.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { HELD = 512 };

/* The model of one block. */
struct known {
    tarn_meminfo *meminfo; /* NULL: no block; a raw block has `raw` */
    void *raw;
    size_t bytes;
    size_t count; /* references */
    unsigned char fill;
};

/* One thread's blocks, and its counts. */
struct player {
    uint64_t random;
    size_t operations;
    struct known known[HELD];
    uint64_t made, gone; /* MemInfos */
    uint64_t raw_made;   /* raw blocks, including those of varsize */
    uint64_t bytes_made, bytes_gone;
    _Atomic(tarn_meminfo *) *belt; /* shared; blocks of 77 bytes for the other */
};

static void fail_with(const char *what)
{
    fprintf(stderr, "torture-nrt: %s\n", what);
    abort();
}

#define MUST(condition)            \
    do {                           \
        if (!(condition))          \
            fail_with(#condition); \
    } while (0)

static size_t random_size(struct player *player)
{
    uint64_t kind = tarn__random_below(&player->random, 100);

    if (kind < 70)
        return tarn__random_below(&player->random, 300);
    return kind < 97 ? tarn__random_below(&player->random, 2000)
                     : tarn__random_below(&player->random, 40000);
}

/* Only the ends: the middle is libc's memset, and this runs often. */
static void fill(const struct known *known, void *data)
{
    if (known->bytes) {
        ((unsigned char *)data)[0] = known->fill;
        ((unsigned char *)data)[known->bytes / 2] = known->fill;
        ((unsigned char *)data)[known->bytes - 1] = known->fill;
    }
}

static void check(const struct known *known)
{
    const unsigned char *data =
        known->raw ? known->raw : tarn_meminfo_data(known->meminfo);

    if (known->meminfo)
        MUST(tarn_meminfo_count(known->meminfo) == known->count);
    if (known->bytes)
        MUST(data[0] == known->fill && data[known->bytes / 2] == known->fill &&
             data[known->bytes - 1] == known->fill);
}

static void make(struct player *player, struct known *known)
{
    static const unsigned alignments[] = {0, 1, 16, 24, 32, 64, 128, 4096};
    uint64_t kind = tarn__random_below(&player->random, 8);

    *known = (struct known){.bytes = random_size(player),
                            .count = 1,
                            .fill = (unsigned char)tarn__random_next(&player->random)};
    if (kind == 0) {
        known->raw = NRT_Allocate(known->bytes);
        player->raw_made++;
    } else if (kind == 1) {
        known->meminfo = NRT_MemInfo_new_varsize(known->bytes);
        player->raw_made++;
    } else if (kind == 2) {
        known->meminfo = NRT_MemInfo_alloc_safe(known->bytes);
    } else if (kind < 5) {
        known->meminfo = NRT_MemInfo_alloc(known->bytes);
    } else {
        unsigned align = alignments[tarn__random_below(&player->random, 8)];
        known->meminfo = NRT_MemInfo_alloc_aligned(known->bytes, align);
        MUST(!align || (uintptr_t)tarn_meminfo_data(known->meminfo) % align == 0);
    }
    MUST(known->raw || known->meminfo);
    player->made += known->meminfo != NULL;
    player->bytes_made += known->bytes;
    fill(known, known->raw ? known->raw : tarn_meminfo_data(known->meminfo));
}

static void release_one(struct player *player, struct known *known)
{
    check(known);
    if (known->raw) {
        NRT_Free(known->raw);
    } else if (known->count-- > 1) {
        NRT_MemInfo_release(known->meminfo);
        return;
    } else {
        player->gone++;
        NRT_MemInfo_release(known->meminfo);
    }
    player->bytes_gone += known->bytes;
    *known = (struct known){.meminfo = NULL};
}

static void resize(struct player *player, struct known *known)
{
    size_t bytes = random_size(player);

    player->bytes_made += bytes;
    player->bytes_gone += known->bytes;
    void *other = NRT_Reallocate(known->raw, bytes);
    MUST(other);
    if (bytes && known->bytes)
        MUST(*(unsigned char *)other == known->fill);
    known->raw = other;
    known->bytes = bytes;
    fill(known, other);
}

/* Put a block on the belt, or take one of the other thread. */
static void pass_on(struct player *player)
{
    _Atomic(tarn_meminfo *) *place =
        &player->belt[tarn__random_below(&player->random, 64)];
    tarn_meminfo *mine = NRT_MemInfo_alloc(77), *theirs;

    memset(tarn_meminfo_data(mine), 0x77, 77);
    player->made++;
    player->bytes_made += 77;
    theirs = atomic_exchange(place, mine);
    if (!theirs)
        return;
    MUST(((unsigned char *)tarn_meminfo_data(theirs))[76] == 0x77);
    player->gone++;
    player->bytes_gone += 77;
    NRT_MemInfo_release(theirs);
}

static void step(struct player *player)
{
    struct known *known = &player->known[tarn__random_below(&player->random, HELD)];
    uint64_t kind = tarn__random_below(&player->random, 10);

    if (kind == 0) {
        pass_on(player);
    } else if (!known->raw && !known->meminfo) {
        make(player, known);
    } else if (kind < 3 && known->raw) {
        resize(player, known);
    } else if (kind < 3) {
        NRT_MemInfo_acquire(known->meminfo);
        known->count++;
    } else {
        release_one(player, known);
    }
}

static void *play(void *data)
{
    struct player *player = data;

    for (size_t i = 0; i < player->operations; i++)
        step(player);
    for (size_t i = 0; i < HELD; i++)
        while (player->known[i].raw || player->known[i].meminfo)
            release_one(player, &player->known[i]);
    return NULL;
}

static tarn_runtime_stats stats(void)
{
    tarn_runtime_stats read = {.size = sizeof read};

    CHECK_OK(tarn_runtime_stats_read(tarn_runtime_default(), &read));
    return read;
}

static size_t operations(void)
{
    const char *text = getenv("TARN_NRT_OPERATIONS");

    return text ? (size_t)strtod(text, NULL) : 1000000;
}

static void clear_belt(_Atomic(tarn_meminfo *) *belt, struct player *player)
{
    for (int i = 0; i < 64; i++)
        if (belt[i]) {
            NRT_MemInfo_release(belt[i]);
            player->gone++;
            player->bytes_gone += 77;
        }
}

static void play_with(unsigned modes, size_t count)
{
    static struct player players[2];
    _Atomic(tarn_meminfo *) belt[64] = {NULL};
    tarn_runtime_stats before = stats();
    pthread_t threads[2];

    CHECK_OK(tarn_runtime_set_modes(tarn_runtime_default(), modes));
    for (unsigned i = 0; i < 2; i++) {
        players[i] = (struct player){
            .random = 1000 * modes + i, .operations = count / 2, .belt = belt};
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, play, &players[i]));
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    clear_belt(belt, &players[0]);
    tarn_runtime_stats after = stats();
    uint64_t made = players[0].made + players[1].made;
    uint64_t raw = players[0].raw_made + players[1].raw_made;
    CHECK_EQUAL(made, after.mi_alloc - before.mi_alloc);
    CHECK_EQUAL(made, after.mi_free - before.mi_free);
    CHECK_EQUAL(made, players[0].gone + players[1].gone);
    CHECK_EQUAL(made + raw, after.alloc - before.alloc);
    CHECK_EQUAL(made + raw, after.free - before.free);
    CHECK_EQUAL(players[0].bytes_made + players[1].bytes_made,
                after.bytes_total - before.bytes_total);
    CHECK_EQUAL(players[0].bytes_gone + players[1].bytes_gone,
                players[0].bytes_made + players[1].bytes_made);
    CHECK_EQUAL(0, after.bytes_live);
    CHECK_EQUAL(before.misuses, after.misuses);
    CHECK_OK(tarn_runtime_set_modes(tarn_runtime_default(), 0));
}

TEST(random_operations_come_out_as_the_model_has_it)
{
    play_with(TARN_NRT_SLABS, operations() * 6 / 10);
}

TEST(they_do_so_with_every_debug_mode)
{
    size_t part = operations() / 10;

    play_with(TARN_NRT_SLABS | TARN_NRT_POISON, part);
    play_with(TARN_NRT_GUARD | TARN_NRT_SITES, part);
    play_with(TARN_NRT_QUARANTINE | TARN_NRT_SITES, part);
    play_with(TARN_NRT_UNPOOLED | TARN_NRT_GUARD | TARN_NRT_POISON, part);
}

TEST(everything_is_freed)
{
    tarn_runtime_trim(tarn_runtime_default());
    CHECK_EQUAL(0, stats().bytes_quarantine);
    CHECK_EQUAL(0, stats().bytes_chunks);
}
