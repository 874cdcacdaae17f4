/* finding.c -- a finding of the report: a sentence, its evidence and what to do. */
#include "finding.h"
#include "memory.h"
#include "text.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { OF_A_RULE = 3, CALLERS = 2, CALLERS_KNOWN = 64 };

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

struct finding_place finding_frame(const struct view *view, uint32_t number)
{
    const struct trie *stacks = &view->aggregate->stacks;
    const struct frame *frame = &stacks->frames[number];
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

struct finding_place finding_place(const struct view *view, uint32_t site)
{
    return finding_frame(view, view->aggregate->sites.items[site]->frame);
}

/* --- callers ------------------------------------------------------------------------ */

struct callers {
    uint64_t bytes[CALLERS_KNOWN];
    uint32_t frames[CALLERS_KNOWN]; /* 0: no code of the program's own called */
    size_t count;
    uint64_t others; /* bytes of further callers */
};

static void add_caller(struct callers *callers, uint32_t frame, uint64_t bytes)
{
    size_t at = 0;

    while (at < callers->count && callers->frames[at] != frame)
        at++;
    if (at == CALLERS_KNOWN) {
        callers->others += bytes;
        return;
    }
    if (at == callers->count) {
        callers->frames[callers->count++] = frame;
        callers->bytes[at] = 0;
    }
    callers->bytes[at] += bytes;
}

static void add_callers(const struct view *view, const bool *is_chosen, bool is_held,
                        struct callers *callers)
{
    const struct aggregate *aggregate = view->aggregate;

    for (uint32_t i = 0; i < aggregate->series.count; i++) {
        const struct series *series = &aggregate->series.items[i];
        if (series->kind != SERIES_NODE || !is_chosen[aggregate->owner_sites[i]])
            continue;
        uint64_t bytes =
            is_held ? series->held : series_at_peak(&aggregate->series, series);
        if (bytes > 0)
            add_caller(callers, trie_caller_of(&aggregate->stacks, series->of), bytes);
    }
}

void finding_note_callers(struct finding *finding, const struct view *view,
                          const uint32_t *sites, size_t count, bool is_held)
{
    bool *is_chosen = memory_new(view->aggregate->sites.count, sizeof *is_chosen);
    struct callers callers = {.count = 0};

    for (size_t i = 0; i < count; i++)
        is_chosen[sites[i]] = true;
    add_callers(view, is_chosen, is_held, &callers);
    free(is_chosen);
    for (int round = 0; round < CALLERS; round++) {
        size_t most = CALLERS_KNOWN;
        for (size_t i = 0; i < callers.count; i++)
            if (callers.frames[i] != 0 && callers.bytes[i] > 0 &&
                (most == CALLERS_KNOWN || callers.bytes[i] > callers.bytes[most]))
                most = i;
        if (most == CALLERS_KNOWN)
            return;
        finding_note(finding, "called from %s: %s",
                     finding_frame(view, callers.frames[most]).text,
                     text_bytes(callers.bytes[most]).text);
        callers.bytes[most] = 0;
    }
    for (size_t i = 0; i < callers.count; i++)
        callers.others += callers.bytes[i];
    if (callers.others > 0)
        finding_note(finding, "called from elsewhere: %s",
                     text_bytes(callers.others).text);
}

/* --- sites -------------------------------------------------------------------------- */

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
