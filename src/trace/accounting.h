/* accounting.h -- the effect of a log's rows, for the loader. */
#ifndef TARN_TRACE_ACCOUNTING_H
#define TARN_TRACE_ACCOUNTING_H

#include <tarn/trace.h>
#include "trace/ids.h"

#define TARN__NO_BLOCK UINT32_MAX

/* The effect of a row on the blocks, which are numbered as they are allocated. */
struct tarn__match {
    uint32_t freed;     /* this block ended; TARN__NO_BLOCK: none */
    uint32_t allocated; /* this one began */
    uint32_t thread, stream;
};
/* tarn_trace_accounting_add() for the loader, which needs the match. */
tarn_status tarn__accounting_add(tarn_trace_accounting *accounting,
                                 const tarn_trace_event *event, uint64_t line,
                                 struct tarn__match *out);
/* The ids behind the numbers in tarn__match. */
const struct tarn__ids *tarn__accounting_streams(const tarn_trace_accounting *accounting);
const struct tarn__ids *tarn__accounting_threads(const tarn_trace_accounting *accounting);

#endif
