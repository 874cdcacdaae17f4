/* sound.h -- pairs across blocks, by rules that no program gets round. */
#ifndef TARN_PRUNE_SOUND_H
#define TARN_PRUNE_SOUND_H

#include "prune/tail.h"
#include "prune/handed.h"

struct tarn__sound {
    struct tarn__view *view;
    struct tarn__fans fans;
    struct tarn__tails tails;
    struct tarn__handed handed;
};

/* False: no host memory. To be closed in either case. */
bool tarn__sound_open(struct tarn__sound *sound, struct tarn__view *view,
                      const struct tarn__cfg *cfg);
void tarn__sound_close(struct tarn__sound *sound);

/* Take every pair that may go. False: no host memory. */
bool tarn__sound_prune(struct tarn__sound *sound);

/* Why this incref, still there, stays. */
struct tarn__verdict tarn__sound_explain(struct tarn__sound *sound, uint32_t incref);

#endif
