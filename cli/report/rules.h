/* rules.h -- the rules that find problems in one log (docs/design/report-rules.md has them). */
#ifndef TARN_CLI_REPORT_RULES_H
#define TARN_CLI_REPORT_RULES_H

#include "finding.h"

/* Apply all rules to a log, and sort what they find. */
void rules_apply(const struct view *view, struct findings *findings);

#endif
