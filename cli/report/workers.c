/* workers.c -- rule F12: one of several processes of the same command differs. */
#include "workers.h"
#include "memory.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST = 3, SITES = 3 };
static const uint64_t GIB = 1 << 30;

static int rising(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return (first > second) - (first < second);
}

/* A process and the others of its command. */
struct group {
    struct process *processes;
    size_t count;
    const struct process *one;
    size_t size;       /* processes of the command */
    uint64_t median;   /* of their peaks */
    uint64_t failed;   /* processes with a failure */
    bool same_devices; /* all devices have the same size */
};

static bool is_like(const struct process *one, const struct process *other)
{
    return strcmp(one->command, other->command) == 0;
}

static struct group group_of(struct process *processes, size_t count,
                             const struct process *one)
{
    struct group group = {processes, count, one, 0, 0, 0, true};
    uint64_t *peaks = memory_new(count, sizeof *peaks);

    for (size_t i = 0; i < count; i++) {
        if (!is_like(one, &processes[i]))
            continue;
        peaks[group.size++] = processes[i].peak;
        group.failed += processes[i].failures > 0;
        group.same_devices &= processes[i].device_total == one->device_total;
    }
    qsort(peaks, group.size, sizeof *peaks, rising);
    group.median = peaks[(group.size - 1) / 2]; /* the lower one of two */
    free(peaks);
    return group;
}

/* The mean of what the other processes have of a site at their peaks. */
static uint64_t mean_of_others(const struct group *group, const char *key)
{
    double sum = 0;

    for (size_t i = 0; i < group->count; i++) {
        const struct process *process = &group->processes[i];
        if (process == group->one || !is_like(process, group->one))
            continue;
        const struct process_site *site = process_site(process, key);
        sum += site ? (double)site->peak : 0;
    }
    return (uint64_t)(sum / (double)(group->size - 1));
}

/* Name the sites that differ most. */
static void note_sites(const struct group *group, struct finding *finding)
{
    const struct process *one = group->one;
    uint64_t limit = UINT64_MAX;

    for (int round = 0; round < SITES; round++) {
        uint64_t most = 0, usual = 0;
        const struct process_site *best = NULL;
        for (size_t i = 0; i < one->site_count; i++) {
            const struct process_site *site = &one->sites[i];
            uint64_t mean = mean_of_others(group, site->key);
            uint64_t more = site->peak > mean ? site->peak - mean : 0;
            if (more > most && more < limit) {
                most = more;
                usual = mean;
                best = site;
            }
        }
        if (!best)
            return;
        finding_note(finding, "%.200s: %s at the peak, %s in the others", best->key,
                     text_bytes(best->peak).text, text_bytes(usual).text);
        limit = most;
    }
}

static void find(const struct group *group, struct findings *findings)
{
    const struct process *one = group->one;
    bool has_more = group->same_devices && one->peak >= group->median / 2 * 3 &&
                    one->peak - group->median >= GIB;
    bool fails_alone = one->failures > 0 && group->failed == 1;

    if (group->size < LEAST || !(has_more || fails_alone))
        return;
    struct finding *finding = finding_begin(
        findings, "F12",
        "Compare what this process does: a larger share of the data, work that only the "
        "first one does, or an object that only it keeps.",
        one->peak > group->median ? one->peak - group->median : one->peak);
    finding->time_ns = one->peak_ns;
    if (has_more)
        finding_say(finding, "this process has a peak of %s; the median of %zu is %s",
                    text_bytes(one->peak).text, group->size,
                    text_bytes(group->median).text);
    else
        finding_say(finding, "this process runs out of memory, the %zu others do not",
                    group->size - 1);
    finding_note(finding, "command: %.250s", one->command);
    note_sites(group, finding);
}

void workers_compare(struct process *processes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct group group = group_of(processes, count, &processes[i]);
        find(&group, &processes[i].findings);
        findings_sort(&processes[i].findings);
    }
}
