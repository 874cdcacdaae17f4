/* finding.h -- a finding of the report: a sentence, its evidence and advice. */
#ifndef TARN_CLI_REPORT_FINDING_H
#define TARN_CLI_REPORT_FINDING_H

#include "view.h"

enum { FINDING_EVIDENCE = 12 };
#define FINDING_NO_NODE UINT32_MAX
#define FINDING_NO_TIME UINT64_MAX

struct finding {
    const char *rule; /* "F1" */
    bool is_hint;
    char sentence[512];
    char evidence[FINDING_EVIDENCE][320];
    size_t evidence_count;
    const char *advice;
    uint32_t node;    /* of the page; FINDING_NO_NODE */
    uint64_t time_ns; /* FINDING_NO_TIME */
    uint64_t bytes;
    char allow[320]; /* line for an allow-list (`tarn log --allow`), or the rule */
};

struct findings {
    struct finding *items;
    size_t count, capacity;
};

/* Begin a finding; it is valid until the next one begins. */
struct finding *finding_begin(struct findings *findings, const char *rule,
                              const char *advice, uint64_t bytes);
/* Set the sentence, or add a line of evidence; further lines than fit are dropped. */
void finding_say(struct finding *finding, const char *format, ...) TARN_PRINTF(2, 3);
void finding_note(struct finding *finding, const char *format, ...) TARN_PRINTF(2, 3);
/* Set the site of a finding: its largest stack and its line for an allow-list. */
void finding_at_site(struct finding *finding, const struct view *view, uint32_t site);
/* Name the functions that called the sites: the two with most bytes, and the others.
 * The bytes are those held until exit, or those at the peak. */
void finding_note_callers(struct finding *finding, const struct view *view,
                          const uint32_t *sites, size_t count, bool is_held);
struct finding_place {
    char text[200];
};
/* Return a short, unambiguous text for a frame, or for a site's frame. */
struct finding_place finding_frame(const struct view *view, uint32_t frame);
struct finding_place finding_place(const struct view *view, uint32_t site);
/* Sort by severity and bytes, and keep the first three of each rule. */
void findings_sort(struct findings *findings);
void findings_free(struct findings *findings);

#endif
