/* convert.h -- the forms that `tarn convert` writes, and what they share.
 *
 * A form is one table. The command reads the log and calls its functions in the order of
 * the rows; `end` comes last and writes what was collected.
 */
#ifndef TARN_CLI_CONVERT_H
#define TARN_CLI_CONVERT_H

#include "tool.h"

/* What a log has; each form says what it can keep. */
enum {
    PART_THREADS = 1,
    PART_DEVICES = 2,
    PART_PLACES = 4,
    PART_STACKS = 8,
    PART_POOLS = 16,
    PART_MARKS = 32,
    PART_PROCESS = 64,
    PART_FREE_MEMORY = 128,
    PARTS = 8
};

/* Which bytes a profile shows. */
enum profile_at { AT_PEAK, AT_END, AT_HELD, AT_TOTAL };

/* A live block; found by its address. */
struct live_block {
    uint64_t address, bytes, stream, id; /* id: counts from 1; 0 in an empty slot */
    tarn_stack stack, place;             /* numbers of this process */
    int device;
};
struct live_blocks {
    struct live_block *slots;
    size_t capacity, count;
};
/* Add a block; one at its address goes to `*old`, whose id is else 0. */
tarn_status live_blocks_add(struct live_blocks *blocks, const struct live_block *block,
                            struct live_block *old);
/* Take a block; its id is 0 if there is none. */
struct live_block live_blocks_take(struct live_blocks *blocks, uint64_t address);
void live_blocks_free(struct live_blocks *blocks);

struct convert_form;

/* One conversion. */
struct convert {
    const struct convert_form *form;
    const char *path; /* of the output */
    struct output output;
    FILE *out; /* NULL where the form opens the path itself */
    enum profile_at at;
    bool has_at; /* --at was given */
    struct stacks stacks;
    struct live_blocks live;
    uint64_t events;
    uint64_t start_unix_ns, pid;
    unsigned seen; /* parts that the log has */
    void *state;   /* of the form */
};

struct convert_form {
    const char *name;   /* for --to */
    const char *suffix; /* of paths that select it; "" selects by name alone */
    unsigned keeps;     /* parts */
    bool opens_path;    /* `begin` opens the output itself */
    bool has_at;        /* --at selects what it shows */
    tarn_status (*begin)(struct convert *convert);
    tarn_status (*on_process)(struct convert *convert, const tarn_trace_process *process);
    /* `event->stack` is a number of this process. */
    tarn_status (*on_event)(struct convert *convert, const tarn_trace_event *event,
                            uint64_t line);
    tarn_status (*on_pool)(struct convert *convert, const tarn_trace_pool_row *row);
    tarn_status (*on_mark)(struct convert *convert, const char *name, uint64_t time_ns);
    tarn_status (*end)(struct convert *convert); /* only after success */
    void (*release)(struct convert *convert);
};
/* (convert_log.c, convert_profile.c, convert_perfetto.c, convert_torch.c) */
extern const struct convert_form form_nbep7, form_rmm, form_binary, form_collapsed,
    form_speedscope, form_perfetto, form_torch;

/* A stack of the place of an event: one frame, whose file is the location. */
tarn_stack place_of(const tarn_trace_event *event);
/* The text of a place; "" if it is unknown. */
const char *place_text(tarn_stack place);

#endif
