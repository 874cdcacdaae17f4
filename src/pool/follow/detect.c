/* detect.c -- where the steps of a program begin that marks none. */
#include "pool/follow/detect.h"
#include "pool/follow/signature.h"
#include <string.h>

/* Parts of the range of live bytes; distances of the anchor without a mark. */
enum { VALLEY_PART = 32, RISEN_PART = 8, LATE = 2, TOO_LATE = 4 };
enum { WAYS = 4 };        /* places that a known step may have */
enum { ORDER_MOST = 32 }; /* bound of `order`, up and down */

static void begin_window(struct tarn__detect *detect)
{
    detect->seen = 0;
    detect->fewest = UINT64_MAX;
    detect->most = 0;
}

static void begin_step(struct tarn__detect *detect)
{
    detect->has_risen = false;
    detect->lowest = UINT64_MAX;
    detect->length = 0;
    detect->signature = 0;
}

/* Look for steps whose live bytes rise and fall in this range. */
static void restart(struct tarn__detect *detect, uint64_t fewest, uint64_t most)
{
    begin_step(detect);
    detect->is_found = false;
    detect->base = fewest;
    detect->valley = fewest + (most - fewest) / VALLEY_PART;
    detect->risen = fewest + (most - fewest) / RISEN_PART;
    detect->floor = 0;
    detect->shapes = detect->distance = 0;
    detect->order = 0;
    detect->anchor = 0;
    memset(detect->known, 0, sizeof detect->known);
}

/* Look for steps without knowledge of their live bytes. */
static void forget(struct tarn__detect *detect)
{
    restart(detect, UINT64_MAX, UINT64_MAX);
    begin_window(detect);
}

void tarn__detect_init(struct tarn__detect *detect)
{
    memset(detect, 0, sizeof *detect);
    atomic_store(&detect->is_on, true);
    detect->window = TARN__DETECT_WINDOW;
    forget(detect);
}

/* Return the place of a signature among the known steps: where it is, or that of the one which
 * ended first of those that it may replace. */
static struct tarn__detect_known *place_of(struct tarn__detect *detect,
                                           uint64_t signature)
{
    struct tarn__detect_known *set =
        &detect->known[signature % (TARN__DETECT_KNOWN / WAYS) * WAYS];
    struct tarn__detect_known *first = set;

    for (int i = 0; i < WAYS; i++) {
        if (set[i].end > 0 && set[i].signature == signature)
            return &set[i];
        if (set[i].end < first->end)
            first = &set[i];
    }
    return first;
}

/* Compare the distance of this repetition of a step with that of the last one. */
static void note_order(struct tarn__detect *detect, uint32_t last, uint32_t distance)
{
    if (last == 0 || distance == 0)
        return;
    if (distance == last)
        detect->order += detect->order < ORDER_MOST;
    else
        detect->order -= detect->order > -ORDER_MOST;
}

/* Enter the step that ends in the steps that are known. Returns how many allocations ago
 * the last equal one ended; 0: there was none. */
static uint32_t enter(struct tarn__detect *detect)
{
    struct tarn__detect_known *known = place_of(detect, detect->signature);
    bool is_repeated = known->signature == detect->signature && known->end > 0;
    uint64_t ago = is_repeated ? detect->now - known->end : 0;
    uint32_t distance = ago < UINT32_MAX ? (uint32_t)ago : UINT32_MAX;

    note_order(detect, known->distance, distance);
    detect->shapes += is_repeated;
    detect->shapes -= known->distance > 0;
    *known = (struct tarn__detect_known){detect->signature, detect->now, distance};
    return distance;
}

bool tarn__detect_marks_all(const struct tarn__detect *detect)
{
    return detect->shapes <= TARN__DETECT_SHAPES || detect->order < 0;
}

/* End a step. Returns true if the next one is to be marked. */
static bool end_step(struct tarn__detect *detect)
{
    uint64_t signature = detect->signature;
    uint32_t distance = enter(detect);

    if (distance > detect->distance && distance <= TARN__DETECT_LONGEST) {
        detect->anchor = signature;
        detect->distance = distance;
        detect->is_found = true;
        detect->searched = 0;
    }
    bool is_marked = detect->is_found &&
                     (tarn__detect_marks_all(detect) || signature == detect->anchor);
    detect->is_repeated = distance > 0 && detect->marked > 0 &&
                          detect->now - detect->marked == detect->length;
    begin_step(detect);
    if (is_marked)
        detect->marked = detect->now;
    return is_marked;
}

/* Return true if so many times the distance of the anchor's steps passed without a mark. */
static bool is_late(const struct tarn__detect *detect, unsigned times)
{
    return detect->is_found && (detect->now - detect->marked) / times > detect->distance;
}

/* Return true if the live bytes of this window are not those of the steps. Where steps are
 * found, a window may have a part of one, or fewer live bytes in its middle. If the
 * live bytes were all equal in the window of the search, its range is empty. */
static bool has_other_range(const struct tarn__detect *detect)
{
    uint64_t valley = detect->fewest + (detect->most - detect->fewest) / VALLEY_PART;

    if (detect->is_found)
        return valley < detect->base && is_late(detect, LATE);
    return valley < detect->base || detect->fewest > detect->valley ||
           detect->most < detect->risen || detect->risen == detect->base;
}

static void end_window(struct tarn__detect *detect)
{
    if (has_other_range(detect))
        restart(detect, detect->fewest, detect->most);
    if (!detect->is_found && detect->window < TARN__DETECT_LONGEST)
        detect->window *= 2;
    begin_window(detect);
}

/* Note an allocation of the present window. */
static void note_window(struct tarn__detect *detect, uint64_t live)
{
    if (detect->fewest > live)
        detect->fewest = live;
    if (detect->most < live)
        detect->most = live;
    if (++detect->seen == detect->window)
        end_window(detect);
}

/* Note the live bytes before an allocation. Returns true if a step ends with them. */
static bool note_valley(struct tarn__detect *detect, uint64_t live)
{
    if (live >= detect->risen) {
        if (detect->lowest < UINT64_MAX) { /* a valley has passed, above the floor */
            detect->floor = detect->lowest;
            detect->lowest = UINT64_MAX;
        }
        detect->has_risen = true;
        return false;
    }
    if (live > detect->valley || !detect->has_risen ||
        detect->length < TARN__DETECT_SHORTEST)
        return false;
    if (detect->lowest > live)
        detect->lowest = live;
    return live <= detect->floor;
}

bool tarn__detect_note(struct tarn__detect *detect, uint64_t live, uint32_t quanta)
{
    bool begins = note_valley(detect, live) && end_step(detect);

    detect->now++;
    detect->length++;
    detect->signature = tarn__signature_add(detect->signature, quanta);
    note_window(detect, live);
    if (is_late(detect, TOO_LATE))
        forget(detect);
    if (!detect->is_found && ++detect->searched == TARN__DETECT_MOST)
        atomic_store(&detect->is_on, false);
    return begins;
}
