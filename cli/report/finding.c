/* finding.c -- a finding of the report: a sentence, its evidence and what to do. */
#include "finding.h"
#include "memory.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { OF_A_RULE = 3 };

struct finding *finding_begin(struct findings *findings, const char *rule,
                              const char *advice, uint64_t bytes)
{
    findings->items = memory_grow(findings->items, &findings->capacity,
                                  findings->count + 1, sizeof *findings->items);
    struct finding *finding = &findings->items[findings->count++];
    *finding = (struct finding){.rule = rule,
                                .advice = advice,
                                .node = FINDING_NO_NODE,
                                .time_ns = FINDING_NO_TIME,
                                .bytes = bytes};
    snprintf(finding->allow, sizeof finding->allow, "%s", rule);
    return finding;
}

void finding_say(struct finding *finding, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(finding->sentence, sizeof finding->sentence, format, arguments);
    va_end(arguments);
}

void finding_note(struct finding *finding, const char *format, ...)
{
    va_list arguments;

    if (finding->evidence_count == FINDING_EVIDENCE)
        return;
    va_start(arguments, format);
    vsnprintf(finding->evidence[finding->evidence_count++], sizeof finding->evidence[0],
              format, arguments);
    va_end(arguments);
}

struct finding_place finding_place(const struct view *view, uint32_t site)
{
    const struct trie *stacks = &view->aggregate->stacks;
    const struct frame *frame =
        &stacks->frames[view->aggregate->sites.items[site]->frame];
    const char *file = trie_file(names_text(&stacks->names, frame->file));
    const char *function = names_text(&stacks->names, frame->function);
    struct finding_place place;

    if (*file == '\0' && *function == '\0')
        snprintf(place.text, sizeof place.text, "code without a location");
    else if (frame->line > 0)
        snprintf(place.text, sizeof place.text, "%.120s:%d%s%.60s", file, frame->line,
                 *function ? " " : "", function);
    else
        snprintf(place.text, sizeof place.text, "%.120s%s%.60s", file,
                 *file && *function ? " " : "", function);
    return place;
}

/* The node of the stack of a site that owns most. */
static uint32_t largest_stack(const struct view *view, uint32_t site)
{
    const struct aggregate *aggregate = view->aggregate;
    uint64_t most = 0;
    uint32_t node = 0;

    for (uint32_t i = 0; i < aggregate->series.count; i++) {
        const struct series *series = &aggregate->series.items[i];
        if (series->kind != SERIES_NODE || aggregate->owner_sites[i] != site)
            continue;
        uint64_t owns = series_at_peak(&aggregate->series, series);
        owns = series->held > owns ? series->held : owns;
        if (node == 0 || owns > most) {
            most = owns;
            node = series->of;
        }
    }
    return node;
}

void finding_at_site(struct finding *finding, const struct view *view, uint32_t site)
{
    const struct trie *stacks = &view->aggregate->stacks;
    const struct frame *frame =
        &stacks->frames[view->aggregate->sites.items[site]->frame];

    const char *file = names_text(&stacks->names, frame->file);
    const char *slash = strrchr(file, '/');
    const char *function = names_text(&stacks->names, frame->function);

    finding->node = view_node_of(view, largest_stack(view, site));
    file = slash ? slash + 1 : file;
    if (*function)
        snprintf(finding->allow, sizeof finding->allow, "%.200s:%.100s", file, function);
    else
        snprintf(finding->allow, sizeof finding->allow, "%.200s:%d", file, frame->line);
}

static int worse_first(const void *a, const void *b)
{
    const struct finding *first = a, *second = b;

    if (first->is_hint != second->is_hint)
        return first->is_hint ? 1 : -1;
    if (first->bytes != second->bytes)
        return first->bytes < second->bytes ? 1 : -1;
    return strcmp(first->rule, second->rule);
}

void findings_sort(struct findings *findings)
{
    size_t kept = 0;

    if (findings->count > 0)
        qsort(findings->items, findings->count, sizeof *findings->items, worse_first);
    for (size_t i = 0; i < findings->count; i++) {
        size_t same = 0, more = 0;
        for (size_t k = 0; k < kept; k++)
            same += strcmp(findings->items[k].rule, findings->items[i].rule) == 0;
        if (same >= OF_A_RULE)
            continue;
        for (size_t k = i + 1; same == OF_A_RULE - 1 && k < findings->count; k++)
            more += strcmp(findings->items[k].rule, findings->items[i].rule) == 0;
        if (more > 0)
            finding_note(&findings->items[i], "%zu more like this", more);
        findings->items[kept++] = findings->items[i];
    }
    findings->count = kept;
}

void findings_free(struct findings *findings)
{
    free(findings->items);
    *findings = (struct findings){.count = 0};
}
