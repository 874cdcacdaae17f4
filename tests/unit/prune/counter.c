/* counter.c -- test the counters of increfs that stay, and that threads insert them and remove
 * carried references at once. */
#include "ir.h"
#include <pthread.h>

/* A walk over a list: nothing of it stays. */
#define WALK                                                                             \
    "define void @walk(i8* %head, i1 %c) {\nentry:\n" INCREF(                            \
        "%head") "  br label %loop\nloop:\n"                                             \
                 "  %at = phi i8* [ %head, %entry ], [ %next, %loop ]\n"                 \
                 "  %next = getelementptr i8, i8* %at, i64 8\n" INCREF("%next")          \
                     DECREF("%at") "  br i1 %c, label %loop, label %end\nend:\n" DECREF( \
                         "%next") "  ret void\n}\n"

/* Two increfs stay: one has no decref, and a call is before the decref of the other. */
#define KEEP                                                      \
    "declare void @any()\ndefine void @keep(i8** %l, i8* %a) {\n" \
    "  %x = load i8*, i8** %l\n" INCREF("%x")                     \
        INCREF("%a") "  call void @any()\n" DECREF("%x") "  ret void\n}\n"

struct counting {
    uint64_t calls, without_decref, counter;
    bool none; /* return no counter */
};

static uint64_t *count(void *data, const tarn_prune_kept *kept)
{
    struct counting *counting = data;

    counting->calls++;
    counting->without_decref += kept->rule == TARN_PRUNE_NO_DECREF;
    return counting->none ? NULL : &counting->counter;
}

static struct outcome prune_counting(const char *text, struct counting *counting)
{
    return prune_with(text,
                      (tarn_prune_options){.counter = count, .explain_data = counting});
}

TEST(a_counter_stands_before_each_incref_that_stays)
{
    struct counting counting = {0};
    struct outcome outcome = prune_counting(DECLARED WALK KEEP, &counting);

    CHECK_EQUAL(4, outcome.report.carried);
    CHECK_EQUAL(2, counting.calls);
    CHECK_EQUAL(1, counting.without_decref);
    CHECK_EQUAL(2, count_of(outcome.text, "atomicrmw add"));
    CHECK_EQUAL(2, count_of(outcome.text, "!tarn_counter"));
}

TEST(an_incref_without_a_counter_is_not_counted)
{
    struct counting counting = {.none = true};

    CHECK_EQUAL(0, count_of(prune_counting(DECLARED KEEP, &counting).text, "atomicrmw"));
    CHECK_EQUAL(2, counting.calls);
}

TEST(pruning_again_replaces_the_counters)
{
    struct counting counting = {0}, none = {.none = true};
    char *once = strdup(prune_counting(DECLARED KEEP, &counting).text);

    CHECK_EQUAL(2, count_of(prune_counting(once, &counting).text, "atomicrmw add"));
    CHECK_EQUAL(0, count_of(prune_counting(once, &none).text, "atomicrmw add"));
    free(once);
}

enum { THREADS = 4, ROUNDS = 50 };

/* `counter` receives the rounds that gave the right counts. */
static void *prune_in_thread(void *data)
{
    struct counting *counting = data;
    const char *text = DECLARED WALK KEEP;
    tarn_prune_options options = {.counter = count, .explain_data = counting};

    for (int round = 0; round < ROUNDS; round++) {
        tarn_prune_report report;
        char *out;
        size_t bytes;
        if (tarn_prune_bytes(text, strlen(text), NULL, &options, &report, &out, &bytes) !=
            TARN_OK)
            return NULL;
        counting->counter += report.carried == 4 && count_of(out, "!tarn_counter") == 2;
        tarn_prune_free(out);
    }
    return NULL;
}

TEST(threads_insert_counters_and_remove_carried_references_at_once)
{
    pthread_t threads[THREADS];
    struct counting counting[THREADS] = {0};

    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, prune_in_thread, &counting[i]));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQUAL(ROUNDS, counting[i].counter);
        CHECK_EQUAL(2 * ROUNDS, counting[i].calls);
    }
}
