/* log_rows.c -- the queue of the rows of the log, and their way to the file.
 *
 * The queue has a bounded length; the oldest rows are dropped when it is full. A row goes
 * to the file when all before it are complete.
 */
#include "log_rows.h"
#include "live.h"
#include "log_file.h"

#include <stdio.h>
#include <unistd.h>
#include <sys/syscall.h>

enum { ROWS_MAX = 65536 }; /* rows that csv_log() remembers */

struct tarn__log_rows tarn__log_rows = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Row number n is rows[n % ROWS_MAX]. 8 MiB, of which the system gives what is written. */
static struct tarn__log_row rows[ROWS_MAX];

/* --- rows out ----------------------------------------------------------------------- */

/* The time of a row. A text counts from the oldest row, a binary log as its writer. Lock
 * held. */
static uint64_t time_in(const tarn_trace_writer *out, uint64_t time_ns)
{
    if (tarn_trace_writer_format(out) == TARN_TRACE_BINARY)
        return tarn_trace_writer_time_ns(out, time_ns);
    return time_ns - tarn__log_rows.began_ns;
}

tarn_status tarn__log_rows_write(tarn_trace_writer *out, const struct tarn__log_row *row)
{
    char location[4200] = "";
    const struct tarn__log_call *call = &row->call;

    if (call->site.file && call->site.line > 0)
        snprintf(location, sizeof location, "%s:%d", call->site.file, call->site.line);
    else if (call->site.file)
        snprintf(location, sizeof location, "%s", call->site.file);
    const tarn_trace_event event = {.action = call->action,
                                    .device = call->device,
                                    .address = call->address,
                                    .stream = call->stream,
                                    .bytes = call->bytes,
                                    .thread = row->thread,
                                    .free_bytes = call->free_bytes,
                                    .total_bytes = call->total_bytes,
                                    .live_blocks = row->live,
                                    .start_ns = time_in(out, call->start_ns),
                                    .end_ns = time_in(out, call->end_ns),
                                    .location = location,
                                    .stack = call->stack};
    return tarn_trace_write(out, &event);
}

struct tarn__log_row *tarn__log_rows_at(uint64_t number)
{
    return &rows[number % ROWS_MAX];
}

tarn_status tarn__log_rows_open_file(void)
{
    tarn__log_rows.written = tarn__log_rows.first;
    return tarn__log_file_open(&tarn__log_rows.out);
}

/* The file is opened with the first row. The program goes on without one. */
void tarn__log_rows_drain(void)
{
    if (tarn__log_file_is_due() && tarn__log_rows.next > tarn__log_rows.first &&
        tarn__log_rows_open_file() != TARN_OK)
        fprintf(stderr, "tarn: warning: %s\n", tarn_error_last()->message);
    for (; tarn__log_rows.out && tarn__log_rows.written < tarn__log_rows.next;
         tarn__log_rows.written++) {
        const struct tarn__log_row *row = tarn__log_rows_at(tarn__log_rows.written);
        if (!row->complete)
            break;
        if (!row->withdrawn)
            tarn__log_rows_write(tarn__log_rows.out, row); /* it warns of a failure */
    }
}

/* --- rows in ------------------------------------------------------------------------ */

/* Drop the oldest row; the file gets it first, complete or not. Lock held. */
static void drop_oldest(void)
{
    /* It may be a free that is still running. */
    tarn__log_rows_at(tarn__log_rows.first)->complete = true;
    tarn__log_rows_drain();
    tarn__log_rows.first++;
}

static void add_live(const struct tarn__log_call *call)
{
    const struct tarn__live_block block = {.address = call->address,
                                           .bytes = call->bytes,
                                           .device = call->device,
                                           .of_manager = call->of_manager,
                                           .site = call->site,
                                           .stack = call->stack};

    tarn__live_add(&block);
    tarn__log_rows.live++;
}

static void remove_live(const struct tarn__log_call *call)
{
    tarn__live_remove(call->address);
    if (tarn__log_rows.live > 0)
        tarn__log_rows.live--;
}

uint64_t tarn__log_rows_append(const struct tarn__log_call *call, bool complete)
{
    if (call->action == TARN_ACTION_ALLOCATE)
        add_live(call);
    else if (call->action == TARN_ACTION_FREE)
        remove_live(call);
    if (tarn__log_rows.next - tarn__log_rows.first == ROWS_MAX)
        drop_oldest();
    struct tarn__log_row *row = tarn__log_rows_at(tarn__log_rows.next);
    *row = (struct tarn__log_row){.call = *call,
                                  .thread = (uint64_t)syscall(SYS_gettid),
                                  .live = tarn__log_rows.live,
                                  .complete = complete};
    if (tarn__log_rows.began_ns == 0 || row->call.start_ns < tarn__log_rows.began_ns)
        tarn__log_rows.began_ns = row->call.start_ns;
    return tarn__log_rows.next++;
}

void tarn__log_rows_withdraw(uint64_t number)
{
    struct tarn__log_row *row = tarn__log_rows_at(number);

    row->withdrawn = true;
    tarn__log_rows.withdrawn++;
    add_live(&row->call);
    for (uint64_t n = number + 1; n < tarn__log_rows.next; n++)
        tarn__log_rows_at(n)->live++;
}
