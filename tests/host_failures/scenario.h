/* scenario.h -- calls of the public interface with each of their host allocations failing.
 *
 * A call that fails says that memory is short, leaves a message of a component and leaves its
 * outputs untouched. The same call succeeds when there is memory again. */
#ifndef TARN_TEST_SCENARIO_H
#define TARN_TEST_SCENARIO_H

#include "failing.h"
#include "test.h"

/* What the call stores; every byte has a known value before. */
union scenario_output {
    void *pointer;
    tarn_resource *resource;
    tarn_pointer *tarn_pointer;
    tarn_manager *manager;
    tarn_device_ptr block;
    tarn_stream stream;
    tarn_plan *plan;
    tarn_trace *trace;
    tarn_trace_writer *writer;
    tarn_runtime *runtime;
    tarn_nrt_snapshot *snapshot;
    tarn_replay_report replay;
    tarn_ipc_handle handle;
    size_t count;
    unsigned char bytes[1024];
};

extern union scenario_output out;

struct scenario {
    const char *name;
    void (*begin)(void);       /* what the call needs; NULL: nothing */
    tarn_status (*call)(void); /* the call whose allocations fail */
    void (*end)(void);         /* after a success; NULL: nothing */
};

/* Run a scenario with the 1st, 2nd, 3rd ... host allocation of its call failing, until no
 * allocation has to fail; and again with all from that one on. The call makes at least
 * `least` allocations. TARN_HOST_FAILURES=long: besides, two of them fail. */
void scenario_run(const struct scenario *scenario, unsigned least);

/* A call without a status: it returns NULL where memory is short, and needs no message. */
tarn_status null_is_no_memory(const void *result);

#endif
