/* rules_pool.h -- the rules about pools: F7, F8, F9, F10, F11. */
#ifndef TARN_CLI_REPORT_RULES_POOL_H
#define TARN_CLI_REPORT_RULES_POOL_H

#include "finding.h"

void rules_pool_failed(const struct view *view, struct findings *findings);     /* F7 */
void rules_pool_fragmented(const struct view *view, struct findings *findings); /* F8 */
void rules_pool_unused(const struct view *view, struct findings *findings);     /* F9 */
void rules_pool_rounding(const struct view *view, struct findings *findings);   /* F10 */
void rules_pool_unordered(const struct view *view, struct findings *findings);  /* F11 */

#endif
