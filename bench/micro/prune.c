/* prune.c -- measure the pruner, in process, on modules from files and on large
 * functions.
 *
 *     build/release/bin/bench-prune [FILE...]
 *
 * Each module is read into an LLVM context of its own. The time is that of
 * tarn_prune_module() alone, the best of three rounds with a fresh copy each. Beside it
 * is the cost of reading and writing the module as bitcode, the overhead if an LLVM
 * cannot be shared. tools/prune_compare.py compares llvmlite's pass. Then come functions
 * of up to 100,000 blocks: time per block should not grow.
 */
#define _GNU_SOURCE
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/prune.h>
#include <time.h>

enum { ROUNDS = 3 };

/* The time of one kind of module, in nanoseconds, and the removals. */
struct sum {
    double prune_ns[2], trip_ns; /* by mode */
    uint64_t removed[2], gave_up[2], peak_bytes[2];
};

static double now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static LLVMModuleRef read_ir(LLVMContextRef context, const char *ir, size_t bytes)
{
    LLVMModuleRef module;
    char *message;
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, bytes, "bench");

    if (!LLVMParseIRInContext(context, buffer, &module, &message))
        return module;
    fprintf(stderr, "bench-prune: %s\n", message);
    exit(1);
}

static double time_prune(const char *ir, size_t bytes, tarn_prune_mode mode,
                         tarn_prune_report *report)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = read_ir(context, ir, bytes);
    tarn_prune_options options = {.mode = mode};
    double started = now_ns();

    if (tarn_prune_module(module, &options, report) != TARN_OK) {
        fprintf(stderr, "bench-prune: %s\n", tarn_error_last()->message);
        exit(1);
    }
    double took = now_ns() - started;
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return took;
}

static double time_trip(const char *ir, size_t bytes)
{
    LLVMContextRef context = LLVMContextCreate();
    double started = now_ns();
    LLVMModuleRef module = read_ir(context, ir, bytes);

    LLVMDisposeMemoryBuffer(LLVMWriteBitcodeToMemoryBuffer(module));
    double took = now_ns() - started;
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return took;
}

static void keep_lower(double *best, double took)
{
    if (*best == 0 || took < *best)
        *best = took;
}

static void add(struct sum *sum, const char *ir, size_t bytes)
{
    tarn_prune_report report;
    double best[2] = {0}, trip = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (int mode = 0; mode < 2; mode++)
            keep_lower(&best[mode],
                       time_prune(ir, bytes, (tarn_prune_mode)mode, &report));
        keep_lower(&trip, time_trip(ir, bytes));
    }
    for (int mode = 0; mode < 2; mode++) {
        time_prune(ir, bytes, (tarn_prune_mode)mode, &report);
        sum->prune_ns[mode] += best[mode];
        sum->removed[mode] += report.per_block + report.diamond + report.fanout +
                              report.fanout_raise + report.carried;
        sum->gave_up[mode] += report.gave_up;
        if (report.peak_bytes > sum->peak_bytes[mode])
            sum->peak_bytes[mode] = report.peak_bytes;
    }
    sum->trip_ns += trip;
}

static char *read_file(const char *path, size_t *bytes_out)
{
    FILE *file = fopen(path, "rb");
    char *bytes;

    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(1);
    }
    *bytes_out = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*bytes_out + 1);
    if (!bytes || fread(bytes, 1, *bytes_out, file) != *bytes_out) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return bytes;
}

static void bench_files(int count, char **paths)
{
    static const char *const names[] = {"sound", "llvmlite"};
    struct sum sum = {.trip_ns = 0};

    for (int i = 0; i < count; i++) {
        size_t bytes;
        char *ir = read_file(paths[i], &bytes);
        add(&sum, ir, bytes);
        free(ir);
    }
    printf("%d modules, there and back as bitcode %.1f ms\n", count, sum.trip_ns / 1e6);
    for (int mode = 0; mode < 2; mode++)
        printf("  %-8s %8.2f ms, %llu removed, gave up %llu times, at most %llu KiB\n",
               names[mode], sum.prune_ns[mode] / 1e6,
               (unsigned long long)sum.removed[mode],
               (unsigned long long)sum.gave_up[mode],
               (unsigned long long)sum.peak_bytes[mode] >> 10);
}

/* --- large functions --------------------------------------------------------------------- */

/* A row of branches, each around a pair, and one pair around them all. */
static void write_row(FILE *out, int blocks)
{
    fputs("  call void @NRT_incref(i8* %a)\n  br label %h0\n", out);
    for (int i = 0; i < blocks / 4; i++)
        fprintf(
            out,
            "h%d:\n  %%v%d = getelementptr i8, i8* %%a, i64 %d\n"
            "  call void @NRT_incref(i8* %%v%d)\n  br i1 %%c, label %%l%d, label %%r%d\n"
            "l%d:\n  br label %%t%d\nr%d:\n  br label %%t%d\n"
            "t%d:\n  call void @NRT_decref(i8* %%v%d)\n  br label %%h%d\n",
            i, i, i, i, i, i, i, i, i, i, i, i, i + 1);
    fprintf(out, "h%d:\n  call void @NRT_decref(i8* %%a)\n  ret void\n", blocks / 4);
}

/* One reference over a row of branches that have none. */
static void write_bare(FILE *out, int blocks)
{
    fputs("  call void @NRT_incref(i8* %a)\n  br label %h0\n", out);
    for (int i = 0; i < blocks / 3; i++)
        fprintf(out,
                "h%d:\n  br i1 %%c, label %%l%d, label %%r%d\n"
                "l%d:\n  br label %%h%d\nr%d:\n  br label %%h%d\n",
                i, i, i, i, i + 1, i, i + 1);
    fprintf(out,
            "h%d:\n  br i1 %%c, label %%x, label %%y\n"
            "x:\n  call void @NRT_decref(i8* %%a)\n  ret void\n"
            "y:\n  call void @NRT_decref(i8* %%a)\n  ret void\n",
            blocks / 3);
}

/* Pairs inside pairs. */
static void write_nest(FILE *out, int blocks)
{
    int depth = blocks / 2;

    fputs("  br label %h0\n", out);
    for (int i = 0; i < depth; i++)
        fprintf(out,
                "h%d:\n  %%v%d = getelementptr i8, i8* %%a, i64 %d\n"
                "  call void @NRT_incref(i8* %%v%d)\n  br label %%h%d\n",
                i, i, i, i, i + 1);
    fprintf(out, "h%d:\n  br label %%t%d\n", depth, depth);
    for (int i = depth; i > 0; i--)
        fprintf(out, "t%d:\n  call void @NRT_decref(i8* %%v%d)\n  br label %%t%d\n", i,
                i - 1, i - 1);
    fputs("t0:\n  ret void\n", out);
}

static const struct {
    const char *name;
    void (*write)(FILE *out, int blocks);
    int llvmlite_blocks; /* as far as its rules end in a reasonable time */
} large[] = {
    {"a row of pairs", write_row, 100000},
    {"one fan over all", write_bare, 100000},
    {"pairs inside pairs", write_nest, 0}, /* a round a level */
};

static void bench_large(void (*write)(FILE *, int), int blocks, int llvmlite_blocks)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    fputs("declare void @NRT_incref(i8*)\ndeclare void @NRT_decref(i8*)\n"
          "define void @f(i8* %a, i1 %c) {\n",
          out);
    write(out, blocks);
    fputs("}\n", out);
    fclose(out);
    for (int mode = 0; mode < 2; mode++) {
        tarn_prune_report report;
        if (mode == TARN_PRUNE_LLVMLITE && blocks > llvmlite_blocks)
            continue;
        double took = time_prune(text, bytes, (tarn_prune_mode)mode, &report);
        printf(
            "  %8d blocks, %-8s %9.2f ms, %6.0f ns a block, %7llu removed, gave up %llu "
            "times, %llu KiB\n",
            blocks, mode ? "llvmlite" : "sound", took / 1e6, took / blocks,
            (unsigned long long)(report.per_block + report.diamond + report.fanout +
                                 report.fanout_raise + report.carried),
            (unsigned long long)report.gave_up,
            (unsigned long long)report.peak_bytes >> 10);
    }
    free(text);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1)
        bench_files(argc - 1, argv + 1);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        printf("%s\n", large[i].name);
        for (int blocks = 1000; blocks <= 100000; blocks *= 10)
            bench_large(large[i].write, blocks, large[i].llvmlite_blocks);
    }
    return 0;
}
