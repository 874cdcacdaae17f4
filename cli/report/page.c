/* page.c -- the whole page: static HTML, the data blocks, the script.
 *
 * The page loads nothing. Its policy admits one script and one style, by their
 * hashes, so that nothing runs that a log could bring in. Strings of logs appear in
 * escaped text and in base64 alone.
 */
#define _GNU_SOURCE
#include "page.h"
#include "digest.h"
#include "encode.h"
#include "page_files.h"
#include "static_html.h"
#include "sums.h"
#include "text.h"
#include <inttypes.h>
#include <string.h>
#include <tarn/tarn.h>
#include <time.h>

enum { PROCESSES = 1000, COMPARED = 50 };

/* --- head --------------------------------------------------------------------------- */

static void write_head(FILE *out, const struct process *first)
{
    char script[DIGEST_TEXT], style[DIGEST_TEXT];

    digest_sha256(page_script, page_script_bytes, script);
    digest_sha256(page_style, page_style_bytes, style);
    fprintf(out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "script-src 'sha256-%s'; style-src 'sha256-%s'; img-src data:; "
            "base-uri 'none'; form-action 'none'\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<title>tarn report: ",
            script, style);
    text_html(out, first->program, TEXT_BOX);
    fputs("</title>\n<style>", out);
    fwrite(page_style, 1, page_style_bytes, out);
    fputs("</style>\n</head>\n<body>\n", out);
}

static void write_date(FILE *out, uint64_t unix_ns)
{
    time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm date;
    char text[64];

    if (unix_ns == 0 || !gmtime_r(&seconds, &date))
        return;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &date);
    fprintf(out, ", %s", text);
}

static void write_facts(FILE *out, const struct process *process)
{
    fputs("<header id=\"tarn-head\"><h1>tarn report: ", out);
    text_html(out, process->program, TEXT_BOX);
    fputs("</h1>\n<p>", out);
    if (process->has_process) {
        fprintf(out, "pid %" PRIu64 " on ", process->pid);
        text_html(out, *process->host ? process->host : "an unknown host", TEXT_BOX);
        write_date(out, process->start_unix_ns);
        fputs(", ", out);
    }
    fprintf(out,
            "%s, %s rows</p>\n<p>Peak <strong data-bytes=\"%" PRIu64
            "\">%s</strong> at %s",
            text_time(process->duration_ns).text, text_count(process->rows).text,
            process->peak, text_bytes(process->peak).text,
            text_time(process->peak_ns - process->column_start_ns).text);
    if (process->reserved_peak)
        fprintf(out, ", reserved <span data-bytes=\"%" PRIu64 "\">%s</span>",
                process->reserved_peak, text_bytes(process->reserved_peak).text);
    fprintf(out, ", %s failures, %s <span data-bytes=\"%" PRIu64 "\">%s</span></p>\n",
            text_count(process->failures).text,
            process->is_cut ? "live at the end" : "held until exit", process->held,
            text_bytes(process->held).text);
    if (process->is_cut)
        fputs("<p class=\"bad\">The log has no end: figures at the end are those of its "
              "last row.</p>\n",
              out);
    fputs("</header>\n", out);
}

/* --- findings ----------------------------------------------------------------------- */

static void write_finding(FILE *out, const struct finding *finding)
{
    fprintf(out, "<div class=\"%s\"><h3>%s ", finding->is_hint ? "hint" : "bad",
            finding->is_hint ? "Hint:" : "Problem:");
    text_html(out, finding->sentence, TEXT_TITLE);
    fputs("</h3><ul>", out);
    for (size_t i = 0; i < finding->evidence_count; i++) {
        fputs("<li>", out);
        text_html(out, finding->evidence[i], TEXT_TITLE);
        fputs("</li>", out);
    }
    fputs("</ul><p>", out);
    text_html(out, finding->advice, TEXT_TITLE);
    fprintf(out, "</p><p>Rule %s; for an allow-list: <code>", finding->rule);
    text_html(out, finding->allow, TEXT_TITLE);
    fputs("</code></p></div>\n", out);
}

static void write_findings(FILE *out, const struct process *processes, size_t count)
{
    size_t all = 0;

    fputs("<section id=\"tarn-findings\"><h2>Findings</h2>\n", out);
    for (size_t i = 0; i < count; i++) {
        const struct findings *findings = &processes[i].findings;
        if (findings->count > 0 && count > 1) {
            fputs("<h3>", out);
            text_html(out, processes[i].program, TEXT_BOX);
            fprintf(out, " (%zu)</h3>\n", i + 1);
        }
        for (size_t k = 0; k < findings->count; k++)
            write_finding(out, &findings->items[k]);
        all += findings->count;
    }
    if (all == 0)
        fputs("<p>No rule found a problem.</p>\n", out);
    fputs("</section>\n", out);
}

/* --- comparison --------------------------------------------------------------------- */

/* The key of the site that changed most among those that changed less than `limit`. */
static const struct process_site *next_change(const struct process *a,
                                              const struct process *b, uint64_t limit,
                                              uint64_t *change)
{
    const struct process_site *best = NULL;

    *change = 0;
    for (int side = 0; side < 2; side++) {
        const struct process *from = side ? b : a, *to = side ? a : b;
        for (size_t i = 0; i < from->site_count; i++) {
            const struct process_site *site = &from->sites[i];
            const struct process_site *other = process_site(to, site->key);
            uint64_t there = other ? other->peak : 0;
            uint64_t apart = site->peak > there ? site->peak - there : there - site->peak;
            if (apart > *change && apart < limit) {
                *change = apart;
                best = site;
            }
        }
    }
    return best;
}

static void write_change(FILE *out, uint64_t before, uint64_t after)
{
    static_html_bytes(out, before);
    static_html_bytes(out, after);
    fprintf(out, "<td class=\"n\">%s%s</td>", after < before ? "-" : "+",
            text_bytes(after < before ? before - after : after - before).text);
}

static void write_compared(FILE *out, const struct process *a, const struct process *b)
{
    uint64_t change = UINT64_MAX;

    fputs("<section id=\"tarn-compare\"><h2>Comparison</h2>\n<p>A: ", out);
    text_html(out, a->program, TEXT_BOX);
    fputs(". B: ", out);
    text_html(out, b->program, TEXT_BOX);
    fputs(". Sites match by file and function.</p>\n<table class=\"plain\"><thead><tr>"
          "<th>site</th><th>A, at the peak</th><th>B, at the peak</th><th>B - A</th></tr>"
          "</thead><tbody>\n<tr><td class=\"s\">all</td>",
          out);
    write_change(out, a->peak, b->peak);
    fputs("</tr>\n<tr><td class=\"s\">held until exit</td>", out);
    write_change(out, a->held, b->held);
    fputs("</tr>\n", out);
    for (int i = 0; i < COMPARED; i++) {
        const struct process_site *site = next_change(a, b, change, &change);
        if (!site)
            break;
        const struct process_site *before = process_site(a, site->key);
        const struct process_site *after = process_site(b, site->key);
        fputs("<tr><td class=\"s\">", out);
        text_html(out, *site->key ? site->key : "(unknown)", TEXT_BOX);
        fputs("</td>", out);
        write_change(out, before ? before->peak : 0, after ? after->peak : 0);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></section>\n", out);
}

/* --- processes ---------------------------------------------------------------------- */

static void write_process(FILE *out, const struct process *process, size_t number)
{
    fprintf(out, "<tr><td class=\"n\">%zu</td><td class=\"s\">", number);
    text_html(out, process->program, TEXT_BOX);
    fprintf(out, "</td><td class=\"n\">%" PRIu64 "</td><td>", process->pid);
    text_html(out, process->host, TEXT_BOX);
    fputs("</td><td>", out);
    text_html(out, process->gpu, TEXT_BOX);
    fputs("</td>", out);
    static_html_bytes(out, process->peak);
    static_html_bytes(out, process->reserved_peak);
    static_html_bytes(out, process->held);
    fprintf(out, "<td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
            text_count(process->failures).text, text_time(process->duration_ns).text);
}

static void write_processes(FILE *out, const struct process *processes, size_t count)
{
    fprintf(out,
            "<section id=\"tarn-processes\"><h2>Processes</h2>\n<p>%zu logs.</p>\n"
            "<table class=\"plain\"><thead><tr><th></th><th>program</th><th>pid</th>"
            "<th>host</th><th>GPU</th><th>peak</th><th>reserved</th>"
            "<th>held until exit</th><th>failures</th><th>duration</th></tr></thead>"
            "<tbody>\n",
            count);
    for (size_t i = 0; i < count && i < PROCESSES; i++)
        write_process(out, &processes[i], i + 1);
    fputs("</tbody></table>\n", out);
    sums_write(out, processes, count);
    fputs("</section>\n", out);
}

/* --- the end ------------------------------------------------------------------------ */

static void write_glossary(FILE *out)
{
    static const char *const words[][2] = {
        {"live", "bytes in blocks that are allocated and not yet freed, as requested"},
        {"peak",
         "the most live bytes at one instant, the first one if several are equal"},
        {"reserved", "bytes that a pool has from the device, live or not"},
        {"device used", "memory of the device that is not free, of all processes"},
        {"held until exit",
         "bytes that are live when the interpreter's exit begins, and that only the "
         "exit, a collection of cycles during it, or nothing frees"},
        {"site", "the innermost line of the program's own code in a call stack"},
        {"framework", "the library that this line calls"},
        {"lifetime",
         "from the end of the allocation to the start of the free, of blocks that the "
         "program frees before its exit"},
        {"reuse",
         "the number of allocations divided by the number of different addresses"},
    };

    fputs("<section id=\"tarn-glossary\"><h2>Glossary</h2>\n<dl>\n", out);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        fprintf(out, "<dt>%s</dt><dd>%s</dd>\n", words[i][0], words[i][1]);
    fputs("</dl></section>\n", out);
}

static void write_data(FILE *out, struct process *process, size_t number)
{
    struct bytes data = {.count = 0};

    encode_findings(&process->findings, &process->block);
    data_block_write(&process->block, &data);
    fprintf(out, "<script type=\"text/plain\" id=\"tarn-data-%zu\">", number);
    digest_base64(out, data.data, data.count);
    fputs("</script>\n", out);
    bytes_free(&data);
}

void page_write(FILE *out, struct process *processes, size_t count, bool compares)
{
    write_head(out, &processes[0]);
    write_facts(out, &processes[0]);
    fputs("<main id=\"tarn-report\">\n", out);
    write_findings(out, processes, count);
    if (compares)
        write_compared(out, &processes[0], &processes[1]);
    fwrite(processes[0].html, 1, processes[0].html_bytes, out);
    if (count > 1)
        write_processes(out, processes, count);
    write_glossary(out);
    fputs("</main>\n", out);
    for (size_t i = 0; i < count; i++)
        write_data(out, &processes[i], i);
    fprintf(out,
            "<script type=\"text/plain\" id=\"tarn-page\">blocks=%zu\ncompare=%d\n"
            "tarn=%s\n</script>\n<script>",
            count, compares, tarn_version());
    fwrite(page_script, 1, page_script_bytes, out);
    fputs("</script>\n</body>\n</html>\n", out);
}
