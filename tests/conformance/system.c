/* Check that host memory which the device accesses by itself keeps the promises of
 * tarn/resource.h. A program of its own: the simulator has to have that access. */
#define _GNU_SOURCE
#include "test.h"
#include "tarn_conformance.h"
#include <stdlib.h>

__attribute__((constructor)) static void ask_for_pageable_access(void)
{
    setenv("TARN_SIM", "attribute=88:1", 1);
}

static int passed;

static void report(void *data, const char *check, const char *what)
{
    if (what)
        print_error("%s: %s: %s\n", (const char *)data, check, what);
    else
        passed++;
}

static tarn_status make_plain(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_system_create(device, NULL, out);
}

static tarn_status make_with_advice(void *data, int device, tarn_resource **out)
{
    tarn_system_options options = {sizeof options, true, 1 << 20};

    (void)data;
    return tarn_system_create(device, &options, out);
}

static void conforms(tarn_status (*make)(void *data, int device, tarn_resource **out))
{
    static char name[] = "system";
    tarn_conformance_subject subject = {
        .size = sizeof subject, .name = name, .create = make, .device = 0};
    tarn_resource *resource;

    if (!on_sim() && make(NULL, 0, &resource) == TARN_NOT_SUPPORTED)
        skip();
    CHECK_EQUAL(0, tarn_conformance_run(&subject, report, name));
    CHECK(passed >= 19);
}

TEST(system_conforms)
{
    conforms(make_plain);
}

TEST(system_with_headroom_conforms)
{
    conforms(make_with_advice);
}
