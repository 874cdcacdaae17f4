/* Test managers from shared libraries: each defect has its own message. */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

/* The dynamic linker's answer about this program's rights; a test makes it a set-uid
 * program. */
static unsigned long is_secure;

/* In front of the C library's, also for libtarn. */
TARN_API unsigned long getauxval(unsigned long type)
{
    unsigned long found[2], value = 0;

    if (type == AT_SECURE)
        return is_secure;
    int file = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
    while (file >= 0 && read(file, found, sizeof found) == (ssize_t)sizeof found)
        if (found[0] == type)
            value = found[1];
    if (file >= 0)
        close(file);
    return value;
}

static const char *in_build(const char *path)
{
    static char whole[600];

    snprintf(whole, sizeof whole, "%s/%s", getenv("TARN_BUILD"), path);
    return whole;
}

static const char *plugin(void)
{
    return in_build("tests/fake/manager.so");
}

static void load_and_serve(void)
{
    const tarn_manager_ops *ops, *again;
    tarn_manager *manager;
    tarn_pointer *pointer;

    CHILD_STATUS(TARN_OK, tarn_manager_load(plugin(), NULL, &ops));
    CHILD_CHECK(strcmp(ops->name, "fake") == 0);
    CHILD_STATUS(TARN_OK, tarn_manager_load(plugin(), "tarn_manager_plugin", &again));
    CHILD_CHECK(again == ops);
    CHILD_STATUS(TARN_OK, tarn_manager_create(ops, NULL, 0, &manager));
    CHILD_STATUS(TARN_OK, tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
    CHILD_CHECK(tarn_pointer_address(pointer) == 0x700000);
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_manager_memhostalloc(manager, 8, 0, &pointer));
    memset(tarn_pointer_host(pointer), 1, 8);
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
}

TEST(plugin_returns_its_table_and_works)
{
    in_child(load_and_serve);
}

/* Each failure has its own status and message, and leaves the output unchanged. */
TEST(invalid_plugin_is_rejected_with_a_message)
{
    const struct {
        const char *path, *symbol;
        tarn_status status;
        const char *messages[2];
    } wrong[] = {
        {"/nowhere/at_all.so", NULL, TARN_NOT_FOUND, {"the file /nowhere/at_all.so", ""}},
        {"/etc/passwd/x.so", NULL, TARN_NOT_FOUND, {"the file /etc/passwd/x.so", ""}},
        {"manager.so", NULL, TARN_INVALID_ARGUMENT, {"manager.so has no /", "./manager"}},
        {"", NULL, TARN_INVALID_ARGUMENT, {"has no /", ""}},
        {"/etc/passwd", NULL, TARN_BAD_FORMAT, {"cannot load /etc/passwd", ""}},
        {"/etc", NULL, TARN_BAD_FORMAT, {"cannot load /etc", ""}},
        {NULL, "no_such", TARN_NOT_FOUND, {"manager.so has no symbol no_such", ""}},
        {NULL, "", TARN_NOT_FOUND, {"manager.so has no symbol", ""}},
        {NULL,
         "of_version_2",
         TARN_INVALID_ARGUMENT,
         {"manager.so: manager: fake has interface version 2", "version 1 required"}},
        {NULL,
         "too_short",
         TARN_INVALID_ARGUMENT,
         {"the table of fake has 56 bytes", "operations need 80"}},
        {NULL, "without_mempin", TARN_INVALID_ARGUMENT, {"fake has no mempin", ""}},
        {NULL, "without_table", TARN_PLUGIN_FAILURE, {"without_table of", "no table"}},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *path = wrong[i].path ? wrong[i].path : plugin();
        const tarn_manager_ops *ops = NULL;
        CHECK_STATUS(wrong[i].status, tarn_manager_load(path, wrong[i].symbol, &ops));
        CHECK_MESSAGE(wrong[i].messages[0]);
        CHECK_MESSAGE(wrong[i].messages[1]);
        CHECK(ops == NULL);
    }
}

TEST(library_without_the_symbol_differs_from_a_missing_library)
{
    const tarn_manager_ops *ops = NULL;

    CHECK_STATUS(TARN_NOT_FOUND,
                 tarn_manager_load(in_build("tests/fake/libcuda.so.1"), NULL, &ops));
    CHECK_MESSAGE("libcuda.so.1 has no symbol tarn_manager_plugin");
    CHECK(ops == NULL);
}

TEST(loading_takes_no_missing_arguments)
{
    const tarn_manager_ops *ops;

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_load(NULL, NULL, &ops));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_manager_load(plugin(), NULL, NULL));
}

TEST(program_with_rights_of_its_own_loads_nothing)
{
    const tarn_manager_ops *ops = NULL;

    is_secure = 1;
    tarn_status status = tarn_manager_load(plugin(), NULL, &ops);
    is_secure = 0;
    CHECK_STATUS(TARN_NOT_SUPPORTED, status);
    CHECK_MESSAGE("elevated privileges");
    CHECK(ops == NULL);
}

static void ask_with_rights(void)
{
    tarn_manager *manager;

    is_secure = 1;
    setenv("TARN_MEMORY_MANAGER", plugin(), 1);
    tarn_set_warning_handler(NULL, NULL);
    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, &manager));
    CHILD_CHECK(strcmp(tarn_manager_name(manager), "resource") == 0);
    CHILD_CHECK(strstr(tarn_warning_last(), "elevated privileges"));
    tarn_manager_release(manager);
}

TEST(privileged_program_does_not_read_the_environment)
{
    in_child(ask_with_rights);
}
