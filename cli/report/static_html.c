/* static_html.c -- the sections of one log as plain HTML, for readers without the
 * script.
 *
 * The policy of the page forbids attributes of style, so there are none. A figure
 * has its exact value in `data-bytes`.
 */
#include "static_html.h"
#include "memory.h"
#include "text.h"
#include <inttypes.h>
#include <stdlib.h>

enum { SITES = 200, POINTS = 400, BOXES = 300, DEPTH = 64 };
enum { CHART_WIDTH = 1000, CHART_HEIGHT = 240 };
enum { PICTURE_BLOCKS = 1000 };

void static_html_bytes(FILE *out, uint64_t bytes)
{
    fprintf(out, "<td class=\"n\" data-bytes=\"%" PRIu64 "\">%s</td>", bytes,
            text_bytes(bytes).text);
}

/* --- memory over time --------------------------------------------------------------- */

/* The path of the total: a step for each group of columns, the largest of the group. */
static void write_path(FILE *out, const struct columns *columns, uint64_t peak)
{
    size_t groups = columns->count < POINTS ? columns->count : POINTS;

    fputs("<path fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" d=\"M0,",
          out);
    for (size_t group = 0; group < groups; group++) {
        uint64_t most = 0;
        for (size_t i = group * columns->count / groups;
             i < (group + 1) * columns->count / groups; i++)
            most = columns->items[i].max > most ? columns->items[i].max : most;
        double y = CHART_HEIGHT - (double)most / (double)peak * (CHART_HEIGHT - 10);
        fprintf(out, group ? "V%.1fH%.1f" : "%.1fH%.1f", y,
                (double)CHART_WIDTH * (double)(group + 1) / (double)groups);
    }
    fputs("\"/>", out);
}

static void write_timeline(FILE *out, const struct aggregate *aggregate)
{
    const struct columns *columns = &aggregate->columns;
    uint64_t peak = aggregate->peak_bytes;

    fputs("<section id=\"tarn-timeline\"><h2>Memory over time</h2>\n", out);
    if (peak == 0) {
        fputs("<p>No allocation in this log. A log is empty if the program allocates "
              "nothing, or nothing through Tarn: see docs/use.md.</p></section>\n",
              out);
        return;
    }
    fprintf(out,
            "<svg class=\"plain\" viewBox=\"0 0 %d %d\" role=\"img\" width=\"100%%\" "
            "preserveAspectRatio=\"none\" height=\"%d\" aria-label=\"Live bytes over "
            "%s, with a peak of %s\">",
            CHART_WIDTH, CHART_HEIGHT, CHART_HEIGHT,
            text_time(columns->count * columns->width_ns).text, text_bytes(peak).text);
    write_path(out, columns, peak);
    fprintf(out,
            "</svg>\n<p>Live bytes over %s. The peak of <span data-bytes=\"%" PRIu64
            "\">%s</span> is %s after the first row. Each of %zu columns is %s wide and "
            "has its maximum.</p></section>\n",
            text_time(columns->count * columns->width_ns).text, peak,
            text_bytes(peak).text, text_time(aggregate->peak_ns - columns->start_ns).text,
            columns->count, text_time(columns->width_ns).text);
}

/* --- the flame graph at the peak ---------------------------------------------------- */

struct flame {
    const struct view *view;
    uint64_t *bytes;        /* of each node with all below it */
    uint32_t *first, *next; /* children, the largest first; 0: none */
    unsigned boxes;
};

/* Put a node among the children of its parent, which are sorted by bytes. */
static void insert(struct flame *flame, uint32_t node)
{
    uint32_t *at = &flame->first[flame->view->nodes[node].parent];

    while (*at != 0 && flame->bytes[*at] >= flame->bytes[node])
        at = &flame->next[*at];
    flame->next[node] = *at;
    *at = node;
}

static void write_box(FILE *out, struct flame *flame, uint32_t node, unsigned depth);

static void write_children(FILE *out, struct flame *flame, uint32_t node, unsigned depth)
{
    uint64_t least = flame->bytes[0] / 200, rest = 0;
    unsigned smaller = 0;

    fputs("\n<ul>", out);
    for (uint32_t child = flame->first[node]; child != 0; child = flame->next[child]) {
        if (flame->bytes[child] > least && flame->boxes < BOXES && depth < DEPTH) {
            write_box(out, flame, child, depth + 1);
        } else {
            smaller++;
            rest += flame->bytes[child];
        }
    }
    if (rest > 0)
        fprintf(out, "<li><span data-bytes=\"%" PRIu64 "\">%s</span> %u smaller</li>\n",
                rest, text_bytes(rest).text, smaller);
    fputs("</ul>", out);
}

static void write_box(FILE *out, struct flame *flame, uint32_t node, unsigned depth)
{
    const struct view_node *box = &flame->view->nodes[node];
    char text[TEXT_BOX + 64];

    flame->boxes++;
    fprintf(out, "<li><span data-bytes=\"%" PRIu64 "\">%s</span> ", flame->bytes[node],
            text_bytes(flame->bytes[node]).text);
    if (box->smaller > 0) {
        fprintf(out, "%" PRIu32 " smaller", box->smaller);
    } else {
        trie_frame_text(&flame->view->aggregate->stacks, box->frame, text, sizeof text);
        text_html(out, text, TEXT_BOX);
    }
    if (flame->first[node] != 0)
        write_children(out, flame, node, depth);
    fputs("</li>\n", out);
}

static void write_flame(FILE *out, const struct view *view)
{
    size_t count = view->node_count;
    struct flame flame = {.view = view,
                          .bytes = memory_new(count, sizeof *flame.bytes),
                          .first = memory_new(count, sizeof *flame.first),
                          .next = memory_new(count, sizeof *flame.next)};

    for (size_t i = 0; i < view->peak.count; i++)
        flame.bytes[view->peak.items[i].node] += view->peak.items[i].bytes;
    uint64_t unknown = flame.bytes[0];
    for (size_t i = count; i-- > 1;)
        flame.bytes[view->nodes[i].parent] += flame.bytes[i];
    for (size_t i = count; i-- > 1;)
        if (flame.bytes[i] > 0)
            insert(&flame, (uint32_t)i);
    fputs("<section id=\"tarn-flame\"><h2>What holds the peak</h2>\n", out);
    if (view->aggregate->stack_depth <= 1)
        fputs("<p class=\"hint\">The log has one line for each block. <code>tarn run "
              "--stacks 16</code> logs whole call stacks.</p>\n",
              out);
    if (unknown > 0)
        fprintf(out,
                "<p><span data-bytes=\"%" PRIu64 "\">%s</span> have no location.</p>",
                unknown, text_bytes(unknown).text);
    fprintf(out, "<p>In all <span data-bytes=\"%" PRIu64 "\">%s</span>.</p>",
            flame.bytes[0], text_bytes(flame.bytes[0]).text);
    if (flame.first[0] != 0)
        write_children(out, &flame, 0, 0);
    fputs("</section>\n", out);
    free(flame.bytes);
    free(flame.first);
    free(flame.next);
}

/* --- failures ----------------------------------------------------------------------- */

static void write_failure(FILE *out, const struct view *view,
                          const struct failure *failure)
{
    const struct trie *stacks = &view->aggregate->stacks;
    char text[2048];

    fprintf(out,
            "<div class=\"bad\"><h3>%s at %s</h3><p>Wanted <span data-bytes=\"%" PRIu64
            "\">%s</span>",
            failure->was_retried ? "Out of memory, and a retry succeeded"
                                 : "Out of memory",
            text_time(failure->time_ns - view->aggregate->columns.start_ns).text,
            failure->bytes, text_bytes(failure->bytes).text);
    if (failure->node != 0) {
        uint32_t framework;
        trie_frame_text(stacks, trie_site_of(stacks, failure->node, &framework), text,
                        sizeof text);
        fputs(" in ", out);
        text_html(out, text, TEXT_BOX);
    }
    if (failure->attempts > 1)
        fprintf(out, "; it failed %s times", text_count(failure->attempts).text);
    fputs(".</p>", out);
    if (failure->has_report) {
        tarn_pool_oom_report_text(&failure->report, text, sizeof text);
        fputs("<pre>", out);
        for (char *line = text; *line;) { /* line ends are not hostile here */
            char *end = line;
            while (*end && *end != '\n')
                end++;
            bool is_last = *end == '\0';
            *end = '\0';
            text_html(out, line, TEXT_TITLE);
            fputc('\n', out);
            line = is_last ? end : end + 1;
        }
        fputs("</pre>", out);
    } else {
        fputs("<p>The log has no report of the pool on it.</p>", out);
    }
    fputs("</div>\n", out);
}

static void write_failures(FILE *out, const struct view *view)
{
    const struct pools *pools = &view->aggregate->pools;
    size_t count = pools_failures(pools);

    if (count == 0)
        return;
    fputs("<section id=\"tarn-failures\"><h2>Out of memory</h2>\n", out);
    if (pools->failure_count > count)
        fprintf(out, "<p>The first and the last %d of %s failures.</p>", POOLS_FAILURES,
                text_count(pools->failure_count).text);
    for (size_t i = 0; i < count; i++)
        write_failure(out, view, pools_failure(pools, i));
    fputs("</section>\n", out);
}

/* --- a plan, and the run beside it --------------------------------------------------- */

/* Draw a picture: time to the right, addresses upwards, blocks of `height` bytes at most. */
static void write_picture(FILE *out, const struct picture *picture, uint64_t height,
                          const char *what)
{
    double wide = (double)(picture->operations ? picture->operations : 1);
    size_t every = picture->count / PICTURE_BLOCKS + 1;

    fprintf(out,
            "<svg class=\"plain\" viewBox=\"0 0 %d %d\" role=\"img\" width=\"100%%\" "
            "preserveAspectRatio=\"none\" height=\"%d\" aria-label=\"%s: blocks by time "
            "and address, %s of addresses\"><path fill=\"currentColor\" "
            "fill-opacity=\"0.3\" stroke=\"currentColor\" stroke-width=\"0.3\" d=\"",
            CHART_WIDTH, CHART_HEIGHT, CHART_HEIGHT, what,
            text_bytes(picture->height).text);
    for (size_t i = 0; i < picture->count; i += every) {
        const struct picture_block *block = &picture->blocks[i];
        double scale = (double)CHART_HEIGHT / (double)height;
        double life = (double)(block->end - block->start) / wide * CHART_WIDTH;
        fprintf(out, "M%.1f,%.1fh%.1fv%.1fh%.1fz",
                (double)block->start / wide * CHART_WIDTH,
                CHART_HEIGHT - (double)block->offset * scale, life,
                -(double)block->bytes * scale, -life);
    }
    fputs("\"/></svg>\n", out);
}

static void write_pictures(FILE *out, const struct pictures *pictures)
{
    const struct picture *plan = &pictures->of_plan, *run = &pictures->of_run;
    uint64_t height = plan->height > run->height ? plan->height : run->height;

    fputs("<section id=\"tarn-plan\"><h2>Plan and run</h2>\n<p>The plan ", out);
    text_html(out, pictures->name, TEXT_BOX);
    fprintf(
        out,
        ": <span data-bytes=\"%" PRIu64 "\">%s</span> of addresses for <span "
        "data-bytes=\"%" PRIu64 "\">%s</span> live, %s blocks.</p>\n",
        plan->height, text_bytes(plan->height).text, pictures->summary.peak_live_bytes,
        text_bytes(pictures->summary.peak_live_bytes).text, text_count(plan->all).text);
    if (plan->count > 0)
        write_picture(out, plan, height, "Plan");
    fprintf(out,
            "<p>The run: <span data-bytes=\"%" PRIu64 "\">%s</span> of addresses, "
            "without gaps of more than 64 MiB, %s blocks.</p>\n",
            run->height, text_bytes(run->height).text, text_count(run->all).text);
    if (run->count > 0)
        write_picture(out, run, height, "Run");
    fputs("</section>\n", out);
}

/* --- sites -------------------------------------------------------------------------- */

static void write_site(FILE *out, const struct view *view, uint32_t number)
{
    const struct aggregate *aggregate = view->aggregate;
    const struct site *site = aggregate->sites.items[number];
    char text[TEXT_TITLE + 64];
    double share = aggregate->peak_bytes
                       ? (double)view->site_peak[number] / (double)aggregate->peak_bytes
                       : 0;
    uint64_t addresses = sites_addresses(site);

    trie_frame_text(&aggregate->stacks, site->frame, text, sizeof text);
    fputs("<tr><td class=\"s\">", out);
    text_html(out, text, TEXT_BOX);
    fputs("</td>", out);
    static_html_bytes(out, view->site_peak[number]);
    fputs("<td class=\"n\">", out);
    text_html(out, text_share(share).text, TEXT_BOX);
    fputs("</td>", out);
    static_html_bytes(out, view->site_held[number]);
    static_html_bytes(out, site->total);
    fprintf(out, "<td class=\"n\">%s</td><td class=\"n\">%s</td>",
            text_count(site->allocations).text, text_count(site->most_in_second).text);
    if (site->lifetimes.weight > 0)
        fprintf(out, "<td class=\"n\">&le; %s</td><td class=\"n\">&le; %s</td>",
                text_time(histogram_quantile(&site->lifetimes, 0.5)).text,
                text_time(histogram_quantile(&site->lifetimes, 0.99)).text);
    else
        fputs("<td></td><td></td>", out);
    if (addresses > 0)
        fprintf(out, "<td class=\"n\">~%.1f</td></tr>\n",
                (double)site->allocations / (double)addresses);
    else
        fputs("<td></td></tr>\n", out);
}

static void write_sites(FILE *out, const struct view *view)
{
    size_t all = view->aggregate->sites.count;
    size_t count = all < SITES ? all : SITES;

    fputs("<section id=\"tarn-sites\"><h2>Sites</h2>\n", out);
    fprintf(out, "<p>%zu of %zu sites, the largest at the peak first.</p>", count, all);
    fputs("<table class=\"plain\"><thead><tr><th>site</th><th>at the peak</th>"
          "<th>share</th><th>held until exit</th><th>total</th><th>allocations</th>"
          "<th>most in a second</th><th>lifetime, median</th><th>lifetime, 99 %</th>"
          "<th>reuse of addresses</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < count && i < view->site_count; i++)
        write_site(out, view, view->sites[i]);
    fputs("</tbody></table></section>\n", out);
}

/* --- data quality ------------------------------------------------------------------- */

static void write_quality(FILE *out, const struct aggregate *aggregate)
{
    const struct {
        const char *what;
        uint64_t count;
    } counts[] = {
        {"rows", aggregate->rows},
        {"rows that are earlier than a row before them", aggregate->moved},
        {"torn rows", aggregate->torn},
        {"lost rows", aggregate->lost},
        {"frees of unknown blocks", aggregate->unmatched},
        {"allocations at the address of a live block", aggregate->doubled},
        {"inconsistencies in all", aggregate->problems},
        {"allocations of sites beyond the 65,536th", aggregate->other_rows},
        {"frames for which there was no space", aggregate->stacks.dropped},
    };

    fputs("<section id=\"tarn-quality\"><h2>Data quality</h2>\n", out);
    if (aggregate->is_cut)
        fputs("<p class=\"bad\">The log has no end: a signal (Ctrl-C, kill), a crash or "
              "_exit() ended the program, it still runs, or the file was cut. Figures at "
              "the end are those of the last row.</p>",
              out);
    if (aggregate->is_ring)
        fprintf(out,
                "<p>The log is a ring: it begins at %s, and figures are exact from "
                "there on.</p>",
                text_time(aggregate->begin_ns).text);
    if (aggregate->problems * 1000 > aggregate->rows)
        fputs("<p class=\"bad\">More than 0.1 % of the rows are inconsistent: read each "
              "figure as \"at least\".</p>",
              out);
    fputs("<table class=\"plain\"><tbody>\n", out);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        fprintf(out, "<tr><td>%s</td><td class=\"n\">%s</td></tr>\n", counts[i].what,
                text_count(counts[i].count).text);
    fprintf(out, "<tr><td>width of a column</td><td class=\"n\">%s</td></tr>\n",
            text_time(aggregate->columns.width_ns).text);
    fputs("</tbody></table>"
          "<p>Exact: the peak, what it consists of, totals and counts, each column's "
          "maximum and minimum. Estimates are marked by &le; or ~.</p></section>\n",
          out);
}

void static_html_write(FILE *out, const struct view *view)
{
    write_timeline(out, view->aggregate);
    write_failures(out, view);
    if (view->aggregate->peak_bytes > 0) {
        write_flame(out, view);
        write_sites(out, view);
    }
    if (view->aggregate->pictures)
        write_pictures(out, view->aggregate->pictures);
    write_quality(out, view->aggregate);
}
