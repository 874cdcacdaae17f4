/* zones.h -- red zones: where they are in a block, and their fill. */
#ifndef TARN_GUARD_ZONES_H
#define TARN_GUARD_ZONES_H

#include "guard/order.h"
#include "guard/workspace.h"

/* Lay out a block. Returns false if the sizes overflow. */
bool tarn__zones_lay_out(const struct tarn__guard *guard, size_t bytes, size_t alignment,
                         size_t *offset_out, struct tarn__guard_block *block);

/* Queue the fill of the red zones and the event behind it. In a workspace. Returns false if the
 * block has no red zones, or a call failed. */
bool tarn__zones_fill(struct tarn__guard *guard, struct tarn__workspace_use *use,
                      struct tarn__guard_block *block, CUstream_ stream);

/* Fill the red zones of a new block. In a workspace. */
void tarn__zones_begin(struct tarn__guard *guard, struct tarn__workspace_use *use,
                       struct tarn__guard_block *block, enum tarn__order order,
                       CUstream_ stream);

#endif
