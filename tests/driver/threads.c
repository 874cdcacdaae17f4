/* threads.c -- facts about the state of a thread: current context, per-thread stream,
 * mode. */
#include "facts.h"

#include <pthread.h>

struct view {
    CUcontext current;
    CUresult alloc, push, query;
    unsigned long long id, id_again;
};

static void *look(void *data)
{
    struct view *view = data;
    CUdeviceptr pointer = 0;

    cuCtxGetCurrent(&view->current);
    view->alloc = cuMemAlloc(&pointer, 256);
    view->query = cuStreamQuery(NULL);
    cuCtxSetCurrent(context);
    cuStreamGetId(CU_STREAM_PER_THREAD, &view->id);
    cuStreamGetId(CU_STREAM_PER_THREAD, &view->id_again);
    return NULL;
}

static struct view in_new_thread(void)
{
    struct view view = {NULL, 0, 0, 0, 0, 0};
    pthread_t thread;

    pthread_create(&thread, NULL, look, &view);
    pthread_join(thread, NULL);
    return view;
}

static void contexts(void)
{
    struct view view = in_new_thread();
    CUcontext mine = NULL;

    fact("new_thread.current", "%s", view.current ? "something" : "NULL");
    fact_result("new_thread.alloc", view.alloc);
    fact_result("new_thread.query", view.query);
    cuCtxGetCurrent(&mine);
    fact_bool("new_thread.mine_is_kept", mine == context);
}

static void per_thread_ids(void)
{
    unsigned long long mine = 0, again = 0, made = 0;
    struct view a = in_new_thread(), b = in_new_thread();

    cuStreamGetId(CU_STREAM_PER_THREAD, &mine);
    cuStreamGetId(CU_STREAM_PER_THREAD, &again);
    fact_bool("per_thread.steady", mine == again && a.id == a.id_again);
    fact_bool("per_thread.each_its_own", a.id != mine && b.id != mine && a.id != b.id);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    cuStreamGetId(stream, &made);
    fact_bool("per_thread.ids_are_of_one_row", made > a.id && made > b.id);
    cuStreamDestroy(stream);
}

static void *exchange_then_end(void *data)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    (void)data;
    cuThreadExchangeStreamCaptureMode(&mode);
    return NULL;
}

/* Work of the per-thread stream by functions resolved with the per-thread flag. */
static void per_thread_functions(void)
{
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t, CUstream) = NULL;
    CUresult (*query)(CUstream) = NULL;
    CUdeviceptr a = block_of(256, 0);
    struct gate gate;
    void *found = NULL;
    int status;

    cuGetProcAddress("cuMemsetD8Async", &found, 7000, 2, &status);
    if (found)
        *(void **)&fill = found;
    found = NULL;
    cuGetProcAddress("cuStreamQuery", &found, 7000, 2, &status);
    if (found)
        *(void **)&query = found;
    fact_bool("per_thread_functions.found", fill && query);
    if (!fill || !query)
        return;
    gate_close(&gate, CU_STREAM_PER_THREAD);
    fact_result("per_thread_functions.fill", fill(a, 5, 256, NULL));
    fact_result("per_thread_functions.query", query(NULL));
    fact_result("per_thread_functions.query_legacy", query(CU_STREAM_LEGACY));
    fact("per_thread_functions.before", "%d", peek(a));
    gate_open(&gate);
    fact("per_thread_functions.after", "%d", peek(a));
    fact_result("per_thread_functions.query_after", query(NULL));
    cuMemFree(a);
}

static CUresult synchronize_per_thread(void *unused)
{
    (void)unused;
    return cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

/* Another thread's per-thread stream is a different stream. */
static void others(void)
{
    struct gate gate;

    gate_close(&gate, CU_STREAM_PER_THREAD);
    fact_waits("per_thread.synchronize_in_another_thread", synchronize_per_thread, NULL,
               &gate);
}

static CUresult free_pooled(void *pointer)
{
    return cuMemFreeAsync(*(CUdeviceptr *)pointer, CU_STREAM_PER_THREAD);
}

static void crossing(void)
{
    CUdeviceptr pointer = 0;
    pthread_t thread;

    cuMemAllocAsync(&pointer, 4096, CU_STREAM_PER_THREAD);
    cuStreamSynchronize(CU_STREAM_PER_THREAD);
    fact_result("pooled_memory_freed_by_another_thread",
                in_thread(free_pooled, &pointer));
    pthread_create(&thread, NULL, exchange_then_end, NULL);
    pthread_join(thread, NULL);
    fact_result("synchronize_after_it_ended", cuCtxSynchronize());
}

/* Many threads at once: every call succeeds, every byte is right. */
enum { THREADS = 8, ROUNDS = 50 };

static void *hammer(void *data)
{
    int *wrong = data;

    cuCtxSetCurrent(context);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    unsigned char *pin = pinned(4096);
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr a = 0;
        unsigned char value = (unsigned char)(i + 1);
        *wrong += cuMemAllocAsync(&a, 4096, stream) != CUDA_SUCCESS;
        *wrong += cuMemsetD8Async(a, value, 4096, stream) != CUDA_SUCCESS;
        *wrong += cuMemcpyDtoHAsync(pin, a, 4096, stream) != CUDA_SUCCESS;
        *wrong += cuMemFreeAsync(a, stream) != CUDA_SUCCESS;
        *wrong += cuStreamSynchronize(stream) != CUDA_SUCCESS;
        *wrong += !pin || pin[0] != value || pin[4095] != value;
    }
    cuStreamDestroy(stream);
    return NULL;
}

static void many(void)
{
    pthread_t threads[THREADS];
    int wrong[THREADS] = {0}, all = 0;

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, hammer, &wrong[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        all += wrong[i];
    }
    fact("many.wrong", "%d", all);
}

static const struct part parts[] = {
    {"contexts", contexts, TOGETHER},
    {"per_thread_ids", per_thread_ids, TOGETHER},
    {"per_thread_functions", per_thread_functions, TOGETHER},
    {"others", others, TOGETHER},
    {"crossing", crossing, TOGETHER},
    {"many", many, RISKY},
    END_OF_PARTS,
};
const struct theme theme_threads = {"threads", parts, true};
