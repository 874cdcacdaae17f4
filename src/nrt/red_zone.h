/* red_zone.h -- red zones: the bytes around and in a block that reveal misuse. */
#ifndef TARN_NRT_RED_ZONE_H
#define TARN_NRT_RED_ZONE_H

#include "nrt/block.h"

/* Write front, back and fill of a new block, as its flags require. */
void tarn__red_zone_write(struct tarn__block *block, char *data);

/* Find the beginning of the data, by the front where there is one; NULL: the front is
 * damaged. */
char *tarn__red_zone_data(struct tarn__block *block);

/* Check the guard of this block, and report damage. */
void tarn__red_zone_check(tarn_runtime *runtime, struct tarn__block *block);

/* Fill the data with 0xDE. */
void tarn__red_zone_poison(struct tarn__block *block);

/* The first of these bytes that is no longer 0xDE, or NULL. */
const void *tarn__red_zone_poison_changed(const void *data, size_t bytes);

#endif
