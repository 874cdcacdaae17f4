/* Run generated programs against a plain model of the order of operations.
 *
 * A program allocates, writes, copies, reads and frees on several streams. If two of its
 * operations could access the same bytes, the generator puts a wait of some kind between
 * them. So each read has one right answer, for any seed of the simulator. A program with
 * a bug lacks one of those waits. No run may show bytes that the model forbids. If the
 * model has more than one answer, some seed must show a wrong one. The race finder must
 * report the bug in every run, and no program without a bug.
 *
 *     TARN_PROGRAMS=100000 build/debug/bin/unit-sim-property
 */
#include "driver.h"
#include "program.h"

enum { SEEDS_MAX = 300 }; /* tried before a bug counts as hidden */

/* The sanitizers watch the simulator, not the order: for them the programs are much alike. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PROGRAMS = 2000 };
#else
enum { PROGRAMS = 10000 };
#endif

/* Programs that failed once: a wait for a legacy stream, a block read before its first
 * write, a query with side effects, a wait for a completed event. If the generator
 * changes, they are other programs. */
static const uint64_t kept[] = {1005, 1009, 1210, 3824, 4865};

/* --- running it --- */

static CUcontext contexts[2];
static CUstream streams[STREAMS];
static CUevent events[ACTIONS];
static CUdeviceptr slots[SLOTS];
static unsigned *shown;   /* pinned: RESULTS slots */
static unsigned run_base; /* values of no other run, as memory keeps its contents */

static void run_on_memory(const struct action *action)
{
    CUstream stream = streams[action->stream];
    size_t offset = action->cells == 2 ? CELL_BYTES : 0;
    size_t bytes = action->cells == 3 ? SLOT_BYTES : CELL_BYTES;
    CUdeviceptr slot = slots[action->slot] + offset;
    char *result = (char *)shown + (size_t)action->result * SLOT_BYTES + offset;
    unsigned now[CELLS * WORDS];

    switch (action->kind) {
    case SET:
        CU(cuMemsetD32Async(slot, run_base + action->value, bytes / 4, stream));
        break;
    case COPY:
        CU(cuMemcpyDtoDAsync_v2(slot, slots[action->from] + offset, bytes, stream));
        break;
    case READ:
        CU(cuMemcpyDtoHAsync_v2(result, slot, bytes, stream));
        break;
    default:
        CU(cuMemcpyDtoH_v2(now, slot, bytes));
        memcpy(result, now, bytes);
    }
}

static void run_action(const struct action *action)
{
    CUstream stream = streams[action->stream];

    CU(cuCtxSetCurrent(contexts[program.device[action->stream]]));
    switch (action->kind) {
    case ALLOC:
        CU(cuMemAllocAsync(&slots[action->slot], SLOT_BYTES, stream));
        break;
    case ALLOC_NOW:
        CU(cuMemAlloc_v2(&slots[action->slot], SLOT_BYTES));
        break;
    case FREE:
        CU(cuMemFreeAsync(slots[action->slot], stream));
        break;
    case FREE_NOW:
        CU(cuMemFree_v2(slots[action->slot]));
        break;
    case RECORD:
        CU(cuEventRecord(events[action->event], stream));
        break;
    case WAIT:
        CU(cuStreamWaitEvent(stream, events[action->event], 0));
        break;
    case SYNC_STREAM:
        CU(cuStreamSynchronize(stream));
        break;
    case SYNC_EVENT:
        CU(cuEventSynchronize(events[action->event]));
        break;
    case SYNC_CONTEXT:
        CU(cuCtxSynchronize());
        break;
    case POLL_STREAM:
        while (driver.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
            ;
        break;
    default:
        run_on_memory(action);
    }
}

static int event_device(int event)
{
    for (int i = 0; i < program.count; i++)
        if (program.actions[i].kind == RECORD && program.actions[i].event == event)
            return program.device[program.actions[i].stream];
    return 0;
}

static void run(const char *options)
{
    CHECK_EQUAL(0, driver.configure(options));
    memset(shown, 0, RESULTS * SLOT_BYTES);
    run_base += VALUES + 1;
    for (int i = 2; i < program.streams; i++) {
        CU(cuCtxSetCurrent(contexts[program.device[i]]));
        CU(cuStreamCreate(&streams[i],
                          program.is_blocking[i] ? 0 : CU_STREAM_NON_BLOCKING));
    }
    for (int i = 0; i < program.events; i++) {
        CU(cuCtxSetCurrent(contexts[event_device(i)]));
        CU(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    }
    for (int i = 0; i < program.count; i++)
        run_action(&program.actions[i]);
    for (int i = 0; i < program.events; i++)
        CU(cuEventDestroy_v2(events[i]));
    for (int i = 2; i < program.streams; i++)
        CU(cuStreamDestroy_v2(streams[i]));
}

/* Count the cells that differ from the right value, and those that differ from all
 * allowed values. */
static unsigned count_wrong(unsigned *forbidden)
{
    unsigned wrong = 0;

    *forbidden = 0;
    for (int result = 0; result < program.results; result++)
        for (int cell = 0; cell < CELLS; cell++) {
            const unsigned *words = shown + (result * CELLS + cell) * WORDS;
            uint64_t allowed = program.allowed[result][cell];
            bool differs = false, breaks = false;
            for (int i = 0; i < WORDS && program.right[result][cell]; i++) {
                unsigned value = words[i] - run_base;
                differs |= value != program.right[result][cell];
                breaks |=
                    !(allowed & ANYTHING) && (value > VALUES || !(allowed >> value & 1));
            }
            wrong += differs;
            *forbidden += breaks;
        }
    return wrong;
}

/* Each device may use the other's memory. */
static void enable_peer_access(CUdevice device)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, !device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemoryPool pool;

    CU(cuCtxSetCurrent(contexts[device]));
    driver.cuCtxEnablePeerAccess(contexts[!device], 0); /* may be so already */
    CU(cuDeviceGetMemPool(&pool, device));
    CU(cuMemPoolSetAccess(pool, &access, 1));
}

static void setup(void)
{
    void *pinned;

    for (CUdevice device = 0; device < 2; device++)
        contexts[device] = use_device(device);
    for (CUdevice device = 2; device-- > 0;)
        enable_peer_access(device);
    CU(cuMemHostAlloc(&pinned, RESULTS * SLOT_BYTES, 0));
    shown = pinned;
    streams[0] = streams[1] = NULL;
}

static void teardown(void)
{
    CHECK_EQUAL(0, driver.configure(NULL));
    CU(cuMemFreeHost(shown));
}

static uint64_t programs_wanted(void)
{
    const char *text = getenv("TARN_PROGRAMS");

    return text ? strtoull(text, NULL, 10) : PROGRAMS;
}

/* A line for each action, so that a failure can be read. */
static void print_program(void)
{
    static const char *const names[] = {
        "alloc",       "alloc now",  "free",         "free now",   "set",
        "copy",        "read",       "read now",     "record",     "wait",
        "sync stream", "sync event", "sync context", "poll stream"};

    for (int i = 0; i < program.streams; i++)
        printf("stream %d: device %d%s\n", i, program.device[i],
               program.is_blocking[i] ? "" : ", non-blocking");
    for (int i = 0; i < program.count; i++) {
        const struct action *action = &program.actions[i];
        printf(
            "%3d %-12s stream %d slot %d from %d cells %u value %u event %d result %d\n",
            i, names[action->kind], action->stream, action->slot, action->from,
            action->cells, action->value, action->event, action->result);
    }
}

/* --- the properties --- */

static void check_good(uint64_t seed)
{
    static const char *const modes[] = {"mode=seeded", "mode=eager,races=on",
                                        "mode=seeded,races=on"};
    unsigned forbidden;
    char options[96];

    generate(seed, false);
    find_allowed();
    if (can_show())
        fail_msg("program %llu: the generator left a wait out", (unsigned long long)seed);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(options, sizeof options, "%s,seed=%llu", modes[i],
                 (unsigned long long)seed + i);
        run(options);
        if (count_wrong(&forbidden) || driver.races())
            print_program();
        if (count_wrong(&forbidden) || driver.races())
            fail_msg("program %llu, %s: %u cells wrong, %llu races: %s",
                     (unsigned long long)seed, options, count_wrong(&forbidden),
                     driver.races(), driver.race());
    }
}

TEST(property_programs_without_a_bug_read_correct_values_and_have_no_races)
{
    uint64_t count = programs_wanted() / 2;

    setup();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        check_good(kept[i]);
    for (uint64_t seed = 1000; seed < 1000 + count; seed++)
        check_good(seed);
    teardown();
}

/* Return whether it was a program with a bug that can show. */
static bool check_bad(uint64_t seed, unsigned *tries)
{
    unsigned forbidden, wrong = 0;
    char options[96];

    generate(seed, true);
    if (!program.is_bad)
        return false;
    find_allowed();
    for (unsigned i = 0; i < SEEDS_MAX && wrong == 0; i++) {
        snprintf(options, sizeof options, "mode=seeded,seed=%u%s", i,
                 i == 0 ? ",races=on" : "");
        run(options);
        wrong = count_wrong(&forbidden);
        if (forbidden && !program.is_wild)
            print_program();
        if (forbidden && !program.is_wild)
            fail_msg("program %llu, %s: %u cells that the model forbids",
                     (unsigned long long)seed, options, forbidden);
        if (i == 0 && driver.races() == 0)
            fail_msg("program %llu: its race was not found", (unsigned long long)seed);
        *tries = i + 1;
        if (!can_show() || program.is_wild)
            return false;
    }
    if (wrong == 0)
        print_program();
    if (wrong == 0)
        fail_msg("program %llu: no seed shows the bug", (unsigned long long)seed);
    return true;
}

TEST(property_programs_with_a_bug_have_races_and_some_seed_shows_them)
{
    uint64_t count = programs_wanted() / 2;
    unsigned shows = 0, tries, most = 0;

    setup();
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        check_bad(kept[i], &tries);
    for (uint64_t seed = 1000; seed < 1000 + count; seed++) {
        if (!check_bad(seed, &tries))
            continue;
        shows++;
        most = tries > most ? tries : most;
    }
    printf("%u of %llu programs with a bug can show it; at most %u seeds were needed\n",
           shows, (unsigned long long)count, most);
    CHECK(shows > count / 10);
    teardown();
}
