/* match.c -- which slot of its sequence an allocation is. */
#include "pool/follow/match.h"

static void note_size(struct tarn__sequence *sequence, uint32_t quanta)
{
    sequence->sizes[sequence->size_count++ % TARN__SEQUENCES_GRAM] = quanta;
}

void tarn__match_begin(struct tarn__match *match)
{
    note_size(match->sequence, match->quanta);
}

/* Return how many places ahead and behind are searched: each place of a short sequence
 * once. */
static uint32_t places_ahead(const struct tarn__sequence *sequence)
{
    return sequence->count < TARN__MATCH_WINDOW ? sequence->count : TARN__MATCH_WINDOW;
}

static uint32_t places_behind(const struct tarn__sequence *sequence)
{
    uint32_t rest = sequence->count - places_ahead(sequence);

    return rest < TARN__MATCH_WINDOW ? rest : TARN__MATCH_WINDOW;
}

static uint32_t places_in_window(const struct tarn__sequence *sequence)
{
    return places_ahead(sequence) + places_behind(sequence);
}

/* Return the place in the window that a look is at. A second pass begins with the first. */
static uint32_t place_in_window(const struct tarn__sequence *sequence, uint32_t look)
{
    uint32_t window = places_in_window(sequence);

    return look >= window ? look - window : look;
}

static bool is_live(const struct tarn__match *match, uint32_t place)
{
    return tarn__bits_has(&match->sequences->live, match->sequence->slots[place].rank);
}

/* A larger slot has at most so many times the bytes. Else blocks that the larger step does not
 * have would take the slots of its large ones. */
enum { TIMES_LARGER = 16 };

static bool has_room(const struct tarn__match *match, uint32_t quanta)
{
    return quanta >= match->quanta && quanta / TIMES_LARGER <= match->quanta;
}

/* Look at a place of the window: first those ahead, from the cursor on, then those
 * behind, backwards. If larger slots will do, the one at the cursor does at once, and others
 * ahead after all of the same size. */
static bool is_candidate(const struct tarn__match *match, uint32_t look,
                         uint32_t *place_out)
{
    const struct tarn__sequence *sequence = match->sequence;
    bool is_second = look >= places_in_window(sequence), used;
    bool takes_larger = match->takes_larger && (look == 0 || is_second);
    uint32_t ahead = places_ahead(sequence), place;

    look = place_in_window(sequence, look);
    if (look < ahead) {
        used = sequence->ahead >> look & 1;
        place = sequence->cursor + look;
        place -= place < sequence->count ? 0 : sequence->count;
    } else {
        look -= ahead;
        used = sequence->behind >> look & 1;
        place =
            sequence->cursor + (look < sequence->cursor ? 0 : sequence->count) - 1 - look;
    }
    *place_out = place;
    uint32_t quanta = sequence->slots[place].quanta;
    return !used && !is_live(match, place) &&
           (takes_larger ? has_room(match, quanta) : quanta == match->quanta);
}

/* --- realigning by the last sizes --- */

static bool leads_to(const struct tarn__sequence *sequence, uint32_t place,
                     const uint32_t sizes[TARN__SEQUENCES_GRAM])
{
    for (uint32_t i = 0; i < TARN__SEQUENCES_GRAM; i++)
        if (sequence->slots[place - (TARN__SEQUENCES_GRAM - 1) + i].quanta != sizes[i])
            return false;
    return true;
}

/* Return the first entry of at least this hash and place. */
static uint32_t first_gram(const struct tarn__sequence *sequence, uint32_t hash,
                           uint32_t place)
{
    uint32_t low = 0, high = sequence->gram_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct tarn__sequences_gram *gram = &sequence->grams[middle];
        if (gram->hash < hash || (gram->hash == hash && gram->place < place))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t distance(uint32_t one, uint32_t other)
{
    return one < other ? other - one : one - other;
}

/* Find the place nearest to the cursor to which the last sizes lead. */
static bool realign(struct tarn__match *match)
{
    const struct tarn__sequence *sequence = match->sequence;
    uint32_t best = UINT32_MAX, sizes[TARN__SEQUENCES_GRAM];

    if (sequence->size_count < TARN__SEQUENCES_GRAM)
        return false;
    for (uint32_t i = 0; i < TARN__SEQUENCES_GRAM; i++)
        sizes[i] = sequence->sizes[(sequence->size_count + i) % TARN__SEQUENCES_GRAM];
    uint32_t hash = tarn__sequences_hash(sizes);
    uint32_t above = first_gram(sequence, hash, sequence->cursor);
    for (uint32_t i = above > 0 ? above - 1 : 0; i <= above && i < sequence->gram_count;
         i++) {
        uint32_t place = sequence->grams[i].place;
        if (sequence->grams[i].hash == hash && leads_to(sequence, place, sizes) &&
            !is_live(match, place) &&
            (best == UINT32_MAX ||
             distance(place, sequence->cursor) < distance(best, sequence->cursor)))
            best = place;
    }
    match->place = best;
    return best != UINT32_MAX;
}

/* --- the search --- */

bool tarn__match_next(struct tarn__match *match)
{
    const struct tarn__sequence *sequence = match->sequence;
    uint32_t most = places_in_window(sequence);

    most += match->takes_larger ? places_ahead(sequence) : 0;
    while (match->look < most)
        if (is_candidate(match, match->look++, &match->place))
            return true;
    if (match->has_realigned)
        return false;
    match->has_realigned = true;
    match->is_realigned = realign(match);
    return match->is_realigned;
}

/* Move the cursor ahead. The bits of places that come into the window are 0: these were
 * not used. */
static void advance(struct tarn__sequence *sequence, uint32_t places)
{
    for (; places > 0; places--) {
        sequence->behind = sequence->behind << 1 | (sequence->ahead & 1);
        sequence->ahead >>= 1;
    }
}

static void go_back(struct tarn__sequence *sequence, uint32_t places)
{
    for (; places > 0; places--) {
        sequence->ahead = sequence->ahead << 1 | (sequence->behind & 1);
        sequence->behind >>= 1;
    }
}

/* So many slots from the cursor on are used. */
static void pass(struct tarn__sequence *sequence, uint32_t count)
{
    bool is_far = count >= TARN__MATCH_WINDOW;
    uint32_t rest = sequence->count - sequence->cursor;

    sequence->behind = is_far ? UINT64_MAX : ~(~sequence->behind << count);
    sequence->ahead = is_far ? 0 : sequence->ahead >> count;
    if (count < rest) /* a division takes long */
        sequence->cursor += count;
    else
        sequence->cursor = (count - rest) % sequence->count;
}

void tarn__match_accept(struct tarn__match *match)
{
    struct tarn__sequence *sequence = match->sequence;
    uint32_t ahead = places_ahead(sequence),
             look = place_in_window(sequence, match->look - 1);

    if (match->is_realigned)
        sequence->ahead = sequence->behind = 0;
    else if (look < ahead)
        advance(sequence, look);
    else
        go_back(sequence, look - ahead + 1);
    sequence->cursor = match->place;
    pass(sequence, 1);
}

bool tarn__match_reject(struct tarn__match *match)
{
    struct tarn__sequence *sequence = match->sequence;
    bool is_next = sequence->slots[sequence->cursor].quanta == match->quanta;

    if (is_next)
        pass(sequence, 1);
    return is_next;
}

/* --- runs of slots with the same addresses --- */

uint32_t tarn__match_run(const struct tarn__sequence *sequence, uint64_t offset,
                         uint32_t quanta, uint32_t most)
{
    uint32_t place = sequence->cursor, run = 0;

    if (sequence->ahead) { /* the first place that was used */
        uint32_t unused = (uint32_t)__builtin_ctzll(sequence->ahead);
        most = most < unused ? most : unused;
    }
    while (run < most && sequence->slots[place].offset == offset &&
           sequence->slots[place].quanta == quanta) {
        run++;
        if (++place == sequence->count)
            place = 0;
    }
    return run;
}

void tarn__match_pass(struct tarn__sequence *sequence, uint32_t quanta, uint32_t count)
{
    for (uint32_t i = 0; i < count && i < TARN__SEQUENCES_GRAM; i++)
        note_size(sequence, quanta);
    pass(sequence, count);
}
