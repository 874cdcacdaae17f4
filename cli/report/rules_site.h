/* rules_site.h -- the rules about sites: F1, F2, F3, F4, F6. */
#ifndef TARN_CLI_REPORT_RULES_SITE_H
#define TARN_CLI_REPORT_RULES_SITE_H

#include "finding.h"

void rules_site_grows(const struct view *view, struct findings *findings);     /* F1 */
void rules_site_held(const struct view *view, struct findings *findings);      /* F2 */
void rules_site_collected(const struct view *view, struct findings *findings); /* F3 */
void rules_site_spike(const struct view *view, struct findings *findings);     /* F4 */
void rules_site_hot(const struct view *view, struct findings *findings);       /* F6 */

#endif
