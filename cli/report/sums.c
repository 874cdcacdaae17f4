/* sums.c -- the live bytes of all processes of a GPU together.
 *
 * Processes are aligned by the wall clock of their logs. A column has the maximum of
 * a process, so a sum of columns is an upper bound of the live bytes at any instant in
 * them.
 */
#include "sums.h"
#include "memory.h"
#include "text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A begin of a column, and by how much the sum of its GPU changes there. */
struct change {
    uint64_t time_ns;
    uint64_t rise; /* modulo 2^64 */
};

static int by_time(const void *a, const void *b)
{
    const struct change *first = a, *second = b;

    return (first->time_ns > second->time_ns) - (first->time_ns < second->time_ns);
}

static bool is_aligned(const struct process *process, const char *gpu)
{
    return process->start_unix_ns != 0 && strcmp(process->gpu, gpu) == 0;
}

/* Add the columns of a process; its memory ends with it. */
static size_t add_changes(const struct process *process, struct change *changes)
{
    uint64_t time_ns = process->start_unix_ns + process->column_start_ns, last = 0;
    size_t count = 0;

    for (size_t i = 0; i < process->column_count; i++) {
        if (process->columns[i] != last)
            changes[count++] = (struct change){time_ns, process->columns[i] - last};
        last = process->columns[i];
        time_ns += process->column_width_ns;
    }
    changes[count++] = (struct change){time_ns, 0 - last};
    return count;
}

static uint64_t most_at_once(const struct process *processes, size_t count,
                             const char *gpu)
{
    size_t changes_count = 0, capacity = 0;
    uint64_t sum = 0, most = 0;

    for (size_t i = 0; i < count; i++)
        capacity += processes[i].column_count + 1;
    struct change *changes = memory_new(capacity, sizeof *changes);
    for (size_t i = 0; i < count; i++)
        if (is_aligned(&processes[i], gpu))
            changes_count += add_changes(&processes[i], changes + changes_count);
    qsort(changes, changes_count, sizeof *changes, by_time);
    for (size_t i = 0; i < changes_count; i++) {
        sum += changes[i].rise;
        bool is_last =
            i + 1 == changes_count || changes[i + 1].time_ns != changes[i].time_ns;
        if (is_last && sum > most)
            most = sum;
    }
    free(changes);
    return most;
}

void sums_write(FILE *out, const struct process *processes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *gpu = processes[i].gpu;
        size_t before = 0, aligned = 0;
        for (size_t k = 0; k < count; k++) {
            before += k < i && is_aligned(&processes[k], gpu);
            aligned += is_aligned(&processes[k], gpu);
        }
        if (*gpu == '\0' || before > 0 || aligned < 2)
            continue;
        uint64_t most = most_at_once(processes, count, gpu);
        fprintf(out, "<p>The %zu processes of ", aligned);
        text_html(out, gpu, TEXT_BOX);
        fprintf(out,
                " have at most <span data-bytes=\"%" PRIu64 "\">%s</span> live at "
                "once.</p>\n",
                most, text_bytes(most).text);
    }
}
