/* Test reading binary logs: order, stacks, rings, and damage of all kinds. */
#define _GNU_SOURCE
#include "binary_log.h"
#include <inttypes.h>

/* What a reader passed on, one line for each call. */
struct told {
    char text[16384];
    size_t count;
    tarn_trace_end end;
    bool has_ended;
    tarn_status fail_mark; /* returned by on_mark */
};

static void tell(struct told *told, const char *format, ...) TARN_PRINTF(2, 3);

static void tell(struct told *told, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int count = vsnprintf(told->text + told->count, sizeof told->text - told->count,
                          format, arguments);
    va_end(arguments);
    CHECK(count >= 0 && (size_t)count < sizeof told->text - told->count);
    told->count += (size_t)count;
}

static tarn_status on_process(void *data, const tarn_trace_process *process)
{
    tell(data, "process %" PRIu64 " of %" PRIu64 " on %s: %s, %u gpus, %s, depth %u%s\n",
         process->pid, process->parent_pid, process->host, process->command,
         process->gpu_count, process->gpus[process->gpu_count - 1], process->stack_depth,
         process->is_ring ? ", ring" : "");
    return TARN_OK;
}

static tarn_status on_stack(void *data, tarn_stack stack, const tarn_stack_frame *frames,
                            size_t count)
{
    tell(data, "stack %u:", stack);
    for (size_t i = 0; i < count; i++)
        tell(data, " %s@%s:%d%s", frames[i].function, frames[i].file, frames[i].line,
             frames[i].build_id ? frames[i].build_id : "");
    tell(data, "\n");
    return TARN_OK;
}

static tarn_status on_event(void *data, const tarn_trace_event *event, uint64_t line)
{
    static const char *const names[] = {"alloc", "free", "failure"};

    tell(data,
         "%" PRIu64 " %s %" PRIx64 " %" PRIu64 " t%" PRIu64 " d%d %" PRIu64 "..%" PRIu64
         " s%u %s\n",
         line, names[event->action], event->address, event->bytes, event->thread,
         event->device, event->start_ns, event->end_ns, event->stack, event->location);
    return TARN_OK;
}

static tarn_status on_pool(void *data, const tarn_trace_pool_row *row)
{
    tell(data,
         "pool %" PRIu64 " cause %d at %" PRIu64 " reserved %" PRIu64 "%s, %zu blocks",
         row->pool, (int)row->cause, row->time_ns, row->reserved_bytes,
         row->report ? row->report->upstream_message : "", row->block_count);
    for (size_t i = 0; i < row->block_count; i++)
        tell(data, " %" PRIx64, (uint64_t)row->blocks[i].address);
    tell(data, "\n");
    return TARN_OK;
}

static tarn_status on_mark(void *data, const char *name, uint64_t time_ns)
{
    tell(data, "mark %s at %" PRIu64 "\n", name, time_ns);
    return ((struct told *)data)->fail_mark;
}

static tarn_status on_end(void *data, const tarn_trace_end *end)
{
    struct told *told = data;

    told->end = *end;
    told->has_ended = true;
    return TARN_OK;
}

static const tarn_trace_handlers handlers = {
    sizeof handlers, on_process, on_stack, on_event, on_pool, on_mark, on_end};

/* Read a log in portions, and compare what it tells with `expected`. */
static void check_told(struct text *text, size_t portion, const char *expected,
                       tarn_trace_end *end)
{
    struct told *told = calloc(1, sizeof *told);
    tarn_trace_format format;

    text->at = 0;
    text->portion = portion;
    CHECK_OK(
        tarn_trace_read_all("a.tarn", text_read, text, NULL, &handlers, told, &format));
    CHECK_EQUAL(TARN_TRACE_BINARY, format);
    const char *body = strchr(told->text, '\n') + 1; /* behind the process */
    CHECK_TEXT(expected, body);
    CHECK(told->has_ended);
    if (end)
        *end = told->end;
    free(told);
}

static struct text log_new(uint32_t ring)
{
    struct text text = {0};

    log_begin(&text, ring, 1);
    return text;
}

/* Read a log that is rejected with that status and message. */
static void check_fails(struct text *text, tarn_status expected, const char *says)
{
    struct told *told = calloc(1, sizeof *told);

    text->at = 0;
    CHECK_STATUS(expected, tarn_trace_read_all("a.tarn", text_read, text, NULL, &handlers,
                                               told, NULL));
    if (strncmp(tarn_error_last()->message, says, strlen(says)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", tarn_error_last()->message, says);
    CHECK(!told->has_ended);
    free(told);
}

TEST(binary_reader_merges_the_rows_of_all_threads_by_time)
{
    struct text text = log_new(0);
    struct log_chunk idle = log_chunk(ROWS, 0, 5, 1, 1);
    struct log_chunk busy = log_chunk(ROWS, 1, 10, 2, 1);
    struct log_chunk late = log_chunk(ROWS, 2, 40, 2, 1);
    struct log_chunk unused = {.size = LOG_CHUNK};
    static struct told told;
    tarn_trace_end end;

    log_add(&idle, (struct log_row){.time = 10, .address = 0xa, .bytes = 8});
    log_add(&idle, (struct log_row){.time = 90, .address = 0xa, .action = FREE});
    log_add(&busy, (struct log_row){.time = 30, .address = 0xb, .bytes = 9});
    log_add(&busy, (struct log_row){.time = 31, .address = 0xb, .action = FREE});
    log_add(&late, (struct log_row){.time = 40, .bytes = 7, .action = FAILURE});
    log_append(&text, &idle);
    log_append(&text, &busy);
    log_append(&text, &late);
    for (size_t portion = 1; portion < 9000; portion = portion * 7 + 1)
        check_told(&text, portion,
                   "1 alloc a 8 t1 d1 10..10 s0 \n"
                   "2 alloc b 9 t2 d1 30..30 s0 \n"
                   "3 free b 0 t2 d1 31..31 s0 \n"
                   "4 failure 0 7 t2 d1 40..40 s0 \n"
                   "5 free a 0 t1 d1 90..90 s0 \n",
                   &end);
    CHECK_EQUAL(0, end.torn_rows + end.moved_rows + end.lost_rows + end.begin_ns);
    CHECK(!end.is_cut);
    log_append(&text, &unused); /* preallocated: its program did not trim the log */
    text.at = 0;
    CHECK_OK(tarn_trace_read_all("a", text_read, &text, NULL, &handlers,
                                 memset(&told, 0, sizeof told), NULL));
    CHECK(told.end.is_cut);
    text_free(&text);
}

TEST(binary_reader_passes_on_the_process_first)
{
    struct text text = log_new(0);
    struct told *told = calloc(1, sizeof *told);

    CHECK_OK(tarn_trace_read_all("a", text_read, &text, NULL, &handlers, told, NULL));
    CHECK_TEXT("process 4711 of 17 on box: python a.py, 2 gpus, GPU-7, depth 16\n",
               told->text);
    free(told);
    text_free(&text);
}

TEST(binary_reader_gives_an_allocation_its_end_and_a_free_its_start)
{
    struct text text = log_new(0);
    struct log_chunk chunk = log_chunk(ROWS, 0, 0, 1, 1);

    log_add(&chunk, (struct log_row){.time = 100, .address = 1, .duration = 30});
    log_add(&chunk,
            (struct log_row){.time = 100, .address = 1, .duration = 30, .action = FREE});
    log_add(&chunk, (struct log_row){.time = 100, .address = 2, .duration = 500});
    log_append(&text, &chunk);
    check_told(&text, 0,
               "1 alloc 1 0 t1 d1 70..100 s0 \n"
               "2 free 1 0 t1 d1 100..130 s0 \n"
               "3 alloc 2 0 t1 d1 0..100 s0 \n",
               NULL);
    text_free(&text);
}

TEST(binary_reader_gives_a_chunk_to_the_next_thread)
{
    struct text text = log_new(0);
    struct log_chunk chunk = log_chunk(ROWS, 0, 0, 1, 1);

    log_add(&chunk, (struct log_row){.time = 5, .address = 1});
    log_add(&chunk, (struct log_row){.address = 77, .action = THREAD});
    log_add(&chunk, (struct log_row){.time = 6, .address = 2});
    log_append(&text, &chunk);
    check_told(&text, 0, "1 alloc 1 0 t1 d1 5..5 s0 \n2 alloc 2 0 t77 d1 6..6 s0 \n",
               NULL);
    text_free(&text);
}

TEST(binary_reader_names_the_users_frame_of_a_stack)
{
    struct text text = log_new(0);
    struct log_chunk names = log_chunk(RECORDS, 0, 0, 0, 1);
    struct log_chunk rows = log_chunk(ROWS, 1, 0, 1, 1);

    log_string(&names, 1, "load");
    log_string(&names, 2, "/v/lib/python3.12/site-packages/cupy/x.py");
    log_string(&names, 3, "/home/me/a.py");
    log_string(&names, 4, "abcd");
    log_string(&names, 5, "<exit>");
    log_frame(&names, 1, 1, 2, 7, 0);  /* a package */
    log_frame(&names, 2, 1, 3, 42, 0); /* the user's */
    log_frame(&names, 3, 1, 2, 0, 4);  /* native */
    log_frame(&names, 4, 0, 5, 0, 0);
    log_stack(&names, 1, (uint32_t[]){1, 3, 2, 0});
    log_stack(&names, 2, (uint32_t[]){3, 0});
    log_stack(&names, 3, (uint32_t[]){4, 0});
    log_append(&text, &names);
    for (uint32_t stack = 1; stack <= 4; stack++)
        log_add(&rows, (struct log_row){.time = stack, .address = 1, .stack = stack});
    log_append(&text, &rows);
    check_told(&text, 0,
               "stack 1: load@/v/lib/python3.12/site-packages/cupy/x.py:7 "
               "load@/v/lib/python3.12/site-packages/cupy/x.py:0abcd "
               "load@/home/me/a.py:42\n"
               "stack 2: load@/v/lib/python3.12/site-packages/cupy/x.py:0abcd\n"
               "stack 3: @<exit>:0\n"
               "1 alloc 1 0 t1 d1 1..1 s1 /home/me/a.py:42\n"
               "2 alloc 1 0 t1 d1 2..2 s2 load\n"
               "3 alloc 1 0 t1 d1 3..3 s3 <exit>\n"
               "4 alloc 1 0 t1 d1 4..4 s0 \n",
               NULL);
    text_free(&text);
}

TEST(binary_reader_sorts_marks_and_pool_rows_among_the_rows)
{
    struct text text = log_new(0);
    struct log_chunk names = log_chunk(RECORDS, 0, 0, 0, 1);
    struct log_chunk rows = log_chunk(ROWS, 2, 0, 1, 1);
    unsigned char pool[56 + 48] = {0};
    tarn_trace_end end;

    log_string(&names, 1, "<exit>");
    log_mark(&names, 15, 1);
    log_put(pool, 12, 8);          /* time */
    log_put(pool + 8, 3, 8);       /* pool */
    log_put(pool + 16, 4096, 8);   /* reserved */
    log_put(pool + 32, 2, 4);      /* cause */
    log_put(pool + 48, 1, 8);      /* blocks */
    log_put(pool + 56, 0xf00d, 8); /* address of the block */
    log_record(&names, POOL, pool, sizeof pool);
    log_put(pool + 48, UINT64_MAX / 48, 8); /* a count that the record does not have */
    log_record(&names, POOL, pool, sizeof pool);
    log_lost(&names, 16, 5);
    log_append(&text, &names);
    log_add(&rows, (struct log_row){.time = 10, .address = 1});
    log_add(&rows, (struct log_row){.time = 20, .address = 2});
    log_append(&text, &rows);
    check_told(&text, 0,
               "1 alloc 1 0 t1 d1 10..10 s0 \n"
               "pool 3 cause 2 at 12 reserved 4096, 1 blocks f00d\n"
               "mark <exit> at 15\n"
               "2 alloc 2 0 t1 d1 20..20 s0 \n",
               &end);
    CHECK_EQUAL(5, end.lost_rows);
    CHECK_EQUAL(1, end.torn_rows);
    text_free(&text);
}

TEST(binary_reader_leaves_torn_rows_out_and_reads_their_neighbours)
{
    struct text text = log_new(0);
    struct log_chunk chunk = log_chunk(ROWS, 0, 0, 1, 1);
    tarn_trace_end end;

    for (uint64_t i = 1; i <= 4; i++)
        log_add(&chunk, (struct log_row){.time = i, .address = i});
    chunk.bytes[64 + 48 + 8] ^= 1;                 /* the address of the second row */
    log_put(chunk.bytes + 64 + 3 * 48 + 44, 0, 4); /* the last has no check yet */
    log_append(&text, &chunk);
    check_told(&text, 0, "1 alloc 1 0 t1 d1 1..1 s0 \n2 alloc 3 0 t1 d1 3..3 s0 \n",
               &end);
    CHECK_EQUAL(2, end.torn_rows);
    text_free(&text);
}

TEST(binary_reader_leaves_damaged_chunks_and_records_out)
{
    struct text text = log_new(0);
    struct log_chunk damaged = log_chunk(ROWS, 0, 0, 1, 1);
    struct log_chunk unused = {.size = LOG_CHUNK};
    struct log_chunk names = log_chunk(RECORDS, 1, 0, 1, 1);
    tarn_trace_end end;

    log_add(&damaged, (struct log_row){.time = 1, .address = 1});
    damaged.bytes[40] ^= 2;
    log_append(&text, &damaged);
    unused.bytes[8] = 1; /* its process was killed before it stored the magic */
    log_append(&text, &unused);
    log_string(&names, 1, "one");
    names.bytes[64 + 16 + 8] ^= 1;
    log_string(&names, 1, "two");
    log_mark(&names, 3, 1);
    log_put(names.bytes + names.at, 1u << 30, 4); /* a record that ends nowhere */
    log_append(&text, &names);
    check_told(&text, 0, "mark two at 3\n", &end);
    CHECK_EQUAL(3, end.torn_rows);
    text_free(&text);
}

TEST(binary_reader_reads_a_cut_log_to_its_last_row)
{
    struct text text = log_new(0);
    struct log_chunk chunk = log_chunk(ROWS, 0, 0, 1, 1);
    tarn_trace_end end;

    for (uint64_t i = 1; i <= 4; i++)
        log_add(&chunk, (struct log_row){.time = i, .address = i});
    log_append(&text, &chunk);
    text.count = LOG_HEADER + 64 + 2 * 48 + 17;
    check_told(&text, 0, "1 alloc 1 0 t1 d1 1..1 s0 \n2 alloc 2 0 t1 d1 2..2 s0 \n",
               &end);
    CHECK(end.is_cut);
    CHECK_EQUAL(1, end.torn_rows);
    text_free(&text);
}

TEST(binary_reader_moves_rows_that_come_too_late)
{
    struct text text = log_new(0);
    struct log_chunk first = log_chunk(ROWS, 0, 0, 1, 1);
    struct log_chunk second = log_chunk(ROWS, 1, 50, 2, 1);
    tarn_trace_end end;

    log_add(&first, (struct log_row){.time = 40, .address = 1});
    log_add(&second, (struct log_row){.time = 30, .address = 2, .duration = 3});
    log_append(&text, &first);
    log_append(&text, &second);
    check_told(&text, 0, "1 alloc 1 0 t1 d1 40..40 s0 \n2 alloc 2 0 t2 d1 37..40 s0 \n",
               &end);
    CHECK_EQUAL(1, end.moved_rows);
    text_free(&text);
}

TEST(binary_reader_reads_a_record_that_spans_chunks)
{
    struct text text = log_new(0);
    struct log_chunk names = log_chunk(RECORDS, 0, 0, 0, 4);
    struct log_chunk rows = log_chunk(ROWS, 4, 0, 1, 1);
    unsigned char payload[3000] = {1};

    memset(payload + 8, 'x', sizeof payload - 8);
    log_record(&names, STRING, payload, sizeof payload);
    log_mark(&names, 9, 1);
    log_append(&text, &names);
    log_add(&rows, (struct log_row){.time = 10, .address = 1});
    log_append(&text, &rows);
    char *expected = malloc(4096);
    strcpy(expected, "mark ");
    memset(expected + 5, 'x', 2992);
    strcpy(expected + 5 + 2992, " at 9\n1 alloc 1 0 t1 d1 10..10 s0 \n");
    check_told(&text, 100, expected, NULL);
    free(expected);
    text_free(&text);
}

TEST(binary_reader_rejects_a_newer_version_and_a_damaged_header)
{
    struct text newer = {0}, damaged = log_new(0), brief = log_new(0);

    log_begin(&newer, 0, 2);
    check_fails(&newer, TARN_BAD_FORMAT,
                "a.tarn: a binary log of version 2.0; this Tarn reads version 1");
    damaged.bytes[80] ^= 1;
    check_fails(&damaged, TARN_BAD_FORMAT,
                "a.tarn: the header of the binary log is damaged");
    brief.count = 100;
    check_fails(&brief, TARN_BAD_FORMAT,
                "a.tarn: a binary log that ends inside its header, after 100 bytes");
    text_free(&newer);
    text_free(&damaged);
    text_free(&brief);
}

TEST(binary_reader_returns_the_status_of_a_handler)
{
    struct text text = log_new(0);
    struct log_chunk names = log_chunk(RECORDS, 0, 0, 0, 1);
    struct told *told = calloc(1, sizeof *told);

    log_string(&names, 1, "m");
    log_mark(&names, 1, 1);
    log_append(&text, &names);
    told->fail_mark = TARN_PLUGIN_FAILURE;
    CHECK_STATUS(TARN_PLUGIN_FAILURE, tarn_trace_read_all("a.tarn", text_read, &text,
                                                          NULL, &handlers, told, NULL));
    CHECK_TEXT("a.tarn: the callback rejected the mark without a message",
               tarn_error_last()->message);
    CHECK(!told->has_ended);
    free(told);
    text_free(&text);
}

/* A checkpoint of one block in `parts` chunks, of which one is appended. */
static void add_checkpoint(struct text *text, uint64_t number, uint64_t checkpoint,
                           uint64_t start_ns, uint64_t address, uint32_t parts)
{
    struct log_chunk live = log_chunk(LIVE, number, start_ns, checkpoint, parts);

    log_add(&live, (struct log_row){.time = 3, .address = address, .bytes = 8});
    log_append(text, &live);
}

TEST(binary_reader_begins_a_ring_with_its_newest_complete_checkpoint)
{
    struct text text = log_new(2);
    struct log_chunk newest = log_chunk(ROWS, 9, 200, 1, 1);
    struct log_chunk older = log_chunk(ROWS, 7, 90, 1, 1);
    struct log_chunk unused = {.size = LOG_CHUNK};
    tarn_trace_end end;

    log_add(&newest, (struct log_row){.time = 210, .address = 0xb});
    log_add(&newest, (struct log_row){.time = 220, .address = 0xa, .action = FREE});
    log_append(&text, &newest);
    log_append(&text, &unused);
    add_checkpoint(&text, 5, 1, 50, 0xc, 1);
    add_checkpoint(&text, 6, 2, 100, 0xa, 1);
    add_checkpoint(&text, 8, 3, 150, 0xd, 2); /* one of its two chunks */
    log_add(&older, (struct log_row){.time = 99, .address = 0xe});
    log_add(&older, (struct log_row){.time = 100, .address = 0xf});
    older.bytes[64 + 2 * 48] = 1; /* of an earlier use */
    log_append(&text, &older);
    check_told(&text, 0,
               "1 alloc a 8 t0 d1 3..3 s0 \n"
               "2 alloc f 0 t1 d1 100..100 s0 \n"
               "3 alloc b 0 t1 d1 210..210 s0 \n"
               "4 free a 0 t1 d1 220..220 s0 \n",
               &end);
    CHECK_EQUAL(100, end.begin_ns);
    CHECK_EQUAL(0, end.torn_rows);
    text_free(&text);
}

/* Rows of a checkpoint are in no order of time. A chunk whose rows are all older has none. */
TEST(binary_reader_joins_the_chunks_of_a_checkpoint_and_sorts_their_rows)
{
    struct text text = log_new(2);
    struct log_chunk first = log_chunk(LIVE, 1, 100, 1, 2);
    struct log_chunk second = log_chunk(LIVE, 2, 100, 1, 2);
    struct log_chunk older = log_chunk(ROWS, 0, 10, 1, 1);
    tarn_trace_end end;

    log_add(&first, (struct log_row){.time = 9, .address = 0xc, .bytes = 8});
    log_add(&first, (struct log_row){.time = 3, .address = 0xa, .bytes = 8});
    log_add(&second, (struct log_row){.time = 5, .address = 0xb, .bytes = 8});
    log_add(&older, (struct log_row){.time = 20, .address = 0xd});
    log_append(&text, &second);
    log_append(&text, &older);
    log_append(&text, &first);
    check_told(&text, 0,
               "1 alloc a 8 t0 d1 3..3 s0 \n"
               "2 alloc b 8 t0 d1 5..5 s0 \n"
               "3 alloc c 8 t0 d1 9..9 s0 \n",
               &end);
    CHECK_EQUAL(100, end.begin_ns);
    CHECK_EQUAL(0, end.torn_rows);
    text_free(&text);
}

/* Two chunks of one checkpoint have different times: it is none, and an older one counts. */
TEST(binary_reader_ignores_a_checkpoint_whose_chunks_differ)
{
    struct text text = log_new(2);
    struct log_chunk other = log_chunk(LIVE, 4, 201, 2, 2);
    tarn_trace_end end;

    add_checkpoint(&text, 1, 1, 100, 0xa, 1);
    add_checkpoint(&text, 3, 2, 200, 0xb, 2);
    log_add(&other, (struct log_row){.time = 3, .address = 0xc, .bytes = 8});
    log_append(&text, &other);
    check_told(&text, 0, "1 alloc a 8 t0 d1 3..3 s0 \n", &end);
    CHECK_EQUAL(100, end.begin_ns);
    text_free(&text);
}

/* Read a log with this record between a string and a mark, which are read. */
static void check_passed_over(int kind, const char *payload, size_t bytes,
                              uint64_t torn_rows)
{
    struct text text = log_new(0);
    struct log_chunk names = log_chunk(RECORDS, 0, 0, 0, 1);
    tarn_trace_end end;

    log_string(&names, 1, "one");
    log_record(&names, kind, payload, bytes);
    log_mark(&names, 3, 1);
    log_append(&text, &names);
    check_told(&text, 0, "mark one at 3\n", &end);
    CHECK_EQUAL(torn_rows, end.torn_rows);
    text_free(&text);
}

/* A newer minor version may add kinds of records. */
TEST(binary_reader_passes_over_records_of_unknown_kinds)
{
    enum { UNKNOWN = 99 };

    check_passed_over(UNKNOWN, "whatever", 8, 0);
}

TEST(binary_reader_leaves_out_a_record_that_is_too_short_for_its_time)
{
    check_passed_over(POOL, "1234", 4, 1);
}

TEST(binary_reader_bounds_what_a_stranger_claims)
{
    struct text text = log_new(0);
    struct log_chunk names = log_chunk(RECORDS, 0, 0, 0, 1);

    log_put(names.bytes + 40, UINT32_MAX, 4); /* chunks of the record */
    log_put(names.bytes + 44, log_crc(0, names.bytes, 44), 4);
    log_append(&text, &names);
    check_fails(&text, TARN_OUT_OF_MEMORY,
                "a.tarn: a record of 4294967295 chunks in a binary log");
    text_free(&text);
}

TEST(binary_reader_reads_events_alone)
{
    struct text text = log_new(0);
    struct log_chunk chunk = log_chunk(ROWS, 0, 0, 1, 1);
    struct events events = {0};
    tarn_trace_format format;

    log_add(&chunk, (struct log_row){.time = 5, .address = 1, .bytes = 64});
    log_append(&text, &chunk);
    CHECK_OK(tarn_trace_read("a", text_read, &text, NULL, events_take, &events, &format));
    CHECK_EQUAL(TARN_TRACE_BINARY, format);
    CHECK_EQUAL(1, events.count);
    CHECK_EQUAL(64, events.items[0].bytes);
    events_free(&events);
    text_free(&text);
}

TEST(reader_ends_a_log_of_text_with_an_end)
{
    struct text text = text_of(RMM_HEADER "1,00:00:00.5,allocate,0x10,5,0\n");
    struct told *told = calloc(1, sizeof *told);

    CHECK_OK(tarn_trace_read_all("a", text_read, &text, NULL, &handlers, told, NULL));
    CHECK(told->has_ended && !told->end.is_cut);
    CHECK_EQUAL(sizeof(tarn_trace_end), told->end.size);
    free(told);
    text_free(&text);
}

TEST(reader_rejects_handlers_of_a_wrong_size)
{
    struct text text = text_of(RMM_HEADER);
    tarn_trace_handlers short_ones = {.size = 8};

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_trace_read_all("a", text_read, &text, NULL,
                                                            &short_ones, NULL, NULL));
    text_free(&text);
}
