/* sound.h -- pairs across blocks, by sound rules that hold for every program. */
#ifndef TARN_PRUNE_SOUND_H
#define TARN_PRUNE_SOUND_H

#include "prune/keeper.h"
#include "prune/tail_decref.h"
#include "prune/ownership.h"

struct tarn__sound {
    struct tarn__function_index *function_index;
    struct tarn__fanout_regions regions;
    struct tarn__tail_decrefs tail_decrefs;
    struct tarn__ownership ownership;
    struct tarn__keeper keeper;
};

/* False: no host memory. Close it in either case. */
bool tarn__sound_open(struct tarn__sound *sound,
                      struct tarn__function_index *function_index,
                      const struct tarn__cfg *cfg);
void tarn__sound_close(struct tarn__sound *sound);

/* Remove every removable pair. False: no host memory. */
bool tarn__sound_prune(struct tarn__sound *sound);

/* The reason why this remaining incref stays. */
struct tarn__verdict tarn__sound_explain(struct tarn__sound *sound, uint32_t incref);

#endif
