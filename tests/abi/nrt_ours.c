/* nrt_ours.c -- the layout of Tarn's own nrt_external.h. */
#include <tarn/nrt_external.h>
#include "nrt_layout.h"

const size_t nrt_layout_ours[NRT_LAYOUT_COUNT] = NRT_LAYOUT;
