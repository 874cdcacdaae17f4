/* tool.c -- loads the tool that NVTX_INJECTION64_PATH names, as each user of NVTX does.
 *
 * The tool gets a function that returns tables. One table has the addresses of pointers,
 * which the tool sets to its functions. Tools set functions of all modules, so there are
 * pointers for modules that Tarn does not call. Extensions have a second function of the
 * tool, and slots instead of a table.
 */
#define _GNU_SOURCE
#include "nvtx/tool.h"
#include "base/host_checker.h"
#include "base/warn.h"
#include "driver/driver.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- the tables for the tool --- */

static const unsigned char function_counts[TARN__NVTX_MODULES] = {0, 16, 9, 15, 7, 16, 7};
/* One more pointer: the arrays end with NULL. */
static tarn__nvtx_function functions[TARN__NVTX_MODULES][TARN__NVTX_FUNCTIONS_MAX + 1];
static tarn__nvtx_function *addresses[TARN__NVTX_MODULES][TARN__NVTX_FUNCTIONS_MAX + 1];

static int get_functions(int module, tarn__nvtx_function ***out, unsigned *count_out)
{
    if (module <= 0 || module >= TARN__NVTX_MODULES)
        return 0;
    for (unsigned i = 1; i < function_counts[module]; i++)
        addresses[module][i] = &functions[module][i];
    if (count_out)
        *count_out = function_counts[module];
    if (out)
        *out = addresses[module];
    return 1;
}

static void set_tool_version(uint32_t version)
{
    (void)version;
}

static const void *get_table(uint32_t table)
{
    static const struct tarn__nvtx_callbacks callbacks = {sizeof callbacks,
                                                          get_functions};
    static const struct tarn__nvtx_version version = {sizeof version, TARN__NVTX_VERSION,
                                                      0, set_tool_version};

    switch (table) {
    case TARN__NVTX_TABLE_CALLBACKS:
        return &callbacks;
    case TARN__NVTX_TABLE_VERSION:
        return &version;
    default:
        return NULL;
    }
}

/* --- attach --- */

static struct tarn__tool tool;
static void (*on_heaps)(void);

void tarn__tool_on_heaps(void (*function)(void))
{
    on_heaps = function;
}

/* ISO C has no conversion from an object pointer. */
static tarn__nvtx_function find(void *library, const char *name)
{
    void *object = dlsym(library, name);
    tarn__nvtx_function function;

    memcpy(&function, &object, sizeof function);
    return function;
}

/* Return the function of an extension's slot; NULL: the tool has none. */
static tarn__nvtx_function from_slot(intptr_t slot)
{
    return slot == TARN__NVTX_NO_FUNCTION ? NULL : (tarn__nvtx_function)slot;
}

static void attach_memory(void *library)
{
    static intptr_t slots[TARN__NVTX_MEMORY_SLOTS];
    struct tarn__nvtx_segment segment = {1, TARN__NVTX_MEMORY_SLOTS, slots};
    struct tarn__nvtx_extension extension = {.version = TARN__NVTX_VERSION,
                                             .size = sizeof extension,
                                             .extension = TARN__NVTX_MEMORY,
                                             .id = TARN__NVTX_MEMORY_ID,
                                             .segment_count = 1,
                                             .segments = &segment};
    tarn__nvtx_initialize_extension initialize = (tarn__nvtx_initialize_extension)find(
        library, "InitializeInjectionNvtxExtension");

    if (!initialize || !initialize(&extension))
        return;
    tarn__nvtx_function needed[] = {from_slot(slots[TARN__NVTX_HEAP_REGISTER]),
                                    from_slot(slots[TARN__NVTX_HEAP_UNREGISTER]),
                                    from_slot(slots[TARN__NVTX_REGIONS_REGISTER]),
                                    from_slot(slots[TARN__NVTX_REGIONS_UNREGISTER])};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i])
            return;
    tool.heap_register = (tarn__nvtx_heap_register)needed[0];
    tool.heap_unregister = (tarn__nvtx_heap_unregister)needed[1];
    tool.regions_register = (tarn__nvtx_regions_register)needed[2];
    tool.regions_unregister = (tarn__nvtx_regions_unregister)needed[3];
    tool.regions_name =
        (tarn__nvtx_regions_name)from_slot(slots[TARN__NVTX_REGIONS_NAME]);
}

/* Return true if the environment requests ranges. */
static bool ranges_are_wanted(void)
{
    const char *text = getenv("TARN_NVTX");

    if (!text || !*text)
        return false;
    if (strcmp(text, "ranges") == 0)
        return true;
    tarn__warn("nvtx: TARN_NVTX=%s is ignored: it is not \"ranges\"", text);
    return false;
}

/* Return true if a tool was attached. */
static bool attach(void)
{
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");
    void *library = dlopen(path, RTLD_LAZY);

    if (!library) {
        tarn__warn("nvtx: NVTX_INJECTION64_PATH=%s could not be loaded", path);
        return false;
    }
    tarn__nvtx_initialize initialize =
        (tarn__nvtx_initialize)find(library, "InitializeInjectionNvtx2");
    if (!initialize || !initialize(get_table))
        return false;
    tarn__nvtx_function *core = functions[TARN__NVTX_CORE2];
    if (core[TARN__NVTX_DOMAIN_CREATE])
        tool.domain = ((tarn__nvtx_domain_create)core[TARN__NVTX_DOMAIN_CREATE])("tarn");
    if (core[TARN__NVTX_RANGE_PUSH] && core[TARN__NVTX_RANGE_POP] &&
        ranges_are_wanted()) {
        tool.range_push = (tarn__nvtx_range_push)core[TARN__NVTX_RANGE_PUSH];
        tool.range_pop = (tarn__nvtx_range_pop)core[TARN__NVTX_RANGE_POP];
    }
    attach_memory(library);
    if (tool.heap_register && on_heaps)
        on_heaps();
    return true;
}

bool tarn__tool_is_named(void)
{
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");

    return path && *path && strcmp(path, "./.") != 0; /* NVTX's value for no tool */
}

void tarn__tool_attach_host_checker(void)
{
    if (on_heaps && tarn__host_checker_is_present())
        on_heaps();
}

enum { UNTRIED, NONE, ATTACHED };
static atomic_int state;

void tarn__tool_attach(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    /* A forked child may not take the lock. */
    if (atomic_load(&state) != UNTRIED || tarn__driver_gone() || !tarn__tool_is_named())
        return;
    pthread_mutex_lock(&lock);
    if (atomic_load(&state) == UNTRIED)
        atomic_store(&state, attach() ? ATTACHED : NONE);
    pthread_mutex_unlock(&lock);
}

const struct tarn__tool *tarn__tool_get(void)
{
    return atomic_load(&state) == ATTACHED ? &tool : NULL;
}
