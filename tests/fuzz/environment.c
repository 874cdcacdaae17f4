/* environment.c -- a fuzz target: any text as a path or a name of the environment.
 *
 *     fuzz-environment [-max_total_time=10] [FOLDER]
 *
 * The first byte chooses the variable: TARN_IPC_DIR, XDG_RUNTIME_DIR, TARN_DRIVER,
 * TARN_MEMORY_MANAGER or CUDA_VISIBLE_DEVICES. The text is accepted, or there is a message and
 * an untouched output. options.c has the texts with a grammar.
 */
#define _GNU_SOURCE
#include "foreign.h"
#include "ipc/socket_directory.h"
#include "sim/core/options.h"
#include "sim/core/visible.h"
#include <tarn/tarn.h>
#include <unistd.h>

#ifndef SIMULATOR /* CMake has its path: the static library does not find it */
#define SIMULATOR "sim"
#endif

enum { DEVICES = 4, UNTOUCHED = -77 };

struct sim_options sim_options; /* of visible.c */

static void open_directory(const char *name, const char *text)
{
    must(unsetenv("TARN_IPC_DIR") == 0 && setenv(name, text, 1) == 0, "no environment");
    for (unsigned which = 0; which < 3; which++) {
        int directory = UNTOUCHED;
        if (succeeded(tarn__socket_directory_open(which, false, &directory)))
            must(directory >= 0 && close(directory) == 0, "no directory");
        else
            must(directory == UNTOUCHED, "a changed output");
    }
}

static void name_sockets(const char *text)
{
    open_directory("TARN_IPC_DIR", text);
}

static void name_runtime(const char *text)
{
    open_directory("XDG_RUNTIME_DIR", text);
}

/* Return true if the text is a path of the simulator, in any spelling. */
static bool is_simulator(const char *text)
{
    char *one = realpath(text, NULL), *other = realpath(SIMULATOR, NULL);
    bool is_same = one && other && strcmp(one, other) == 0;

    free(one);
    free(other);
    return is_same;
}

/* A driver that opens stays open: here none may but the simulator, which is open already. */
static void name_driver(const char *text)
{
    must(text[0] == 0 || !succeeded(tarn_driver_open(text)) || is_simulator(text),
         "the text is a driver");
}

/* A manager that is made stays: here none may, so Tarn's own names are left out. */
static void name_manager(const char *text)
{
    static const char *const known[] = {"", "resource", "native", "pool"};
    tarn_manager *const none = (tarn_manager *)(void *)&sim_options, *manager = none;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i]) == 0)
            return;
    must(tarn_driver_open(SIMULATOR) == TARN_OK, "no simulator");
    must(setenv("TARN_MEMORY_MANAGER", text, 1) == 0, "no environment");
    must(!succeeded(tarn_memory_manager(0, &manager)) && manager == none,
         "a changed output");
}

static void name_devices(const char *text)
{
    int numbers[DEVICES];
    int count = sim_visible_devices(text, DEVICES, numbers);

    must(count >= 0 && count <= DEVICES, "a wrong number of devices");
    for (int i = 0; i < count; i++) {
        must(numbers[i] >= 0 && numbers[i] < DEVICES, "a wrong device");
        for (int j = 0; j < i; j++)
            must(numbers[i] != numbers[j], "a device twice");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    static void (*const readers[])(const char *) = {
        name_sockets, name_runtime, name_driver, name_manager, name_devices};
    char *text = malloc(count + 1);

    if (!text || count == 0) {
        free(text);
        return 0;
    }
    memcpy(text, data + 1, count - 1);
    text[count - 1] = 0;
    readers[data[0] % 5](text);
    free(text);
    return 0;
}
