/* text_buffer.h -- the rows of a text log on their way to its file or function. */
#ifndef TARN_TRACE_TEXT_BUFFER_H
#define TARN_TRACE_TEXT_BUFFER_H

#include "trace/format.h"
#include "trace/log_file.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

enum { TARN__TEXT_BUFFER_BYTES = 64 * 1024 };

struct tarn__text_buffer {
    const struct tarn__format *format;
    char *name;                /* of the log, for messages; owned */
    tarn_trace_write_fn write; /* takes whole lines; called under the lock */
    void *data;                /* of `write` */
    _Atomic(pthread_t) inside; /* the thread that is in `write`; 0: none */
    unsigned process;          /* tells a parent's buffers from the child's own */
    LIST_ENTRY(tarn__text_buffer) link; /* of a file, in open_logs.c; under its lock */

    pthread_mutex_t lock; /* guards what follows */
    struct tarn__log_file file;
    int broken;      /* errno of the write that failed; 0: none failed */
    bool told;       /* a warning or a flush has told that it is broken */
    bool auto_flush; /* each row goes out at once */
    bool awaited;    /* the flusher knows of the rows in the buffer */
    uint64_t delivered_ns;
    size_t count; /* bytes in the buffer */
    char bytes[TARN__TEXT_BUFFER_BYTES];
};

/* Initialize a buffer of zeros: it has the header of the format, and no destination yet.
 * Return false if there is no host memory. */
bool tarn__text_buffer_init(struct tarn__text_buffer *buffer,
                            const struct tarn__format *format, const char *name);
/* Open a file, which becomes the destination. */
tarn_status tarn__text_buffer_open(struct tarn__text_buffer *buffer, const char *path);
/* Close the file, if there is one; a failure is a warning unless the log was broken
 * before. Nothing may use the buffer any more. */
tarn_status tarn__text_buffer_end(struct tarn__text_buffer *buffer);

/* Return true if the destination is a file. */
bool tarn__text_buffer_has_file(const struct tarn__text_buffer *buffer);
/* Return true if the buffer belongs to the parent of this forked child. */
bool tarn__text_buffer_is_inherited(const struct tarn__text_buffer *buffer);
/* Return true if this thread is in the buffer's own `write`, and so holds its lock. */
bool tarn__text_buffer_is_inside(const struct tarn__text_buffer *buffer);

/* Append a row, after the buffer is written out if there is no space. `lock` held. */
tarn_status tarn__text_buffer_append(struct tarn__text_buffer *buffer,
                                     const tarn_trace_event *event);
/* Write the buffer out. `lock` held. */
tarn_status tarn__text_buffer_deliver(struct tarn__text_buffer *buffer);

/* Return true if a warning is due that the log is broken, once. `lock` held. */
bool tarn__text_buffer_must_tell(struct tarn__text_buffer *buffer);
/* Warn of logs that broke, the last of them on this thread. The handler of warnings is
 * code of the user, so no lock may be held. */
void tarn__text_buffer_tell(unsigned broken);

#endif
