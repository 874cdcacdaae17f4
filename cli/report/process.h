/* process.h -- the data of one log of a page, which outlives its aggregate. */
#ifndef TARN_CLI_REPORT_PROCESS_H
#define TARN_CLI_REPORT_PROCESS_H

#include "data_block.h"
#include "finding.h"

enum { PROCESS_KEY = 256 };

/* A site, for comparisons: its file's last two parts and its function, not the line. */
struct process_site {
    char key[PROCESS_KEY];
    uint64_t peak, held, total;
};

struct process {
    char *program; /* name of the log, or its command */
    char *command, *host, *gpu;
    uint64_t pid, start_unix_ns, duration_ns, rows;
    uint64_t peak, peak_ns, reserved_peak, held, failures, device_total;
    bool has_process, is_cut;
    struct data_block block;
    struct findings findings;
    struct process_site *sites; /* by key */
    size_t site_count;
    uint64_t *columns; /* maxima, for sums over processes */
    size_t column_count;
    uint64_t column_start_ns, column_width_ns;
    char *html; /* the static sections; NULL if the page does not show them */
    size_t html_bytes;
};

/* Make a process of an aggregate. Snapshots are left out to keep the data within
 * `budget` bytes, which it may exceed even without any. `with_html`: the page shows this
 * process even without its script. */
void process_make(struct process *process, const struct aggregate *aggregate,
                  const char *name, size_t budget, bool with_html);
/* Return the site with that key, or NULL. */
const struct process_site *process_site(const struct process *process, const char *key);
void process_free(struct process *process);

#endif
