/* Test the site that a thread sets for the loggers beneath. */
#include "test.h"
#include <pthread.h>

TEST(site_is_unknown_at_first)
{
    CHECK(tarn_site_current().file == NULL);
    CHECK_EQUAL(0, tarn_site_current().line);
}

TEST(site_set_returns_the_one_before)
{
    tarn_site before = tarn_site_set((tarn_site){"a.py", 7});
    tarn_site inner = tarn_site_set((tarn_site){"<gc>", 0});

    CHECK_TEXT("a.py", inner.file);
    CHECK_EQUAL(7, inner.line);
    CHECK_TEXT("<gc>", tarn_site_current().file);
    tarn_site_set(before);
}

static void *other_thread(void *out)
{
    *(tarn_site *)out = tarn_site_current();
    tarn_site_set((tarn_site){"other.py", 1});
    return NULL;
}

TEST(site_is_one_a_thread)
{
    pthread_t thread;
    tarn_site seen, before = tarn_site_set((tarn_site){"mine.py", 3});

    CHECK_EQUAL(0, pthread_create(&thread, NULL, other_thread, &seen));
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    CHECK(seen.file == NULL);
    CHECK_TEXT("mine.py", tarn_site_current().file);
    tarn_site_set(before);
}
