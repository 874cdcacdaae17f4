/* Test the function table of each instance, and of an instance that does not exist. */
#include "test.h"
#include <stdlib.h>

static int ended;

static void end(void *data)
{
    ended++;
    free(data);
}

TEST(each_instance_has_a_table_of_its_own)
{
    tarn_runtime *one, *other;
    tarn_runtime_counts counts;

    CHECK_OK(tarn_runtime_create("one", &one));
    CHECK_OK(tarn_runtime_create("other", &other));
    const NRT_api_functions *api = tarn_runtime_api(one);
    CHECK(api != tarn_runtime_api(other));
    CHECK(api == tarn_runtime_api(one));
    CHECK(tarn_runtime_api(tarn_runtime_default()) == NRT_get_api());
    ended = 0;
    NRT_MemInfo *blocks[] = {
        api->allocate(10),
        api->allocate_external(10, _nrt_get_sample_external_allocator()),
        api->manage_memory(malloc(10), end)};
    tarn_runtime_counts_read(one, &counts);
    CHECK_EQUAL(3, counts.created);
    tarn_runtime_counts_read(other, &counts);
    CHECK_EQUAL(0, counts.created);
    for (int i = 0; i < 3; i++) {
        CHECK(tarn_meminfo_runtime(blocks[i]) == one);
        CHECK(api->get_data(blocks[i]) == tarn_meminfo_data(blocks[i]));
        api->acquire(blocks[i]);
        api->release(blocks[i]);
        tarn_runtime_api(other)->release(blocks[i]); /* any table knows its instance */
    }
    CHECK_EQUAL(1, ended);
    CHECK_OK(tarn_runtime_release(one));
    CHECK_OK(tarn_runtime_release(other));
}

TEST(a_table_without_its_instance_fails_with_a_message)
{
    tarn_runtime *runtime;

    CHECK_OK(tarn_runtime_create("short", &runtime));
    const NRT_api_functions *api = tarn_runtime_api(runtime);
    CHECK_OK(tarn_runtime_release(runtime));
    CHECK(!api->allocate(10));
    CHECK_MESSAGE("does not exist (not created yet, or released)");
    CHECK(!api->allocate_external(10, NULL));
    CHECK(!api->manage_memory(&runtime, end));
    api->acquire(NULL);
    api->release(NULL);
}

TEST(managed_memory_needs_no_destructor)
{
    int value;
    NRT_MemInfo *mi = NRT_get_api()->manage_memory(&value, NULL);

    CHECK(mi != NULL && NRT_MemInfo_data(mi) == &value);
    NRT_MemInfo_release(mi);
}

TEST(there_are_63_instances_and_their_places_are_used_again)
{
    tarn_runtime *runtimes[64];
    int made = 0;

    while (made < 64 && tarn_runtime_create("many", &runtimes[made]) == TARN_OK)
        made++;
    CHECK(made >= 62 && made <= 63); /* pointers may have one */
    CHECK_MESSAGE("cannot create runtime many, the maximum of 63");
    for (int i = 0; i < made; i++) {
        NRT_MemInfo *mi = tarn_runtime_api(runtimes[i])->allocate(64);
        CHECK(mi != NULL && tarn_meminfo_runtime(mi) == runtimes[i]);
        tarn_meminfo_release(mi);
        CHECK_OK(tarn_runtime_release(runtimes[i]));
    }
    CHECK_OK(tarn_runtime_create("again", &runtimes[0]));
    tarn_meminfo_release(tarn_runtime_api(runtimes[0])->allocate(64));
    CHECK_OK(tarn_runtime_release(runtimes[0]));
}

TEST(the_default_instance_is_not_released)
{
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_runtime_release(tarn_runtime_default()));
    CHECK_MESSAGE("the default runtime cannot be released");
}

static void count_call(void *data, size_t size, void *info)
{
    (void)data;
    (void)size;
    ++*(int *)info;
}

TEST(a_shutdown_is_one_instances_own)
{
    tarn_runtime *shut, *open;
    tarn_meminfo *meminfo;
    int calls = 0;

    CHECK_OK(tarn_runtime_create("shut", &shut));
    CHECK_OK(tarn_runtime_create("open", &open));
    tarn_runtime_shutdown(shut, true);
    CHECK_OK(tarn_meminfo_create(shut, NULL, 0, count_call, &calls, &meminfo));
    tarn_meminfo_release(meminfo);
    CHECK_EQUAL(0, calls);
    CHECK_OK(tarn_meminfo_create(open, NULL, 0, count_call, &calls, &meminfo));
    tarn_meminfo_release(meminfo);
    CHECK_EQUAL(1, calls);
    CHECK_OK(tarn_runtime_release(shut));
    CHECK_OK(tarn_runtime_release(open));
}

TEST(a_destructor_may_be_requested)
{
    int calls = 0, other;
    tarn_meminfo *meminfo;
    void *info = &other;

    CHECK_OK(tarn_meminfo_create(tarn_runtime_default(), NULL, 0, count_call, &calls,
                                 &meminfo));
    CHECK(!tarn_meminfo_has_destructor(meminfo, NULL, &info));
    CHECK(info == &other);
    CHECK(tarn_meminfo_has_destructor(meminfo, count_call, &info));
    CHECK(info == &calls);
    CHECK(tarn_meminfo_has_destructor(meminfo, count_call, NULL));
    tarn_meminfo_release(meminfo);
}
