/* rows.h -- blocks of one size that follow one another, in rows that are laid out as one. */
#ifndef TARN_PLAN_ROWS_H
#define TARN_PLAN_ROWS_H

#include "plan/boxes.h"

/* Join items of one block into rows. A block follows the block of its size and stream that
 * was freed last, if the time between them is at most eight times its life. Items that know no stream, or
 * are freed on another one, stay as they are. Returns false without host memory. */
bool tarn__rows_join(struct tarn__boxes *boxes);

#endif
