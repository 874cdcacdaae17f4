/* Test the environment of a privileged program: it names no code that the program loads.
 *
 * A process whose real and effective user differ executes this program again, as a set-uid
 * program would run: the kernel sets AT_SECURE. Root can do so, and these tests run as root.
 * Otherwise each test reports that, and tries the same program without privileges alone.
 */
#define _GNU_SOURCE
#include "test.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, LOADED = 10, NOT_LOADED, NOT_PRIVILEGED, NO_EXEC };

/* --- the program that is executed --- */

static void use_a_pool(void)
{
    tarn_resource *pool = NULL;

    if (tarn_driver_open(getenv("TARN_TEST_SIMULATOR")) == TARN_OK &&
        tarn_pool_create(0, NULL, NULL, &pool) == TARN_OK)
        tarn_resource_release(pool);
}

static void open_the_driver(void)
{
    (void)tarn_driver_open(NULL);
}

static void choose_the_manager(void)
{
    tarn_manager *manager = NULL;

    if (tarn_driver_open(getenv("TARN_TEST_SIMULATOR")) == TARN_OK &&
        tarn_memory_manager(0, &manager) == TARN_OK)
        tarn_manager_release(manager);
}

static const struct named {
    const char *variable, *library; /* below TARN_BUILD */
    void (*use)(void);
} all[] = {
    {"NVTX_INJECTION64_PATH", "tests/fake/nvtx_tool.so", use_a_pool},
    {"TARN_DRIVER", "tests/fake/libcuda.so.1", open_the_driver},
    {"TARN_MEMORY_MANAGER", "tests/fake/manager.so", choose_the_manager},
};

/* With TARN_TEST_VARIABLE, use what reads this variable, and say whether its library was
 * loaded. */
__attribute__((constructor)) static void be_the_program(void)
{
    const char *variable = getenv("TARN_TEST_VARIABLE");

    for (size_t i = 0; variable && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].variable, variable) == 0) {
            if (getenv("TARN_TEST_PRIVILEGED") && getauxval(AT_SECURE) == 0)
                _exit(NOT_PRIVILEGED);
            all[i].use();
            _exit(dlopen(getenv(variable), RTLD_NOW | RTLD_NOLOAD) ? LOADED : NOT_LOADED);
        }
}

/* --- the tests --- */

static int run(const struct named *named, bool is_privileged)
{
    const char *build = getenv("TARN_BUILD");
    char library[512], simulator[512];
    int status = 0;

    CHECK(build != NULL);
    snprintf(library, sizeof library, "%s/%s", build, named->library);
    snprintf(simulator, sizeof simulator, "%s/lib/tarn/sim/libcuda.so.1", build);
    CHECK_EQUAL(0, access(library, R_OK));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv("TARN_TEST_SIMULATOR", simulator, 1);
        setenv("TARN_TEST_VARIABLE", named->variable, 1);
        setenv(named->variable, library, 1);
        if (is_privileged && (setenv("TARN_TEST_PRIVILEGED", "1", 1) != 0 ||
                              setresuid(NOBODY, (uid_t)-1, (uid_t)-1) != 0))
            _exit(NOT_PRIVILEGED);
        execl("/proc/self/exe", "privileged", (char *)NULL);
        _exit(NO_EXEC);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check(const struct named *named)
{
    CHECK_EQUAL(LOADED, run(named, false));
    int outcome = run(named, true);
    if (outcome == NOT_PRIVILEGED && geteuid() != 0)
        print_message("not tried, as this process is not root: %s\n", named->variable);
    else
        CHECK_EQUAL(NOT_LOADED, outcome);
}

TEST(a_privileged_program_loads_no_tool_that_the_environment_names)
{
    check(&all[0]);
}

TEST(a_privileged_program_loads_no_driver_that_the_environment_names)
{
    check(&all[1]);
}

TEST(a_privileged_program_loads_no_manager_that_the_environment_names)
{
    check(&all[2]);
}
