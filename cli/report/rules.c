/* rules.c -- the rules that find problems in one log. */
#include "rules.h"
#include "rules_pool.h"
#include "rules_site.h"

enum { LEAST_ROWS = 100 };
static const uint64_t LEAST_NS = 1000000000;

void rules_apply(const struct view *view, struct findings *findings)
{
    const struct aggregate *aggregate = view->aggregate;
    uint64_t duration = aggregate->latest_ns > aggregate->first_ns
                            ? aggregate->latest_ns - aggregate->first_ns
                            : 0;

    rules_site_held(view, findings);
    rules_pool_failed(view, findings);
    if (aggregate->rows >= LEAST_ROWS && duration >= LEAST_NS) {
        rules_site_grows(view, findings);
        rules_site_collected(view, findings);
        rules_site_spike(view, findings);
        rules_site_hot(view, findings);
        rules_pool_fragmented(view, findings);
        rules_pool_unused(view, findings);
        rules_pool_rounding(view, findings);
        rules_pool_unordered(view, findings);
    }
    findings_sort(findings);
}
