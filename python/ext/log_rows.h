/* log_rows.h -- the queue of the rows of the log, and their way to the file. */
#ifndef TARN_PYTHON_LOG_ROWS_H
#define TARN_PYTHON_LOG_ROWS_H

#include "log_call.h"

#include <pthread.h>

struct tarn__log_row {
    struct tarn__log_call call;
    uint64_t thread;
    uint64_t live; /* live blocks after it */
    bool complete;
    bool withdrawn; /* of a free that failed: not shown */
};

/* The queue of this process. */
extern struct tarn__log_rows {
    pthread_mutex_t lock;   /* guards the queue, the failed frees and the file */
    uint64_t first, next;   /* numbers of the oldest row kept, and of the next one */
    uint64_t written;       /* rows below this number are in the file */
    uint64_t lost;          /* rows of failed frees for which there was no memory */
    uint64_t withdrawn;     /* rows that were removed again */
    uint64_t live;          /* live blocks */
    uint64_t began_ns;      /* when the log began; 0: not yet */
    tarn_trace_writer *out; /* the file, or NULL; flushes itself in a second, at exit */
} tarn__log_rows;

/* Append a row, and return its number. Lock held, as for the functions below. */
uint64_t tarn__log_rows_append(const struct tarn__log_call *call, bool complete);
/* Remove the row of a free as if it had never been added. */
void tarn__log_rows_withdraw(uint64_t number);

/* Return the row of a number from `first` to below `next`. */
struct tarn__log_row *tarn__log_rows_at(uint64_t number);
/* Open the file that is due, for the rows in memory and later ones. */
tarn_status tarn__log_rows_open_file(void);
/* Write the complete rows up to the first incomplete one to the file. */
void tarn__log_rows_drain(void);
/* Write a row to a log, the file or another one. */
tarn_status tarn__log_rows_write(tarn_trace_writer *out, const struct tarn__log_row *row);

#endif
