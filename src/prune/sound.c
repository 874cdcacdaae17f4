/* sound.c -- pairs across blocks, by sound rules that hold for every program.
 *
 * Take an incref and one decref of the same value in each exit of its block's fan
 * (fan.h). Whenever the incref runs, one of the decrefs runs before it runs again, and
 * none of them runs otherwise. Without them the object's count is lower by one in
 * between, and nowhere else. The count was at least one before the incref, as no code may
 * count a dead object. From there to the exits nothing counts down. So the object lives
 * as long as before, except for what happens in an exit before its decref. tail.h checks
 * that.
 *
 * A path may end at a raise instead of an exit. Compiled code releases nothing when it
 * raises: its references leak. Without the incref this reference does not leak any more.
 * The rule does not apply if anything is released behind the raise, as in an `except`
 * clause. Nor does it apply where the reference may have been taken for another owner,
 * which keeps it (handed.h).
 */
#include "prune/sound.h"

/* Nested pairs need one sweep per level, outside first; few functions have more levels.
 */
enum { SWEEPS_OUTSIDE_FIRST = 8 };

bool tarn__sound_open(struct tarn__sound *sound, struct tarn__view *view,
                      const struct tarn__cfg *cfg)
{
    sound->view = view;
    return tarn__fans_open(&sound->fans, view, cfg) &&
           tarn__tails_open(&sound->tails, view) &&
           tarn__handed_open(&sound->handed, &sound->fans);
}

void tarn__sound_close(struct tarn__sound *sound)
{
    tarn__fans_close(&sound->fans);
}

/* --- may this incref be removed?
 * --------------------------------------------------------- */

/* The requested shape that a fan has; 0 if it has none of them. */
static unsigned shape_of(const struct tarn__sound *sound, const struct tarn__fan *fan)
{
    unsigned wanted = sound->view->pruning->options.shapes;

    if (fan->raises)
        return wanted & TARN_PRUNE_FANOUT_RAISE;
    if (fan->exit_count == 1 && wanted & TARN_PRUNE_DIAMOND)
        return TARN_PRUNE_DIAMOND;
    return wanted & TARN_PRUNE_FANOUT;
}

static struct tarn__verdict ask_exit(struct tarn__sound *sound, uint32_t value,
                                     uint32_t exit)
{
    uint32_t decref = tarn__view_decref(sound->view, value, exit);

    if (decref == TARN__NONE)
        return tarn__refuse(TARN_PRUNE_OTHER_DECREF, exit);
    if (tarn__tail_blocked(&sound->tails, decref))
        return tarn__refuse(TARN_PRUNE_USED_IN_BETWEEN, exit);
    return tarn__allow();
}

/* Does each exit have a removable decref of the value, and is that right where paths
 * raise? */
static struct tarn__verdict ask_fan(struct tarn__sound *sound, uint32_t incref,
                                    const struct tarn__fan *fan, const uint32_t *exits,
                                    uint32_t count)
{
    uint32_t value = sound->view->refops[incref].value_number;
    struct tarn__verdict verdict = tarn__allow();

    for (uint32_t i = 0; i < count && verdict.allowed; i++)
        verdict = ask_exit(sound, value, exits[i]);
    sound->fans.steps += count;
    if (!verdict.allowed || !fan->raises)
        return verdict;
    uint32_t where = tarn__handed_over(&sound->handed, fan, incref);
    return where == TARN__NONE ? verdict
                               : tarn__refuse(TARN_PRUNE_OWNERSHIP_TRANSFERRED, where);
}

static uint32_t decrefs_of(const struct tarn__view *view, uint32_t value)
{
    return view->first_place[value + 1] - view->first_place[value];
}

/* --- removing
 * ------------------------------------------------------------------------------ */

static void remove_decref(struct tarn__sound *sound, uint32_t value, uint32_t exit)
{
    tarn__view_remove(sound->view, tarn__view_decref(sound->view, value, exit));
    if (sound->view->decrefs_in[exit] == 0)
        sound->fans.freed++;
}

static void take(struct tarn__sound *sound, uint32_t incref, const uint32_t *exits,
                 uint32_t count, unsigned shape)
{
    tarn_prune_report *report = &sound->view->pruning->report;

    tarn__view_remove(sound->view, incref);
    for (uint32_t i = 0; i < count; i++)
        remove_decref(sound, sound->view->refops[incref].value_number, exits[i]);
    if (shape == TARN_PRUNE_DIAMOND)
        report->diamond += count + 1;
    else if (shape == TARN_PRUNE_FANOUT)
        report->fanout += count + 1;
    else
        report->fanout_raise += count + 1;
}

/* Remove all removable increfs of one head. */
static bool prune_head(struct tarn__sound *sound, struct tarn__fan *fan)
{
    struct tarn__view *view = sound->view;
    unsigned shape = shape_of(sound, fan);
    uint32_t before = view->removed, count = 0;
    const uint32_t *exits = NULL;

    for (uint32_t i = view->first_refop[fan->head];
         shape && i < view->first_refop[fan->head + 1]; i++) {
        uint32_t value = view->refops[i].value_number;
        if (!view->refops[i].incref || !view->refops[i].call ||
            decrefs_of(view, value) < fan->exit_count)
            continue;
        if (!exits)
            exits = tarn__fan_exits(&sound->fans, fan, &count);
        if (ask_fan(sound, i, fan, exits, count).allowed)
            take(sound, i, exits, count, shape);
    }
    return view->removed != before;
}

/* The fan at this place in the list, if pairs may be removed from its head. */
static struct tarn__fan *fan_at(struct tarn__sound *sound, uint32_t index)
{
    struct tarn__fan *fan = &sound->fans.fans[index];

    if (sound->view->decrefs_in[fan->head] > 0 ||
        !tarn__fan_find(&sound->fans, fan)->holds)
        return NULL;
    return fan;
}

/* Find all fans from the inside out, then remove from the outside in. Of two increfs that
 * need the same decref, the one with more paths behind it gets it. */
static bool sweep_outside_first(struct tarn__sound *sound)
{
    struct tarn__fans *fans = &sound->fans;
    bool changed = false;

    for (uint32_t i = fans->fan_count; i-- > 0;)
        fan_at(sound, i);
    for (uint32_t i = 0; i < fans->fan_count; i++)
        if (fans->fans[i].holds)
            changed |= prune_head(sound, &fans->fans[i]);
    return changed;
}

/* Find and remove from the inside out: nested pairs are removed in one sweep, at any
 * depth. */
static bool sweep_inside_first(struct tarn__sound *sound)
{
    bool changed = false;

    for (uint32_t i = sound->fans.fan_count; i-- > 0;) {
        struct tarn__fan *fan = fan_at(sound, i);
        if (!fan || !prune_head(sound, fan))
            continue;
        changed = true;
        tarn__fan_find(&sound->fans, fan); /* its exits may be different now */
    }
    return changed;
}

bool tarn__sound_prune(struct tarn__sound *sound)
{
    struct tarn__fans *fans = &sound->fans;
    bool changed = true;

    for (int sweep = 0; changed && fans->steps <= fans->most_steps; sweep++) {
        tarn__fans_renew(fans);
        tarn__tails_renew(&sound->tails);
        changed = sweep < SWEEPS_OUTSIDE_FIRST ? sweep_outside_first(sound)
                                               : sweep_inside_first(sound);
    }
    return !sound->view->pruning->arena.failed;
}

/* --- explaining --------------------------------------------------------------------- */

struct tarn__verdict tarn__sound_explain(struct tarn__sound *sound, uint32_t incref)
{
    struct tarn__view *view = sound->view;
    uint32_t block = view->refops[incref].block,
             value = view->refops[incref].value_number;
    uint32_t count;

    if (!tarn__tree_reached(&sound->fans.dominators, block))
        return tarn__refuse(TARN_PRUNE_NOT_REACHED, block);
    if (view->decrefs_in[block] > 0)
        return tarn__refuse(TARN_PRUNE_DECREF_BESIDE, block);
    struct tarn__fan *fan = &sound->fans.fans[sound->fans.fan_of[block]];
    if (!tarn__fan_find(&sound->fans, fan)->holds)
        return fan->why;
    if (!shape_of(sound, fan))
        return tarn__refuse(TARN_PRUNE_NO_SHAPE, TARN__NONE);
    const uint32_t *exits = tarn__fan_exits(&sound->fans, fan, &count);
    struct tarn__verdict verdict = ask_fan(sound, incref, fan, exits, count);
    if (!verdict.allowed && verdict.rule == TARN_PRUNE_OTHER_DECREF) {
        uint32_t raise = tarn__fan_loud_raise(&sound->fans, fan);
        if (raise != TARN__NONE)
            return tarn__refuse(TARN_PRUNE_RELEASED_AFTER_RAISE, raise);
    }
    if (!verdict.allowed && verdict.rule == TARN_PRUNE_USED_IN_BETWEEN)
        verdict.instruction =
            tarn__tail_use(&sound->tails, tarn__view_decref(view, value, verdict.block));
    return verdict;
}
