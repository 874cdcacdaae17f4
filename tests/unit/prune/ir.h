/* ir.h -- helpers of the tests of the pruner: text in, counts and text out.
 *
 * Pointers are written `i8*`: LLVM 14 has no other way to write them, and newer ones still
 * read it.
 */
#ifndef TARN_TEST_PRUNE_IR_H
#define TARN_TEST_PRUNE_IR_H

#define _GNU_SOURCE /* open_memstream */

#include "test.h"
#include <stdlib.h>
#include <tarn/prune.h>

#define DECLARED                                                     \
    "declare void @NRT_incref(i8*)\ndeclare void @NRT_decref(i8*)\n" \
    "declare void @use(i8*) readonly\n@error = external global i8\n"

#define INCREF(value) "  call void @NRT_incref(i8* " value ")\n"
#define DECREF(value) "  call void @NRT_decref(i8* " value ")\n"
#define USE(value) "  call void @use(i8* " value ")\n"
#define RAISE "  store i8* @error, i8** %excinfo, !numba_exception_output !0\n"
#define ARGUMENTS "(i8** %excinfo, i8* %a, i8* %b, i1 %c0, i1 %c1)"
#define FUNCTION(body) \
    DECLARED "define void @f" ARGUMENTS " {\n" body "}\n!0 = !{i1 true}\n"

/* The results for a text. The next call frees `text`. */
struct outcome {
    tarn_prune_report report;
    char *text;
    uint64_t removed;
};

static inline struct outcome prune_with(const char *text, tarn_prune_options options)
{
    static char *last;
    struct outcome outcome;
    size_t bytes;

    tarn_prune_free(last);
    last = NULL;
    CHECK_OK(tarn_prune_bytes(text, strlen(text), "test", &options, &outcome.report,
                              &last, &bytes));
    CHECK_EQUAL(strlen(last), bytes);
    outcome.text = last;
    outcome.removed = outcome.report.per_block + outcome.report.diamond +
                      outcome.report.fanout + outcome.report.fanout_raise +
                      outcome.report.carried;
    return outcome;
}

static inline struct outcome prune_as(tarn_prune_mode mode, unsigned shapes,
                                      const char *text)
{
    return prune_with(text, (tarn_prune_options){.mode = mode, .shapes = shapes});
}

static inline struct outcome prune_soundly(const char *text)
{
    return prune_as(TARN_PRUNE_SOUND, 0, text);
}

/* --- graphs --------------------------------------------------------------------------- */

/* A function as a line of text, one word per block: its name, its operations, a colon,
 * and its successors. The first block is the entry. Operations: `+a` takes a reference to
 * the argument %a, `-b` releases one of %b, `*a` uses %a. `.` computes and accesses no
 * memory, and `!` is marked as a raise. */
static inline void write_operation(FILE *out, char what, char value)
{
    if (what == '!')
        fputs(RAISE, out);
    else
        fprintf(out, "  call void @%s(i8* %%%c)\n",
                what == '+'   ? "NRT_incref"
                : what == '-' ? "NRT_decref"
                              : "use",
                value);
}

static inline void write_end(FILE *out, char name, const char *targets, size_t count)
{
    if (count == 0)
        fputs("  ret void\n", out);
    else if (count == 1)
        fprintf(out, "  br label %%%c\n", *targets);
    else if (count == 2)
        fprintf(
            out,
            "  %%%c.to = call i1 @choose()\n  br i1 %%%c.to, label %%%c, label %%%c\n",
            name, name, targets[0], targets[1]);
    else {
        fprintf(out,
                "  %%%c.to = call i32 @number()\n  switch i32 %%%c.to, label %%%c [\n",
                name, name, *targets);
        for (size_t i = 1; i < count; i++)
            fprintf(out, "    i32 %zu, label %%%c\n", i, targets[i]);
        fputs("  ]\n", out);
    }
}

/* The length of a block's word, and of the part before its colon. */
static inline size_t word_length(const char *word, size_t *colon_out)
{
    *colon_out = strcspn(word, ":");
    return strcspn(word, " ");
}

static inline void write_block(FILE *out, const char *word)
{
    size_t colon, length = word_length(word, &colon);

    fprintf(out, "%c:\n", *word);
    for (size_t i = 1; i < colon; i++) {
        if (word[i] == '.')
            fprintf(out, "  %%%c.%zu = add i64 1, 2\n", *word, i);
        else
            write_operation(out, word[i], word[i + 1]);
        i += word[i] != '.' && word[i] != '!';
    }
    write_end(out, *word, word + colon + 1, length - colon - 1);
}

/* The caller frees the result. */
static inline char *ir_of(const char *graph)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    fputs(DECLARED "declare i1 @choose() readonly\ndeclare i32 @number() readonly\n"
                   "define void @f" ARGUMENTS " {\n",
          out);
    for (const char *word = graph; *word;) {
        write_block(out, word);
        word += strcspn(word, " ");
        word += strspn(word, " ");
    }
    fputs("}\n!0 = !{i1 true}\n", out);
    fclose(out);
    return text;
}

static inline struct outcome prune_graph(tarn_prune_options options, const char *graph)
{
    char *text = ir_of(graph);
    struct outcome outcome = prune_with(text, options);

    free(text);
    return outcome;
}

/* Count the occurrences of `what` in the text. */
static inline unsigned count_of(const char *text, const char *what)
{
    unsigned count = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
        count++;
    return count;
}

/* The same between the label `block` and the next one, or the function's end. */
static inline unsigned count_in(const char *text, const char *block, const char *what)
{
    char label[32];
    unsigned count = 0;

    snprintf(label, sizeof label, "\n%s:", block);
    const char *from = strstr(text, label);
    if (!from)
        fail_msg("there is no block %s", block);
    const char *end = strstr(from, "\n\n");
    const char *close = strstr(from, "\n}");
    if (!end || close < end)
        end = close;
    for (const char *at = from; (at = strstr(at, what)) != NULL && at < end; at++)
        count++;
    return count;
}

#endif
