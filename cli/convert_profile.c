/* convert_profile.c -- flame graphs: collapsed stacks, and speedscope's JSON.
 *
 * The accounting of libtarn counts bytes by location. Here its locations are the numbers
 * of stacks, so it counts them by stack. What it returns is bounded, whatever the log.
 */
#include "convert.h"
#include <inttypes.h>
#include <stdlib.h>

static tarn_status begin(struct convert *convert)
{
    tarn_trace_accounting *accounting;
    tarn_status status =
        tarn_trace_accounting_create(NULL, NULL, NULL, NULL, &accounting);

    if (status == TARN_OK)
        convert->state = accounting;
    return status;
}

/* `<exit>` and `<gc>` keep their names, which the accounting knows. */
static tarn_status add_event(struct convert *convert, const tarn_trace_event *event,
                             uint64_t line)
{
    tarn_trace_event counted = *event;
    char number[16];

    if (!event->location || event->location[0] != '<') {
        snprintf(number, sizeof number, "%" PRIu32,
                 event->stack ? event->stack : place_of(event));
        counted.location = number;
    }
    return tarn_trace_accounting_add(convert->state, &counted, line);
}

static tarn_status add_mark(struct convert *convert, const char *name, uint64_t time_ns)
{
    return tarn_trace_accounting_mark(convert->state, name, time_ns);
}

static void release(struct convert *convert)
{
    tarn_trace_accounting_release(convert->state);
}

static uint64_t bytes_at(const struct convert *convert, const tarn_trace_site *site)
{
    switch (convert->at) {
    case AT_PEAK:
        return site->peak_bytes;
    case AT_END:
        return site->live_bytes;
    case AT_HELD:
        return site->held_bytes;
    case AT_TOTAL:
        break;
    }
    return site->total_bytes;
}

/* The frames of a site, the innermost first. A site that is not a number is one frame. */
static size_t frames_of(const tarn_trace_site *site,
                        tarn_stack_frame frames[TARN_STACK_DEPTH_MAX])
{
    char *rest;
    unsigned long stack = strtoul(site->location, &rest, 10);
    size_t count =
        *rest ? 0 : tarn_stack_frames((tarn_stack)stack, TARN_STACK_DEPTH_MAX, frames);

    if (count > 0)
        return count;
    frames[0] =
        (tarn_stack_frame){.function = "", .file = *rest ? site->location : "(unknown)"};
    return 1;
}

/* Receives a site with bytes. */
typedef void (*site_fn)(struct convert *convert, const tarn_trace_site *site, void *data);

/* Visit the sites with bytes, the largest first. */
static tarn_status visit(struct convert *convert, site_fn receive, void *data)
{
    static const tarn_site_order orders[] = {TARN_SITES_BY_PEAK, TARN_SITES_BY_LIVE,
                                             TARN_SITES_BY_HELD, TARN_SITES_BY_TOTAL};
    tarn_site_order order = orders[convert->at];
    size_t count = tarn_trace_accounting_sites(convert->state, order, 0, NULL);
    tarn_trace_site *sites = calloc(count + 1, sizeof *sites);

    if (!sites)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "no host memory for %zu sites", count);
    tarn_trace_accounting_sites(convert->state, order, count, sites);
    for (size_t i = 0; i < count && bytes_at(convert, &sites[i]) > 0; i++)
        receive(convert, &sites[i], data);
    free(sites);
    return TARN_OK;
}

/* --- collapsed ---------------------------------------------------------------------- */

/* Print text as part of a collapsed stack, where ; ends a frame. */
static void print_part(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == ';')
            fputc(',', out);
        else
            fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
}

static void print_frame(FILE *out, const tarn_stack_frame *frame)
{
    if (!*frame->function) {
        print_part(out, frame->file);
    } else {
        print_part(out, frame->function);
        fputs(" (", out);
        print_part(out, frame->file);
        fputc(frame->line > 0 ? ':' : ')', out);
    }
    if (frame->line > 0)
        fprintf(out, *frame->function ? "%d)" : ":%d", frame->line);
}

static void print_site(struct convert *convert, const tarn_trace_site *site, void *data)
{
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];

    (void)data;
    for (size_t i = frames_of(site, frames); i-- > 0;) {
        print_frame(convert->out, &frames[i]);
        fputc(i ? ';' : ' ', convert->out);
    }
    fprintf(convert->out, "%" PRIu64 "\n", bytes_at(convert, site));
}

static tarn_status end_collapsed(struct convert *convert)
{
    return visit(convert, print_site, NULL);
}

const struct convert_form form_collapsed = {
    .name = "collapsed",
    .suffix = ".collapsed",
    .keeps = PART_PLACES | PART_STACKS,
    .has_at = true,
    .begin = begin,
    .on_event = add_event,
    .on_mark = add_mark,
    .end = end_collapsed,
    .release = release,
};

/* --- speedscope --------------------------------------------------------------------- */

struct speedscope {
    struct json json;
    struct stacks indexes; /* numbers of frames, and their indexes from 1 */
    uint32_t frames;
    uint64_t sum;
    bool has_no_space;
};

/* Write a frame into the list if it is new; its index. */
static uint32_t index_of(struct speedscope *scope, tarn_stack_frame frame,
                         bool is_listing)
{
    uint32_t number = tarn_stack_add_frame(&frame);
    uint32_t index = stacks_find(&scope->indexes, number);

    if (index || !is_listing)
        return index ? index - 1 : 0;
    if (number && !stacks_put(&scope->indexes, number, ++scope->frames))
        scope->has_no_space = true;
    json_open(&scope->json, NULL, '{');
    json_text(&scope->json, "name", *frame.function ? frame.function : frame.file);
    json_text(&scope->json, "file", frame.file);
    if (frame.line > 0)
        json_number(&scope->json, "line", (uint64_t)frame.line);
    json_close(&scope->json, '}');
    return scope->frames - 1;
}

static void list_frames(struct convert *convert, const tarn_trace_site *site, void *data)
{
    struct speedscope *scope = data;
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];

    for (size_t i = frames_of(site, frames); i-- > 0;)
        index_of(scope, frames[i], true);
    scope->sum += bytes_at(convert, site);
}

static void list_sample(struct convert *convert, const tarn_trace_site *site, void *data)
{
    struct speedscope *scope = data;
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];

    (void)convert;
    json_open(&scope->json, NULL, '[');
    for (size_t i = frames_of(site, frames); i-- > 0;)
        json_number(&scope->json, NULL, index_of(scope, frames[i], false));
    json_close(&scope->json, ']');
}

static void list_weight(struct convert *convert, const tarn_trace_site *site, void *data)
{
    json_number(&((struct speedscope *)data)->json, NULL, bytes_at(convert, site));
}

/* Write a list of the profile. */
static tarn_status write_list(struct convert *convert, struct speedscope *scope,
                              const char *key, site_fn write)
{
    json_open(&scope->json, key, '[');
    tarn_status status = visit(convert, write, scope);
    json_close(&scope->json, ']');
    return status;
}

static tarn_status end_speedscope(struct convert *convert)
{
    static const char *const names[] = {"live at the peak", "live at the end",
                                        "held until exit", "allocated in total"};
    struct speedscope scope = {.json = {.file = convert->out, .flat = 3}};
    struct json *json = &scope.json;

    json_open(json, NULL, '{');
    json_text(json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_text(json, "exporter", "tarn");
    json_text(json, "name", names[convert->at]);
    json_open(json, "shared", '{');
    tarn_status status = write_list(convert, &scope, "frames", list_frames);
    json_close(json, '}');
    json_open(json, "profiles", '[');
    json_open(json, NULL, '{');
    json_text(json, "type", "sampled");
    json_text(json, "name", names[convert->at]);
    json_text(json, "unit", "bytes");
    json_number(json, "startValue", 0);
    json_number(json, "endValue", scope.sum);
    if (status == TARN_OK)
        status = write_list(convert, &scope, "samples", list_sample);
    if (status == TARN_OK)
        status = write_list(convert, &scope, "weights", list_weight);
    json_close(json, '}');
    json_close(json, ']');
    json_close(json, '}');
    stacks_free(&scope.indexes);
    if (status == TARN_OK && scope.has_no_space)
        status = tarn_error_set(TARN_OUT_OF_MEMORY, "no host memory for frames");
    return status;
}

const struct convert_form form_speedscope = {
    .name = "speedscope",
    .suffix = ".speedscope.json",
    .keeps = PART_PLACES | PART_STACKS,
    .has_at = true,
    .begin = begin,
    .on_event = add_event,
    .on_mark = add_mark,
    .end = end_speedscope,
    .release = release,
};
