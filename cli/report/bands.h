/* bands.h -- the bands of the chart: the largest groups, and the sum of all others. */
#ifndef TARN_CLI_REPORT_BANDS_H
#define TARN_CLI_REPORT_BANDS_H

#include "view.h"

/* Make the bands of a view by site, framework, stream and size class. A grouping that
 * the log does not have is left out. In each column the bands add up to its maximum. */
void bands_make(struct view *view);

#endif
