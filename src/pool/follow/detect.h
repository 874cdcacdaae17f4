/* detect.h -- where the steps of a program begin that marks none.
 *
 * Few bytes are live at the begin of a step, and more in the middle of it. A window of
 * allocations has the fewest and the most live bytes; their difference is its range. A valley
 * is where allocations find at most the fewest bytes and 1/32 of the range live, after one
 * that found at least the fewest and 1/8. If a step has the sizes of an earlier one, steps are
 * found, and each one is marked from there on.
 *
 * A valley has many allocations: the end of a backward pass, those of an optimizer, and the
 * first ones of the next step. Steps of all shapes have the first two in common, so a step is
 * not to begin with them. It begins with the first allocation of a valley that finds at most
 * `floor` bytes live. That is the most of the fewest live bytes of the valleys so far. A valley
 * that does not reach it only raises it.
 *
 * A long step has many valleys, and its parts come in one order. So each part comes again
 * after as many allocations as before. Above TARN__DETECT_SHAPES different parts, only those
 * are marked that follow the anchor. The anchor came again after the most allocations. Where
 * most parts come again after another number of allocations than before, they are steps of
 * many shapes, such as batches in random order. Then all are marked.
 *
 * The window doubles until steps are found, so that it has a whole step at last. The search
 * begins anew if fewer bytes are live later, or if no step begins for long. It ends after
 * TARN__DETECT_MOST allocations in vain.
 *
 * The pool's lock guards all of it.
 */
#ifndef TARN_POOL_FOLLOW_DETECT_H
#define TARN_POOL_FOLLOW_DETECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TARN__DETECT_SHORTEST = 16,     /* allocations of a step */
    TARN__DETECT_SHAPES = 16,       /* different steps that are all marked */
    TARN__DETECT_KNOWN = 1024,      /* steps with which one is compared */
    TARN__DETECT_WINDOW = 256,      /* allocations; the first one */
    TARN__DETECT_LONGEST = 1 << 18, /* allocations of a window or a distance */
    TARN__DETECT_MOST = 1 << 20     /* allocations of a search */
};

struct tarn__detect_known {
    uint64_t signature, end; /* of a step: after so many allocations */
    uint32_t distance;       /* allocations between its last two ends; 0: it ended once */
};

struct tarn__detect {
    atomic_bool is_on;     /* read without the lock, too */
    bool is_found;         /* steps are marked */
    uint64_t now, marked;  /* allocations; those before the last mark */
    bool has_risen;        /* this step had `risen` live bytes */
    bool is_repeated;      /* the last step, which began with a mark, was seen before */
    uint64_t fewest, most; /* live bytes of this window */
    uint64_t base;         /* the fewest live bytes, where steps are looked for */
    uint64_t valley;       /* live bytes to which a step falls */
    uint64_t risen;        /* live bytes to which it rises before */
    uint64_t floor;        /* live bytes of a valley, at most, with which a step begins */
    uint64_t lowest;       /* the fewest of the present valley; UINT64_MAX: none */
    uint32_t window, seen; /* allocations of a window; those of this one */
    uint32_t length;       /* allocations of this step */
    uint64_t signature;    /* of this step */
    struct tarn__detect_known known[TARN__DETECT_KNOWN];
    unsigned shapes;   /* known steps that were repeated */
    int order;         /* repetitions after equal distances, less the others */
    uint64_t anchor;   /* signature; 0: none */
    uint32_t distance; /* allocations between two of its steps, at most so far */
    uint32_t searched; /* allocations since steps were found last */
};

void tarn__detect_init(struct tarn__detect *detect);
/* Return true if all steps are marked, once they are found: they are few, or in no order. */
bool tarn__detect_marks_all(const struct tarn__detect *detect);

/* Note a request for so many quanta, while `live` bytes are live. Returns true if it begins a
 * step that is to be marked. After a search in vain `is_on` is false. */
bool tarn__detect_note(struct tarn__detect *detect, uint64_t live, uint32_t quanta);

#endif
