/* process.c -- one log of a page: what remains of it when its aggregate is gone. */
#define _GNU_SOURCE
#include "process.h"
#include "encode.h"
#include "memory.h"
#include "rules.h"
#include "static_html.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST_SNAPSHOTS = 16 };

static char *copy(const char *text)
{
    return strcpy(memory_new(strlen(text) + 1, 1), text);
}

/* A command without a Python interpreter before the program. */
static const char *program_of(const char *command)
{
    const char *end = command + strcspn(command, " "), *name = end;

    while (name > command && name[-1] != '/')
        name--;
    if (*end == '\0' || strncmp(name, "python", 6) != 0)
        return command;
    name += 6;
    return name + strspn(name, "0123456789.") == end ? end + 1 : command;
}

static void set_figures(struct process *process, const struct aggregate *aggregate,
                        const char *name)
{
    const struct names *names = &aggregate->stacks.names;
    const char *command = names_text(names, aggregate->command);

    process->program = copy(*command ? program_of(command) : name);
    process->command = copy(command);
    process->host = copy(names_text(names, aggregate->host));
    process->gpu = copy(names_text(names, aggregate->gpu));
    process->has_process = aggregate->has_process;
    process->is_cut = aggregate->is_cut;
    process->pid = aggregate->pid;
    process->start_unix_ns = aggregate->start_unix_ns;
    process->duration_ns = aggregate->latest_ns - aggregate->first_ns;
    process->rows = aggregate->rows;
    process->peak = aggregate->peak_bytes;
    process->peak_ns = aggregate->peak_ns;
    process->reserved_peak = aggregate->pools.reserved_peak;
    process->held = aggregate->held_bytes;
    process->failures = aggregate->failures;
    process->device_total = aggregate->device_total;
}

static void set_columns(struct process *process, const struct columns *columns)
{
    process->columns = memory_new(columns->count, sizeof *process->columns);
    process->column_count = columns->count;
    process->column_start_ns = columns->start_ns;
    process->column_width_ns = columns->width_ns;
    for (size_t i = 0; i < columns->count; i++)
        process->columns[i] = columns->items[i].max;
}

/* --- sites -------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const struct process_site *first = a, *second = b;

    return strcmp(first->key, second->key);
}

/* Sum the sites that differ in the line alone. */
static void join_sites(struct process *process)
{
    size_t kept = 0;

    for (size_t i = 0; i < process->site_count; i++) {
        struct process_site *site = &process->sites[i];
        if (kept > 0 && by_key(site, &process->sites[kept - 1]) == 0) {
            process->sites[kept - 1].peak += site->peak;
            process->sites[kept - 1].held += site->held;
            process->sites[kept - 1].total += site->total;
        } else {
            process->sites[kept++] = *site;
        }
    }
    process->site_count = kept;
}

static void set_sites(struct process *process, const struct view *view)
{
    const struct trie *stacks = &view->aggregate->stacks;

    process->sites = memory_new(view->site_count, sizeof *process->sites);
    process->site_count = view->site_count;
    for (size_t i = 0; i < view->site_count; i++) {
        uint32_t number = view->sites[i];
        const struct site *site = view->aggregate->sites.items[number];
        const struct frame *frame = &stacks->frames[site->frame];
        const char *function = names_text(&stacks->names, frame->function);
        process->sites[i] = (struct process_site){.peak = view->site_peak[number],
                                                  .held = view->site_held[number],
                                                  .total = site->total};
        snprintf(process->sites[i].key, PROCESS_KEY, "%.180s%s%.70s",
                 trie_file(names_text(&stacks->names, frame->file)), *function ? " " : "",
                 function);
    }
    qsort(process->sites, process->site_count, sizeof *process->sites, by_key);
    join_sites(process);
}

const struct process_site *process_site(const struct process *process, const char *key)
{
    struct process_site wanted;

    snprintf(wanted.key, sizeof wanted.key, "%s", key);
    return bsearch(&wanted, process->sites, process->site_count, sizeof *process->sites,
                   by_key);
}

/* --- the whole ---------------------------------------------------------------------- */

/* Encode the view; take fewer snapshots, the largest part, until the data fits. */
static struct view *encode(struct process *process, const struct aggregate *aggregate,
                           size_t budget)
{
    for (size_t snapshots = VIEW_SNAPSHOTS;; snapshots /= 2) {
        struct view *view = view_create(aggregate, snapshots);
        encode_view(view, process->program, &process->block);
        if (data_block_size(&process->block) <= budget || snapshots <= LEAST_SNAPSHOTS)
            return view;
        data_block_free(&process->block);
        view_free(view);
    }
}

void process_make(struct process *process, const struct aggregate *aggregate,
                  const char *name, size_t budget, bool with_html)
{
    *process = (struct process){.program = NULL};
    set_figures(process, aggregate, name);
    set_columns(process, &aggregate->columns);
    struct view *view = encode(process, aggregate, budget);
    rules_apply(view, &process->findings);
    set_sites(process, view);
    if (with_html) {
        FILE *out = open_memstream(&process->html, &process->html_bytes);
        if (out) {
            static_html_write(out, view);
            fclose(out);
        }
    }
    view_free(view);
}

void process_free(struct process *process)
{
    free(process->program);
    free(process->command);
    free(process->host);
    free(process->gpu);
    data_block_free(&process->block);
    findings_free(&process->findings);
    free(process->sites);
    free(process->columns);
    free(process->html);
}
