/* Test destructors of MemInfos that call the runtime themselves.
 *
 * Calls about the ending MemInfo are misuse and reported once; calls about others are
 * valid.
 */
#include "test.h"
#include "nrt/meminfo.h"
#include <pthread.h>
#include <stdlib.h>

static struct {
    int count;
    char last[600];
} misuses;

static void record_misuse(void *data, const char *message)
{
    (void)data;
    misuses.count++;
    snprintf(misuses.last, sizeof misuses.last, "%s", message);
}

struct ending {
    tarn_runtime *runtime;
    tarn_meminfo *meminfo;
    int calls;
    void (*act)(struct ending *ending);
};

static void destruct(void *data, size_t size, void *info)
{
    struct ending *ending = info;

    CHECK(data == ending);
    CHECK_EQUAL(17, size);
    ending->calls++;
    CHECK(ending->calls == 1);
    ending->act(ending);
}

static void release_again(struct ending *ending)
{
    tarn_meminfo_release(ending->meminfo);
}

static void acquire_again(struct ending *ending)
{
    tarn_meminfo_acquire(ending->meminfo);
}

static void call_destructor_again(struct ending *ending)
{
    NRT_MemInfo_call_dtor(ending->meminfo);
}

static void destroy_again(struct ending *ending)
{
    NRT_MemInfo_destroy(ending->meminfo);
}

static void free_again(struct ending *ending)
{
    NRT_dealloc(ending->meminfo);
}

static void use_others(struct ending *ending)
{
    tarn_meminfo *other;

    for (int i = 0; i < 100; i++) {
        CHECK_OK(tarn_meminfo_create(ending->runtime, NULL, 0, NULL, NULL, &other));
        tarn_meminfo_acquire(other);
        tarn_meminfo_release(other);
        tarn_meminfo_release(other);
        NRT_Free(NRT_Allocate(100));
    }
}

static void release_the_runtime(struct ending *ending)
{
    CHECK_STATUS(TARN_STILL_IN_USE, tarn_runtime_release(ending->runtime));
}

static void shut_down(struct ending *ending)
{
    tarn_runtime_shutdown(ending->runtime, true);
}

static void trim(struct ending *ending)
{
    tarn_runtime_trim(ending->runtime);
    CHECK_OK(tarn_runtime_set_modes(ending->runtime, 0));
}

static void *end_one(void *data)
{
    struct ending *ending = data;

    ending->calls = 0;
    CHECK_OK(tarn_meminfo_create(ending->runtime, ending, 17, destruct, ending,
                                 &ending->meminfo));
    tarn_meminfo_release(ending->meminfo);
    CHECK_EQUAL(1, ending->calls);
    return NULL;
}

/* Without debug modes, and with those that change the end of a block. */
static void end_in_each_mode(void (*act)(struct ending *), int wanted)
{
    static const unsigned modes[] = {0, TARN_NRT_POISON,
                                     TARN_NRT_GUARD | TARN_NRT_QUARANTINE,
                                     TARN_NRT_SITES | TARN_NRT_UNPOOLED};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct ending ending = {.act = act};
        tarn_runtime_counts counts;
        pthread_t thread;

        CHECK_OK(tarn_runtime_create("test", &ending.runtime));
        CHECK_OK(tarn_runtime_set_modes(ending.runtime, modes[i]));
        misuses.count = 0;
        tarn_nrt_set_misuse_handler(record_misuse, NULL);
        end_one(&ending);
        CHECK_EQUAL(wanted, misuses.count);
        if (wanted)
            CHECK(strstr(misuses.last, "which is being destroyed (runtime test)"));
        CHECK_EQUAL(0, pthread_create(&thread, NULL, end_one, &ending));
        CHECK_EQUAL(0, pthread_join(thread, NULL));
        CHECK_EQUAL(2 * wanted, misuses.count);
        tarn_runtime_counts_read(ending.runtime, &counts);
        CHECK_EQUAL(counts.created, counts.destroyed);
        tarn_nrt_set_misuse_handler(NULL, NULL);
        CHECK_OK(tarn_runtime_release(ending.runtime));
    }
}

TEST(meminfo_that_its_destructor_ends_again_ends_once)
{
    end_in_each_mode(release_again, 1);
    end_in_each_mode(acquire_again, 1);
    end_in_each_mode(call_destructor_again, 1);
    end_in_each_mode(destroy_again, 1);
    end_in_each_mode(free_again, 1);
}

TEST(destructor_may_make_and_end_others)
{
    end_in_each_mode(use_others, 0);
    end_in_each_mode(trim, 0);
}

TEST(runtime_stays_while_a_destructor_of_it_runs)
{
    end_in_each_mode(release_the_runtime, 0);
}

TEST(destructor_may_shut_its_runtime_down)
{
    struct ending ending = {.act = shut_down};

    CHECK_OK(tarn_runtime_create("test", &ending.runtime));
    end_one(&ending);
    CHECK_OK(tarn_meminfo_create(ending.runtime, &ending, 17, destruct, &ending,
                                 &ending.meminfo));
    tarn_meminfo_release(ending.meminfo); /* no destructor is called any more */
    CHECK_EQUAL(1, ending.calls);
    CHECK_OK(tarn_runtime_release(ending.runtime));
}
