/* delivery.h -- the functions that receive the contents of a log. */
#ifndef TARN_TRACE_DELIVERY_H
#define TARN_TRACE_DELIVERY_H

#include <tarn/trace.h>

struct tarn__delivery {
    const char *name;             /* of the log, for messages; borrowed */
    tarn_trace_handlers handlers; /* of the caller; any may be NULL */
    void *data;                   /* of the handlers */
};

/* Each passes its argument on, if there is a handler. A failure without a message gets
 * one. */
tarn_status tarn__delivery_process(const struct tarn__delivery *delivery,
                                   const tarn_trace_process *process);
tarn_status tarn__delivery_stack(const struct tarn__delivery *delivery, tarn_stack stack,
                                 const tarn_stack_frame *frames, size_t count);
tarn_status tarn__delivery_event(const struct tarn__delivery *delivery,
                                 const tarn_trace_event *event, uint64_t line);
tarn_status tarn__delivery_pool(const struct tarn__delivery *delivery,
                                const tarn_trace_pool_row *row);
tarn_status tarn__delivery_mark(const struct tarn__delivery *delivery, const char *name,
                                uint64_t time_ns);
tarn_status tarn__delivery_end(const struct tarn__delivery *delivery,
                               const tarn_trace_end *end);

#endif
