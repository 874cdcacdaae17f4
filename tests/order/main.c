/* main.c -- run the order tests, in one program for the simulator and for a GPU.
 *
 *     order [--scenario NAME]... [--resource NAME] [--reuses N] [--seeds N]
 *         [--seed FIRST] [--mode seeded|eager] [--slow NS] [--list]
 *
 * Each scenario runs until memory was reused N times in total, spread over the seeds. A
 * wrong word, a race, a lost capture or a failed call ends the program with 1 and one
 * line. Otherwise it prints one line per scenario and returns 0. On a GPU the mode is the
 * device's own. With --slow each call of the simulated driver takes so many ns longer.
 * In eager mode other threads then run in the middle of more of the pool's work.
 *
 * Resources: pool, pool/cuda, pool/async, pool/plan (a pool with a random plan), pool/learn
 * (one that learns plans: each actor repeats its first turns), pool/detect (the same, and
 * the pool finds the steps itself), async, cuda.
 */
#define _GNU_SOURCE
#include "order.h"
#include "../support/random_plan.h"
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SEEN_WORDS = (1 << 24) / 64,
    PER_THREAD_STEPS = 40,
    STEPS_A_REUSE = 12,
    STEP_TURNS = 24, /* of an actor, in a step of a pool that learns */
    LONG_RUN = 10000 /* reuses */
};

static struct {
    const char *names[16];
    unsigned name_count;
    const char *resource, *mode;
    unsigned long reuses, slow_ns;
    unsigned seeds, first_seed;
} options = {.resource = "pool", .mode = "seeded", .reuses = 1000, .seeds = 10};

static bool is_detecting(void)
{
    return strcmp(options.resource, "pool/detect") == 0;
}

static bool is_learning(void)
{
    return strcmp(options.resource, "pool/learn") == 0 || is_detecting();
}

static const struct scenario *playing;
static struct order *current;
static pthread_mutex_t failing = PTHREAD_MUTEX_INITIALIZER;

void order_fail(const char *format, ...)
{
    const char *race = "";
    va_list arguments;

    pthread_mutex_lock(&failing); /* permanently: only one failure is reported */
    fprintf(stderr, "order: %s, seed %llu, %s, %s: ", playing ? playing->name : "start",
            current ? (unsigned long long)current->seed : 0ull,
            device_is_sim ? options.mode : "GPU", options.resource);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (playing && device_races(&race) > 0)
        fprintf(stderr, "; race: %s", race);
    fputc('\n', stderr);
    exit(1);
}

/* A plan that fits to no scenario, of another seed for each pool. */
static tarn_plan *some_plan(const struct scenario *scenario)
{
    static uint64_t seed;

    seed++;
    const struct random_plan wanted = {.seed = seed,
                                       .slots = 1 << 16,
                                       .streams = scenario->streams * scenario->actors,
                                       .threads = 1 + (unsigned)(seed % 3),
                                       .height = (uint32_t)(scenario->live_bytes / 256),
                                       .largest =
                                           1 + (uint32_t)(scenario->largest / 512)};
    tarn_plan *plan = random_plan(&wanted);

    if (!plan)
        order_fail("random plan: %s", tarn_error_last()->message);
    return plan;
}

tarn_resource *order_resource(const struct scenario *scenario, bool *is_pool_out)
{
    tarn_pool_options pool = scenario->pool;
    tarn_resource *upstream = NULL, *resource = NULL;
    tarn_status status = TARN_INVALID_ARGUMENT;

    tarn_plan *plan = NULL;

    pool.size = sizeof pool;
    *is_pool_out = strncmp(options.resource, "pool", 4) == 0;
    if (strcmp(options.resource, "async") == 0)
        status = tarn_async_create(0, NULL, &resource);
    else if (strcmp(options.resource, "cuda") == 0)
        status = tarn_cuda_create(0, &resource);
    else if (strcmp(options.resource, "pool/cuda") == 0)
        status = tarn_cuda_create(0, &upstream);
    else if (strcmp(options.resource, "pool/async") == 0)
        status = tarn_async_create(0, NULL, &upstream);
    else if (strcmp(options.resource, "pool") == 0)
        status = TARN_OK;
    else if (strcmp(options.resource, "pool/plan") == 0) {
        status = TARN_OK;
        pool.plan = plan = some_plan(scenario);
    } else if (is_learning()) {
        status = TARN_OK;
        pool.learn = pool.moves != TARN_POOL_MOVES_NEVER;
        pool.detect_steps = pool.learn && is_detecting();
    }
    if (status == TARN_OK && *is_pool_out)
        status = tarn_pool_create(0, upstream, &pool, &resource);
    tarn_resource_release(upstream);
    tarn_plan_release(plan);
    if (status != TARN_OK)
        order_fail("%s: %s", options.resource, tarn_error_last()->message);
    return resource;
}

/* --- playing --------------------------------------------------------------------------- */

static bool is_over(const struct order *order)
{
    return atomic_load(&order->reuses) >= order->target ||
           atomic_load(&order->steps) >= order->steps_limit;
}

/* Some steps on a thread that ends. Its per-thread stream ends with it, so no block may
 * stay in its order. */
static void *short_lived_thread(void *data)
{
    struct actor *actor = data;

    device_enter();
    for (int i = 0; i < PER_THREAD_STEPS && !is_over(actor->order); i++)
        actor_step(actor);
    while (actor->live_count > 0) {
        struct block *block = &actor->live[--actor->live_count];
        actor->live_bytes -= block->bytes;
        checks_queue(&actor->checks, block, actor->streams[0].raw);
        order_free(actor->order, block->address, block->bytes,
                   block->bytes % 52 == 0 ? (size_t)512 << (block->bytes / 52 % 12) : 0,
                   actor_stream(actor, &actor->streams[0]));
    }
    return NULL;
}

static struct actor *at_turn; /* in seeded mode */

/* A step of the next actor in the middle of a call of this one. */
static void interrupt(void)
{
    struct actor *actor = at_turn;

    if (!actor)
        return;
    struct order *order = actor->order;
    at_turn = NULL; /* the pool's calls in here are not interrupted */
    if (actor_draw(actor, 1000) < order->scenario->interrupt)
        actor_step(&order->actors[(actor->index + 1) % order->scenario->actors]);
    at_turn = actor;
}

static void allow_interrupts(const struct scenario *scenario)
{
    void (*on_window)(void (*)(void));

    *(void **)&on_window = dlsym(RTLD_DEFAULT, "tarn_mutated_on_window");
    if (on_window)
        on_window(device_is_seeded && scenario->interrupt > 0 ? interrupt : NULL);
}

/* A pool that learns sees the work of a few turns repeatedly. The first actor marks its
 * steps, unless the pool is to find them, and leaves the pool a moment for a plan. */
static void begin_anew(struct actor *actor)
{
    static const struct timespec moment = {.tv_nsec = 1000000};

    actor->turns = 0;
    actor_restart(actor);
    if (actor->index > 0)
        return;
    if (!is_detecting() && tarn_pool_mark_step(actor->order->resource) != TARN_OK)
        order_fail("mark: %s", tarn_error_last()->message);
    nanosleep(&moment, NULL);
}

static void one_turn(struct actor *actor)
{
    pthread_t thread;

    if (is_learning() && ++actor->turns == STEP_TURNS)
        begin_anew(actor);
    if (!actor->order->scenario->per_thread) {
        actor_step(actor);
        return;
    }
    if (pthread_create(&thread, NULL, short_lived_thread, actor) != 0)
        order_fail("no thread");
    pthread_join(thread, NULL);
}

static void *long_lived_thread(void *data)
{
    struct actor *actor = data;

    device_enter();
    while (!is_over(actor->order))
        one_turn(actor);
    capture_beside_end(actor);
    return NULL;
}

static void play_actors(struct order *order)
{
    unsigned count = order->scenario->actors;

    allow_interrupts(order->scenario);
    if (device_is_seeded) {
        for (unsigned i = 0; !is_over(order); i = (i + 1) % count) {
            at_turn = &order->actors[i];
            one_turn(at_turn);
        }
        at_turn = NULL;
        for (unsigned i = 0; i < count; i++)
            capture_beside_end(&order->actors[i]);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&order->actors[i].thread, NULL, long_lived_thread,
                           &order->actors[i]) != 0)
            order_fail("no thread");
    for (unsigned i = 0; i < count; i++)
        pthread_join(order->actors[i].thread, NULL);
}

static void configure(const struct scenario *scenario, unsigned seed)
{
    char text[256];
    int used = snprintf(text, sizeof text, "mode=%s,races=on,seed=%u,memory=2GiB",
                        options.mode, seed);

    if (options.slow_ns > 0)
        used += snprintf(text + used, sizeof text - (size_t)used, ",slow=*:%lu",
                         options.slow_ns);
    if (scenario->faults)
        used +=
            snprintf(text + used, sizeof text - (size_t)used, ",%s", scenario->faults);
    if (scenario->fault_once)
        snprintf(text + used, sizeof text - (size_t)used, ":%u", seed % 40 + 3);
    device_configure(text);
}

static void check_races(void)
{
    const char *words;

    if (device_races(&words) > 0)
        order_fail("nothing orders two of them");
}

/* Check that no address got other memory in a pool that must not move any. */
static void check_addresses(const struct order *order)
{
    uint64_t generation = 0;

    if (!order->is_pool || order->scenario->pool.moves != TARN_POOL_MOVES_NEVER)
        return;
    if (tarn_pool_generation(order->resource, &generation) != TARN_OK || generation > 0)
        order_fail("memory left its addresses %llu times",
                   (unsigned long long)generation);
}

/* The figures of a run, added to those before. */
static void add(struct played *sum, const struct order *order)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    sum->reuses += atomic_load(&order->reuses);
    sum->allocations += atomic_load(&order->allocations);
    sum->failed_allocations += atomic_load(&order->failed_allocations);
    if (!order->is_pool ||
        tarn_pool_get_statistics(order->resource, &statistics) != TARN_OK)
        return;
    sum->statistics.cache_hits += statistics.cache_hits;
    sum->statistics.same_stream += statistics.same_stream;
    sum->statistics.completed += statistics.completed;
    sum->statistics.steals += statistics.steals;
    sum->statistics.grown += statistics.grown;
    sum->statistics.shrinks += statistics.shrinks;
    sum->statistics.moves += statistics.moves;
    sum->statistics.events_recorded += statistics.events_recorded;
    sum->statistics.stream_waits += statistics.stream_waits;
    sum->statistics.device_synchronizations += statistics.device_synchronizations;
    sum->statistics.planned += statistics.planned;
}

static void play(const struct scenario *scenario, unsigned seed, unsigned long reuses,
                 struct played *sum)
{
    struct order order = {.scenario = scenario,
                          .seed = seed,
                          .target = reuses,
                          .steps_limit = reuses * STEPS_A_REUSE + 1000};

    current = &order;
    device_configure(NULL);
    order.resource = order_resource(scenario, &order.is_pool);
    order.seen = calloc(SEEN_WORDS, sizeof *order.seen);
    order.actors = calloc(scenario->actors, sizeof *order.actors);
    if (!order.seen || !order.actors)
        order_fail("no host memory");
    for (unsigned i = 0; i < scenario->actors; i++) {
        order.actors[i].order = &order;
        order.actors[i].index = i;
        actor_begin(&order.actors[i]);
    }
    configure(scenario, seed);
    play_actors(&order);
    for (unsigned i = 0; i < scenario->actors; i++)
        actor_end(&order.actors[i]);
    check_races();
    check_addresses(&order);
    add(sum, &order);
    device_configure(NULL);
    if (tarn_resource_release(order.resource) != TARN_OK)
        order_fail("release: %s", tarn_error_last()->message);
    free(order.actors);
    free(order.seen);
    current = NULL;
}

/* Check that the scenario had the effect for which it exists. */
static void check_needs(const struct scenario *scenario, const struct played *played)
{
    const tarn_pool_statistics *statistics = &played->statistics;
    const struct {
        const char *name;
        uint64_t value;
    } known[] = {{"steals", statistics->steals},
                 {"grown", statistics->grown},
                 {"fences", statistics->events_recorded},
                 {"barriers", statistics->device_synchronizations},
                 {"moves", statistics->moves}};
    bool is_vmm = strcmp(options.resource, "pool") == 0;
    /* A plan changes how a pool obtains memory. */
    const char *needs = strcmp(options.resource, "pool/plan") == 0 || is_learning()
                            ? NULL
                            : scenario->needs;

    if (played->reuses == 0)
        order_fail("no memory was reused");
    /* With threads in real time no call may have needed it. The same holds for short runs
     * on a GPU, under a memory checker, where every stream is idle at a query. */
    if (device_is_sim ? strcmp(options.mode, "eager") == 0 : options.reuses < LONG_RUN)
        return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (needs && strncmp(options.resource, "pool", 4) == 0 &&
            strcmp(needs, known[i].name) == 0 && known[i].value == 0 &&
            (is_vmm || strcmp(needs, "moves") != 0))
            order_fail("there were no %s", known[i].name);
}

static uint64_t all_planned; /* allocations at planned addresses, of all scenarios */

static void play_seeds(const struct scenario *scenario)
{
    struct played sum = {0};

    playing = scenario;
    for (unsigned i = 0; i < options.seeds; i++)
        play(scenario, options.first_seed + i, options.reuses / options.seeds + 1, &sum);
    check_needs(scenario, &sum);
    all_planned += sum.statistics.planned;
    printf(
        "%-16s %9lu reuses of %9lu blocks, %6lu refused; hits %llu own %llu ready %llu "
        "stolen %llu grown %llu shrunk %llu moved %llu fences %llu waits %llu "
        "barriers %llu planned %llu\n",
        scenario->name, sum.reuses, sum.allocations, sum.failed_allocations,
        (unsigned long long)sum.statistics.cache_hits,
        (unsigned long long)sum.statistics.same_stream,
        (unsigned long long)sum.statistics.completed,
        (unsigned long long)sum.statistics.steals,
        (unsigned long long)sum.statistics.grown,
        (unsigned long long)sum.statistics.shrinks,
        (unsigned long long)sum.statistics.moves,
        (unsigned long long)sum.statistics.events_recorded,
        (unsigned long long)sum.statistics.stream_waits,
        (unsigned long long)sum.statistics.device_synchronizations,
        (unsigned long long)sum.statistics.planned);
    fflush(stdout);
}

/* --- the command line ------------------------------------------------------------------ */

static bool is_wanted(const struct scenario *scenario)
{
    for (unsigned i = 0; i < options.name_count; i++)
        if (strcmp(options.names[i], scenario->name) == 0)
            return true;
    return options.name_count == 0 && !(scenario->faults && !device_is_sim);
}

static void wrong_use(void)
{
    fputs("usage: order [--scenario NAME]... [--resource NAME] [--reuses N]\n"
          "           [--seeds N] [--seed FIRST] [--mode seeded|eager] [--slow NS]\n"
          "           [--list]\n",
          stderr);
    exit(2);
}

static void list(void)
{
    for (size_t i = 0; i < scenario_count; i++)
        puts(scenarios[i].name);
    exit(0);
}

static void take_options(int argc, char **argv)
{
    static const struct option known[] = {{"scenario", required_argument, NULL, 'n'},
                                          {"resource", required_argument, NULL, 'r'},
                                          {"reuses", required_argument, NULL, 'c'},
                                          {"seeds", required_argument, NULL, 's'},
                                          {"seed", required_argument, NULL, 'f'},
                                          {"mode", required_argument, NULL, 'm'},
                                          {"slow", required_argument, NULL, 'w'},
                                          {"list", no_argument, NULL, 'l'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'n' && options.name_count < 16)
            options.names[options.name_count++] = optarg;
        else if (option == 'r')
            options.resource = optarg;
        else if (option == 'c')
            options.reuses = strtoul(optarg, NULL, 10);
        else if (option == 's')
            options.seeds = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'f')
            options.first_seed = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 'm')
            options.mode = optarg;
        else if (option == 'w')
            options.slow_ns = strtoul(optarg, NULL, 10);
        else if (option == 'l')
            list();
        else
            wrong_use();
    }
    if (optind != argc || options.seeds == 0)
        wrong_use();
}

int main(int argc, char **argv)
{
    unsigned played = 0;

    take_options(argc, argv);
    setenv("TARN_SIM", "memory=2GiB", 1); /* addresses are fixed when it starts */
    device_open();
    for (size_t i = 0; i < scenario_count; i++)
        if (is_wanted(&scenarios[i])) {
            play_seeds(&scenarios[i]);
            played++;
        }
    if (played == 0)
        order_fail("there is no such scenario");
    /* not in each scenario: with threads few steps repeat */
    if ((strcmp(options.resource, "pool/plan") == 0 || is_learning()) &&
        options.name_count == 0 && all_planned == 0)
        order_fail("no block was at a planned address");
    return 0;
}
