/* driver.h -- open the simulator as a client does: by path, each call by its symbol.
 *
 *     CU(cuMemAlloc_v2(&address, 100));                       must be CUDA_SUCCESS
 *     CU_IS(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(1));       must be that
 */
#ifndef TARN_TESTS_SIM_DRIVER_H
#define TARN_TESTS_SIM_DRIVER_H

#include "test.h"
#include "sim/core/calls.h"
#include "sim/core/cuda.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <tarn/sim.h>

struct driver {
#define X(name, version, symbol, parameters) CUresult(*symbol) parameters;
#define Z(name, version, symbol, per_thread, parameters, arguments) \
    CUresult(*symbol) parameters;                                   \
    CUresult(*per_thread) parameters;
    SIM_CALLS(X, Z)
#undef X
#undef Z
    tarn_sim_configure_fn *configure;
    tarn_sim_error_fn *error;
    tarn_sim_faults_fn *faults;
    tarn_sim_calls_fn *calls;
    tarn_sim_live_bytes_fn *live_bytes;
    tarn_sim_misuses_fn *misuses;
    tarn_sim_races_fn *races;
    tarn_sim_race_fn *race;
    tarn_sim_unknown_reads_fn *unknown_reads;
};

static struct driver driver;

static inline void *driver_symbol(const char *name)
{
    static void *library;
    char path[4096];
    void *symbol;

    /* The simulator of this build, whatever driver the other tests open. */
    snprintf(path, sizeof path, "%s/lib/tarn/sim/libcuda.so.1", getenv("TARN_BUILD"));
    if (!library)
        library = dlopen(path, RTLD_NOW);
    symbol = library ? dlsym(library, name) : NULL;
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    return symbol;
}

__attribute__((constructor(1000))) static void driver_open(void)
{
#define X(name, version, symbol, parameters) \
    *(void **)(void *)&driver.symbol = driver_symbol(#symbol);
#define Z(name, version, symbol, per_thread, parameters, arguments) \
    *(void **)(void *)&driver.symbol = driver_symbol(#symbol);      \
    *(void **)(void *)&driver.per_thread = driver_symbol(#per_thread);
    SIM_CALLS(X, Z)
#undef X
#undef Z
    *(void **)(void *)&driver.configure = driver_symbol("tarn_sim_configure");
    *(void **)(void *)&driver.error = driver_symbol("tarn_sim_error");
    *(void **)(void *)&driver.faults = driver_symbol("tarn_sim_faults");
    *(void **)(void *)&driver.calls = driver_symbol("tarn_sim_calls");
    *(void **)(void *)&driver.live_bytes = driver_symbol("tarn_sim_live_bytes");
    *(void **)(void *)&driver.misuses = driver_symbol("tarn_sim_misuses");
    *(void **)(void *)&driver.races = driver_symbol("tarn_sim_races");
    *(void **)(void *)&driver.race = driver_symbol("tarn_sim_race");
    *(void **)(void *)&driver.unknown_reads = driver_symbol("tarn_sim_unknown_reads");
}

#define CU_IS(wanted, call) CHECK_EQUAL(wanted, driver.call)
#define CU(call) CU_IS(CUDA_SUCCESS, call)

/* The primary context of device 0, current in the calling thread. */
static inline CUcontext use_device(CUdevice device)
{
    CUcontext context;

    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    return context;
}

#endif
