/* text.h -- a log in memory, for tests: writes and reads it. */
#ifndef TARN_TEST_TEXT_H
#define TARN_TEST_TEXT_H

#include "test.h"
#include <stdlib.h>

struct text {
    char *bytes; /* malloc'ed; with a NUL behind, not counted */
    size_t count;
    size_t at;       /* the position of the next read */
    size_t portion;  /* bytes a read returns at most; 0: as many as requested */
    unsigned writes; /* calls of text_write */
};

static inline bool text_write(void *data, const char *bytes, size_t count)
{
    struct text *text = data;
    char *grown = realloc(text->bytes, text->count + count + 1);

    if (!grown)
        return false;
    memcpy(grown + text->count, bytes, count);
    text->bytes = grown;
    text->count += count;
    text->bytes[text->count] = 0;
    text->writes++;
    return true;
}

static inline long text_read(void *data, char *buffer, size_t capacity)
{
    struct text *text = data;
    size_t count = text->count - text->at;

    if (text->portion && capacity > text->portion)
        capacity = text->portion;
    if (count > capacity)
        count = capacity;
    if (count)
        memcpy(buffer, text->bytes + text->at, count);
    text->at += count;
    return (long)count;
}

static inline struct text text_of(const char *content)
{
    struct text text = {0};

    text_write(&text, content, strlen(content));
    return text;
}

static inline void text_free(struct text *text)
{
    free(text->bytes);
    memset(text, 0, sizeof *text);
}

/* Collect the events of a reader. */
struct events {
    tarn_trace_event *items; /* their locations are owned */
    uint64_t *lines;
    size_t count;
    size_t stop_at; /* reject the event of that number; 0: accept all */
};

static inline tarn_status events_take(void *data, const tarn_trace_event *event,
                                      uint64_t line)
{
    struct events *events = data;

    if (events->stop_at && events->count + 1 == events->stop_at)
        return tarn_error_set(TARN_PLUGIN_FAILURE, "test: no more");
    events->items = realloc(events->items, (events->count + 1) * sizeof *events->items);
    events->lines = realloc(events->lines, (events->count + 1) * sizeof *events->lines);
    events->items[events->count] = *event;
    if (event->location)
        events->items[events->count].location = strdup(event->location);
    events->lines[events->count++] = line;
    return TARN_OK;
}

static inline void events_free(struct events *events)
{
    for (size_t i = 0; i < events->count; i++)
        free((void *)(uintptr_t)events->items[i].location);
    free(events->items);
    free(events->lines);
    memset(events, 0, sizeof *events);
}

/* Read `text` in portions of `portion` bytes. */
static inline tarn_status events_read_text(struct text *text, size_t portion,
                                           struct events *events)
{
    tarn_trace_format format;

    text->at = 0;
    text->portion = portion;
    return tarn_trace_read("log.csv", text_read, text, NULL, events_take, events,
                           &format);
}

static inline tarn_status events_read(const char *content, struct events *events)
{
    struct text text = text_of(content);
    tarn_status status = events_read_text(&text, 0, events);

    text_free(&text);
    return status;
}

/* Check that `content` is rejected with a message that begins with `says`, after `before`
 * rows. */
static inline void check_rejected(const char *content, size_t before, const char *says)
{
    struct events events = {0};

    CHECK_STATUS(TARN_BAD_FORMAT, events_read(content, &events));
    if (strncmp(tarn_error_last()->message, says, strlen(says)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", tarn_error_last()->message, says);
    CHECK_EQUAL(before, events.count);
    events_free(&events);
}

#define NBEP7_HEADER                                                \
    "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory," \
    "Total Memory,Current Allocs,Start,End,Elapsed,Location\n"
#define RMM_HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

#endif
