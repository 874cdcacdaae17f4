/* procs.c -- finding calls by name and version, and the calls for per-thread streams. */
#include "sim/core/api.h"
#include "sim/core/call.h"
#include "sim/core/thread.h"
#include "sim/core/unsupported.h"
#include <string.h>

/* In these calls stream 0, and an implicit default stream, mean the thread's own stream.
 */
#define SIM_X(name, version, symbol, parameters)
#define SIM_Z(name, version, symbol, per_thread, parameters, arguments) \
    CUresult per_thread parameters                                      \
    {                                                                   \
        sim_thread.is_per_thread = true;                                \
        sim_thread.caller = __builtin_return_address(0);                \
        CUresult result = symbol arguments;                             \
        sim_thread.is_per_thread = false;                               \
        return result;                                                  \
    }
SIM_CALLS(SIM_X, SIM_Z)
#undef SIM_X
#undef SIM_Z

/* These calls ignore their arguments, whatever those are. */
#define SIM_U(name, version, symbol)     \
    SIM_EXPORT CUresult symbol(void);    \
    CUresult symbol(void)                \
    {                                    \
        ENTER(CALL_PLAIN);               \
        return CUDA_ERROR_NOT_SUPPORTED; \
    }
SIM_UNSUPPORTED(SIM_U)
#undef SIM_U

#define SIM_U(name, version, symbol)     \
    SIM_EXPORT CUresult symbol(void);    \
    CUresult symbol(void)                \
    {                                    \
        return CUDA_ERROR_NOT_SUPPORTED; \
    }
SIM_UNSUPPORTED_EARLY(SIM_U)
#undef SIM_U

typedef void any_function(void);

static const struct call {
    const char *name;
    int version;
    any_function *function;
    any_function *per_thread; /* NULL: the same */
} table[] = {
#define SIM_X(name, version, symbol, parameters) \
    {#name, version, (any_function *)symbol, NULL},
#define SIM_Z(name, version, symbol, per_thread, parameters, arguments) \
    {#name, version, (any_function *)symbol, (any_function *)per_thread},
    SIM_CALLS(SIM_X, SIM_Z)
#undef SIM_X
#undef SIM_Z
#define SIM_U(name, version, symbol) {#name, version, (any_function *)symbol, NULL},
        SIM_ALIASES(SIM_U) SIM_UNSUPPORTED(SIM_U) SIM_UNSUPPORTED_EARLY(SIM_U)
#undef SIM_U
};

/* Find the call of that name with the highest version up to `version`. *known is whether
 * any version exists. */
static const struct call *find_call(const char *name, int version, bool *known)
{
    const struct call *best = NULL;

    *known = false;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].name, name) != 0)
            continue;
        *known = true;
        if (table[i].version <= version && (!best || table[i].version > best->version))
            best = &table[i];
    }
    return best;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version,
                             uint64_t flags, CUdriverProcAddressQueryResult *status)
{
    const struct call *call;
    any_function *found;
    bool known;

    if (!name)
        sim_misuse_abort(__func__, "the name is NULL; a real driver crashes here");
    if (!function || flags > 3 || flags == 3)
        return CUDA_ERROR_INVALID_VALUE;
    call = find_call(name, version, &known);
    if (!call) {
        *function = NULL;
        if (status)
            *status = known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return CUDA_SUCCESS; /* also without a status output: NULL shows it */
    }
    found = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && call->per_thread
                ? call->per_thread
                : call->function;
    memcpy(function, &found, sizeof found);
    if (status)
        *status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

/* The call of CUDA 11.3: a name that it does not find is an error. */
CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    CUresult result = cuGetProcAddress_v2(name, function, version, flags, NULL);

    return result == CUDA_SUCCESS && !*function ? CUDA_ERROR_NOT_FOUND : result;
}

/* The tables of the CUDA runtime library are undocumented, so the simulator has none. */
CUresult cuGetExportTable(const void **out, const CUuuid *id)
{
    (void)id;
    if (out)
        *out = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
