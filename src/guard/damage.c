/* damage.c -- finding changed bytes, and reports.
 *
 * A report is printed by one write, so that the reports of several threads do not mix.
 */
#define _GNU_SOURCE /* open_memstream */
#include "guard/damage.h"
#include "base/error.h"
#include "base/hook.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct tarn__hook handler_hook;

bool tarn__damage_find(const unsigned char *bytes, size_t count, unsigned char fill,
                       int64_t offset, tarn_guard_report *report)
{
    size_t first = 0, last = count, changed = 0;

    if (count == 0 || (bytes[0] == fill && memcmp(bytes, bytes + 1, count - 1) == 0))
        return false;
    while (first < count && bytes[first] == fill)
        first++;
    while (bytes[last - 1] == fill)
        last--;
    for (size_t i = first; i < last; i++)
        changed += bytes[i] != fill;
    report->first = offset + (int64_t)first;
    report->last = offset + (int64_t)last - 1;
    report->changed = changed;
    report->found_count =
        last - first < sizeof report->found ? last - first : sizeof report->found;
    memcpy(report->found, bytes + first, report->found_count);
    return true;
}

void tarn__damage_join(tarn_guard_report *report, const tarn_guard_report *behind)
{
    report->last = behind->last;
    report->changed += behind->changed;
}

/* --- text --- */

static const char *place_of(tarn_guard_damage damage)
{
    switch (damage) {
    case TARN_GUARD_BEFORE:
        return "before a block";
    case TARN_GUARD_BEHIND:
        return "behind a block";
    default:
        return "of a freed block";
    }
}

static void print_damage(const tarn_guard_report *report, FILE *out)
{
    if (report->damage == TARN_GUARD_FREED_TWICE) {
        fputs("tarn: guard: a freed block was freed again\n", out);
        return;
    }
    fprintf(out,
            "tarn: guard: %zu byte%s %s %s written, offset %" PRId64 " to %" PRId64
            ", now",
            report->changed, report->changed == 1 ? "" : "s", place_of(report->damage),
            report->changed == 1 ? "was" : "were", report->first, report->last);
    for (size_t i = 0; i < report->found_count; i++)
        fprintf(out, " %02x", report->found[i]);
    fputs((uint64_t)(report->last - report->first) >= report->found_count ? " ...\n"
                                                                          : "\n",
          out);
}

static void print_call(const char *what, uint64_t stream, tarn_stack stack, FILE *out)
{
    if (stream == UINTPTR_MAX)
        fprintf(out, " %s without a stream:\n", what);
    else
        fprintf(out, " %s on stream 0x%" PRIx64 ":\n", what, stream);
    tarn_stack_print(stack, out);
}

void tarn_guard_report_print(const tarn_guard_report *report, FILE *out)
{
    print_damage(report, out);
    fprintf(out, " block 0x%llx of %zu bytes, resource \"%s\", device %d\n",
            report->address, report->bytes, report->resource, report->device);
    print_call("allocated", report->allocated_on, report->allocation, out);
    if (report->is_freed)
        print_call("freed", report->freed_on, report->free, out);
    else
        fputs(" not freed yet\n", out);
    if (report->damage == TARN_GUARD_FREED_TWICE) {
        fputs(" freed again:\n", out);
        tarn_stack_print(report->again, out);
    }
}

static void print_on_stderr(const tarn_guard_report *report)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (!out) {
        tarn_guard_report_print(report, stderr);
        return;
    }
    tarn_guard_report_print(report, out);
    fclose(out);
    if (text)
        fwrite(text, 1, bytes, stderr);
    free(text);
}

/* --- delivery --- */

void tarn_guard_set_handler(tarn_guard_handler handler, void *data)
{
    tarn__hook_set(&handler_hook, (tarn__any_function *)handler, data);
}

void tarn__damage_report(struct tarn__guard *guard, const struct tarn__guard_site *site,
                         tarn_guard_report *report)
{
    struct tarn__kept_error last = tarn__error_keep();
    struct tarn__hook_call call;

    report->size = sizeof *report;
    report->resource = site->resource;
    report->device = site->device;
    report->address = site->address;
    report->bytes = site->bytes;
    report->allocated_on = site->allocated_on;
    report->freed_on = site->freed_on;
    report->is_freed = site->is_freed;
    report->allocation = site->allocation;
    report->free = site->free;
    tarn__mutex_lock(&guard->lock);
    guard->counts.reports++;
    tarn__mutex_unlock(&guard->lock);
    if (tarn__hook_begin(&handler_hook, &call)) {
        ((tarn_guard_handler)call.function)(call.data, report);
        tarn__hook_end(&call);
    } else {
        print_on_stderr(report);
    }
    if (guard->options.aborts)
        abort();
    tarn__error_restore(&last);
}
