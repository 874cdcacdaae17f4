/* rules_pool.c -- the rules about pools: failures, fragmentation, unused memory. */
#include "rules_pool.h"
#include "text.h"
#include <stdarg.h>

static const uint64_t GIB = 1 << 30, MIB = 1 << 20, SECOND_NS = 1000000000;

static double seconds(const struct aggregate *aggregate, uint64_t time_ns)
{
    return (double)(time_ns - aggregate->columns.start_ns) / 1e9;
}

/* --- F7: out of memory with memory free --------------------------------------------- */

/* Why an allocation failed, though memory was free; the first that holds counts. */
struct cause {
    char sentence[256]; /* "... failed: SENTENCE"; empty: not known */
    const char *advice;
};

static void cause_say(struct cause *cause, const char *advice, const char *format, ...)
    TARN_PRINTF(3, 4);

static void cause_say(struct cause *cause, const char *advice, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(cause->sentence, sizeof cause->sentence, format, arguments);
    va_end(arguments);
    cause->advice = advice;
}

/* Bytes that the pool could still take: below its maximum, from the device. */
static uint64_t headroom(const tarn_pool_oom_report *report)
{
    uint64_t below =
        report->maximum > report->reserved ? report->maximum - report->reserved : 0;

    return below < report->device_free ? below : report->device_free;
}

static bool is_bounded(const tarn_pool_oom_report *report)
{
    return report->maximum != UINT64_MAX &&
           (report->device_total == 0 || report->maximum < report->device_total);
}

/* Bytes of the device that are in use, and not by this pool. */
static uint64_t used_by_others(const tarn_pool_oom_report *report)
{
    uint64_t used = report->device_total - report->device_free;

    return used > report->reserved ? used - report->reserved : 0;
}

/* Causes outside of the pool's free memory. */
static bool find_bound(const tarn_pool_oom_report *report, struct cause *cause)
{
    uint64_t wanted = report->requested, cached = report->cached + report->thread_cached;
    uint64_t others = used_by_others(report);

    if (is_bounded(report) && wanted > report->maximum)
        cause_say(cause, "Raise the maximum, or ask for less at a time.",
                  "it asks for more than the pool's maximum of %s",
                  text_bytes(report->maximum).text);
    else if (report->device_total && wanted > report->device_total)
        cause_say(cause, "Ask for less at a time: process the data in parts.",
                  "it asks for more than the device has, %s",
                  text_bytes(report->device_total).text);
    else if (is_bounded(report) && report->device_free >= wanted &&
             report->maximum - report->reserved < wanted && cached < wanted)
        cause_say(
            cause, "The device has memory: raise the pool's maximum.",
            "the pool has reached its own maximum of %s, and the device has %s free",
            text_bytes(report->maximum).text, text_bytes(report->device_free).text);
    else if (report->device_total && cached + report->captured < wanted &&
             report->device_free < wanted && others + report->device_free >= wanted)
        cause_say(cause,
                  "In this process let one allocator serve all libraries (tarn.use()): "
                  "a library's own allocator keeps memory that it does not use. See "
                  "`nvidia-smi` for other processes.",
                  "other processes or allocators hold %s of the device's %s",
                  text_bytes(others).text, text_bytes(report->device_total).text);
    else
        return false;
    return true;
}

static const char IN_PIECES[] =
    "Let the pool map memory in small pieces, which it can gather: "
    "tarn.use(tarn.mr.PoolMemoryResource(policy=\"tight\")). Or allocate large blocks "
    "before small ones.";

/* Causes inside of the pool: its free memory suffices, or suffices with what it could
 * take from the device, but not for this request. */
static bool find_inside(const tarn_pool_oom_report *report, struct cause *cause)
{
    uint64_t wanted = report->requested, cached = report->cached + report->thread_cached;
    uint64_t usable = cached > report->other_streams ? cached - report->other_streams : 0;
    uint64_t fenced = cached > report->unfenced ? cached - report->unfenced : 0;

    if (cached < wanted && cached + report->captured >= wanted)
        cause_say(cause,
                  "Delete graphs that are not needed, or capture them into one pool of "
                  "graphs.",
                  "captured graphs keep %s of free memory",
                  text_bytes(report->captured).text);
    else if (cached + headroom(report) < wanted)
        return false;
    else if (cached < wanted)
        cause_say(cause, IN_PIECES,
                  "the pool is fragmented: %s are free in it, the largest block has %s, "
                  "and the device has %s more",
                  text_bytes(cached).text, text_bytes(report->largest_free).text,
                  text_bytes(headroom(report)).text);
    else if (fenced < wanted)
        cause_say(cause,
                  "Free with the stream of the last use, and synchronize that stream "
                  "before the large allocation.",
                  "free memory waits for work that no event covers: %s of %s",
                  text_bytes(report->unfenced).text, text_bytes(cached).text);
    else if (usable < wanted)
        cause_say(cause,
                  "Synchronize the other streams before the large allocation, or use one "
                  "stream for both.",
                  "free memory belongs to other streams: %s of %s",
                  text_bytes(report->other_streams).text, text_bytes(cached).text);
    else if (report->largest_free < wanted)
        cause_say(cause, IN_PIECES,
                  "the pool is fragmented: %s are free, the largest block has %s",
                  text_bytes(cached).text, text_bytes(report->largest_free).text);
    else
        return false;
    return true;
}

static void note_terms(const tarn_pool_oom_report *report, struct finding *finding)
{
    finding_note(finding, "wanted %s; live %s of %s reserved",
                 text_bytes(report->requested).text, text_bytes(report->live).text,
                 text_bytes(report->reserved).text);
    finding_note(finding, "free in the pool %s, the largest usable block %s",
                 text_bytes(report->cached + report->thread_cached).text,
                 text_bytes(report->largest_free).text);
    if (report->other_streams || report->unfenced || report->captured)
        finding_note(finding, "of other streams %s, not fenced %s, of captures %s",
                     text_bytes(report->other_streams).text,
                     text_bytes(report->unfenced).text,
                     text_bytes(report->captured).text);
    if (report->device_total)
        finding_note(finding, "the device has %s of %s free, and others use %s of it",
                     text_bytes(report->device_free).text,
                     text_bytes(report->device_total).text,
                     text_bytes(used_by_others(report)).text);
    if (is_bounded(report))
        finding_note(finding, "the pool's maximum is %s, it could still take %s",
                     text_bytes(report->maximum).text, text_bytes(headroom(report)).text);
    if (report->upstream_message[0])
        finding_note(finding, "upstream: %.250s", report->upstream_message);
}

static void note_requester(const struct view *view, uint32_t node,
                           struct finding *finding)
{
    uint32_t framework;
    uint32_t frame = trie_site_of(&view->aggregate->stacks, node, &framework);

    if (frame != 0)
        finding_note(finding, "requested by %s", finding_frame(view, frame).text);
}

/* Report an allocation that failed. */
static void find_failure(const struct view *view, const struct failure *failure,
                         struct findings *findings)
{
    const tarn_pool_oom_report *report = &failure->report;
    struct cause cause = {"", "A report needs a binary log over a pool of Tarn: see "
                              "`tarn run --log`."};

    if (failure->has_report && !find_bound(report, &cause) &&
        !find_inside(report, &cause))
        return; /* the memory is in use: a failure, and no riddle */
    struct finding *finding = finding_begin(findings, "F7", cause.advice, failure->bytes);
    finding->is_hint = failure->was_retried || !failure->has_report;
    finding->time_ns = failure->time_ns;
    finding->node = view_node_of(view, failure->node);
    finding_say(finding, "an allocation of %s failed at %s%s%s",
                text_bytes(failure->bytes).text,
                text_time(failure->time_ns - view->aggregate->columns.start_ns).text,
                *cause.sentence ? ": " : "",
                *cause.sentence ? cause.sentence : "; the log does not say why");
    note_requester(view, failure->node, finding);
    if (failure->has_report)
        note_terms(report, finding);
    if (failure->attempts > 1)
        finding_note(finding, "it failed %s times, within a second of each other",
                     text_count(failure->attempts).text);
    if (failure->was_retried)
        finding_note(finding, "the same allocation succeeded within a second");
}

void rules_pool_failed(const struct view *view, struct findings *findings)
{
    const struct pools *pools = &view->aggregate->pools;
    size_t count = pools_failures(pools);

    for (size_t i = 0; i < count; i++)
        find_failure(view, pools_failure(pools, i), findings);
}

/* --- F8: fragmented ----------------------------------------------------------------- */

static bool is_free(unsigned state)
{
    return state == TARN_POOL_THREAD_CACHED || state == TARN_POOL_COMPLETED ||
           state == TARN_POOL_FENCED || state == TARN_POOL_UNFENCED;
}

/* The largest stretch of free memory with at most three live blocks in it. */
struct stretch {
    size_t first, end; /* blocks of the map */
    uint64_t bytes;
};

static struct stretch largest_stretch(const struct pool_map *map)
{
    struct stretch best = {0, 0, 0};
    size_t from = 0, live = 0;
    uint64_t bytes = 0;

    for (size_t i = 0; i < map->count; i++) {
        const struct map_block *block = &map->blocks[i];
        bool is_live = block->state == TARN_POOL_LIVE;
        bool joins = i > from && block->segment == block[-1].segment &&
                     block[-1].address + block[-1].bytes == block->address;
        if (!joins || (!is_live && !is_free(block->state))) {
            from = is_live || is_free(block->state) ? i : i + 1;
            live = 0;
            bytes = 0;
        }
        if (from > i)
            continue;
        live += is_live;
        bytes += block->bytes;
        for (; live > 3; from++) {
            live -= map->blocks[from].state == TARN_POOL_LIVE;
            bytes -= map->blocks[from].bytes;
        }
        if (bytes > best.bytes)
            best = (struct stretch){from, i + 1, bytes};
    }
    return best;
}

/* Whether the pool failed, or grew, after a map. */
static bool mattered(const struct pools *pools, const struct pool_map *map)
{
    for (size_t i = 0; i < pools->mark_count; i++) {
        const struct mark *mark = &pools->marks[i];
        if ((mark->kind == MARK_GROWTH || mark->kind == MARK_FAILURE) &&
            mark->time_ns >= map->time_ns)
            return true;
    }
    return map->kind == MAP_FAILURE;
}

/* Whether the map after this one shows the same: the next attempt of a failure. */
static bool is_repeated(const struct pools *pools, uint32_t number)
{
    const struct pool_map *map = &pools->maps[number], *next = map + 1;

    return number + 1 < pools->map_count && next->kind == map->kind &&
           next->time_ns < map->time_ns + SECOND_NS && next->cached == map->cached &&
           next->largest_free == map->largest_free;
}

void rules_pool_fragmented(const struct view *view, struct findings *findings)
{
    const struct pools *pools = &view->aggregate->pools;

    for (uint32_t i = 0; i < pools->map_count; i++) {
        const struct pool_map *map = &pools->maps[i];
        if (map->largest_free >= map->cached / 2 || map->cached < map->reserved / 4 ||
            map->cached < GIB || !mattered(pools, map) || is_repeated(pools, i))
            continue;
        struct finding *finding = finding_begin(
            findings, "F8",
            "A few live blocks stand between free ones. Allocate what lives long before "
            "what lives shortly, or let the pool map memory (VMM).",
            map->cached - map->largest_free);
        struct stretch stretch = largest_stretch(map);
        finding->time_ns = map->time_ns;
        finding_say(finding,
                    "free memory of the pool is in pieces: %s in all, the "
                    "largest block has %s",
                    text_bytes(map->cached).text, text_bytes(map->largest_free).text);
        finding_note(finding, "at %.3f s the pool had %s reserved and %s live",
                     seconds(view->aggregate, map->time_ns),
                     text_bytes(map->reserved).text, text_bytes(map->live).text);
        for (size_t k = stretch.first; k < stretch.end; k++)
            if (map->blocks[k].state == TARN_POOL_LIVE)
                finding_note(finding, "a live block of %s at 0x%llx is in the way",
                             text_bytes(map->blocks[k].bytes).text,
                             (unsigned long long)map->blocks[k].address);
        finding_note(finding, "without them one block would have %s",
                     text_bytes(stretch.bytes).text);
    }
}

/* --- F9: reserved and not used ------------------------------------------------------ */

void rules_pool_unused(const struct view *view, struct findings *findings)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct columns *columns = &aggregate->columns;
    uint64_t duration = 0, most = 0, when = 0, scarce = 0;
    double byte_seconds = 0, width = (double)columns->width_ns / 1e9;

    for (size_t i = 0; i < columns->count; i++) {
        const struct column *column = &columns->items[i];
        uint64_t unused =
            column->reserved > column->max ? column->reserved - column->max : 0;
        if (unused < GIB || unused < column->reserved / 10 * 3)
            continue;
        duration += columns->width_ns;
        byte_seconds += (double)unused * width;
        scarce +=
            aggregate->device_total && column->used >= aggregate->device_total / 10 * 9;
        if (unused > most) {
            most = unused;
            when = columns->start_ns + i * columns->width_ns;
        }
    }
    if (duration < 60000000000u || scarce == 0)
        return;
    struct finding *finding = finding_begin(
        findings, "F9",
        "Trim the pool (tarn_pool_trim()) when a phase with large blocks is over, or set "
        "a release threshold, so that other processes get the memory.",
        most);
    finding->time_ns = when;
    finding_say(finding,
                "the pool reserves up to %s that it does not use, while the "
                "device is nearly full",
                text_bytes(most).text);
    finding_note(finding, "for %s at least 30 %% of the reserved bytes were unused",
                 text_time(duration).text);
    finding_note(finding, "that is %s for one minute in all",
                 text_bytes((uint64_t)(byte_seconds / 60)).text);
}

/* --- F10: rounding ------------------------------------------------------------------ */

void rules_pool_rounding(const struct view *view, struct findings *findings)
{
    const struct pools *pools = &view->aggregate->pools;
    const struct pool_map *worst = NULL;

    for (uint32_t i = 0; i < pools->map_count; i++) {
        const struct pool_map *map = &pools->maps[i];
        if (map->rounding >= map->live / 5 && map->rounding >= 256 * MIB &&
            map->live_blocks >= 100 && (!worst || map->rounding > worst->rounding))
            worst = map;
    }
    if (!worst)
        return;
    struct finding *finding = finding_begin(
        findings, "F10",
        "Many small blocks round up much. Put them into one larger block, or use a slab "
        "for blocks of one size.",
        worst->rounding);
    finding->time_ns = worst->time_ns;
    finding_say(finding, "rounding takes %s of %s in live blocks",
                text_bytes(worst->rounding).text, text_bytes(worst->live).text);
    finding_note(finding, "%s live blocks at %.3f s", text_count(worst->live_blocks).text,
                 seconds(view->aggregate, worst->time_ns));
}

/* --- F11: frees without a stream ---------------------------------------------------- */

static const struct pool_map *most_deferred(const struct pools *pools)
{
    const struct pool_map *most = NULL;

    for (uint32_t i = 0; i < pools->map_count; i++) {
        const struct pool_map *map = &pools->maps[i];
        if (map->deferred > 0 && map->deferred >= map->cached / 4 &&
            (!most || map->deferred > most->deferred))
            most = map;
    }
    return most;
}

void rules_pool_unordered(const struct view *view, struct findings *findings)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct pool_map *map = most_deferred(&aggregate->pools);

    for (uint32_t i = 0; map && i < aggregate->sites.count; i++) {
        const struct site *site = aggregate->sites.items[i];
        if (site->frees < 10 || site->unordered_frees * 10 < site->frees * 9)
            continue;
        struct finding *finding = finding_begin(
            findings, "F11",
            "Pass the stream of the last use to the free. Then the pool can reuse the "
            "memory without waiting for the whole device.",
            map->deferred);
        finding->is_hint = true;
        finding->time_ns = map->time_ns;
        finding_at_site(finding, view, i);
        finding_say(finding, "%s frees without a stream, and the pool defers their reuse",
                    finding_place(view, i).text);
        finding_note(finding, "%s of %s frees name no stream",
                     text_count(site->unordered_frees).text,
                     text_count(site->frees).text);
        finding_note(finding, "%s of %s free bytes wait for all work of the device",
                     text_bytes(map->deferred).text, text_bytes(map->cached).text);
    }
}
