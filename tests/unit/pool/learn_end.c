/* Test the ends of a process while the thread of a pool plans a step. */
#include "learn.h"
#include "child.h"
#include <sys/wait.h>
#include <unistd.h>

static tarn_stream stream;

static void plan_and_fork(void)
{
    const struct step large = {.seed = 2, .count = 4000, .streams = 1};

    use_driver(0);
    stream = new_stream();
    for (unsigned i = 0; i < 10; i++) {
        int status = 0;
        tarn_resource *pool = learning_pool();
        for (int j = 0; j < 2; j++) {
            mark(pool);
            step_run(pool, &large, &stream);
        }
        mark(pool);
        usleep(i * 300);
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_mark_step(pool));
            tarn_pool_statistics all = {.size = sizeof all};
            CHILD_STATUS(TARN_OK, tarn_pool_get_statistics(pool, &all));
            CHILD_CHECK(all.steps_learned == 2);
            CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
            _exit(0);
        }
        waitpid(child, &status, 0);
        CHILD_CHECK(status == 0);
        wait_for_plans(pool, 1);
        CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    }
}

TEST(a_forked_child_neither_plans_nor_waits_for_the_thread)
{
    in_child(plan_and_fork);
}

static void plan_and_exit(void)
{
    const struct step large = {.seed = 3, .count = 20000, .streams = 1};

    use_driver(0);
    stream = new_stream();
    tarn_resource *pool = learning_pool();
    for (int j = 0; j < 2; j++) {
        mark(pool);
        step_run(pool, &large, &stream);
    }
    mark(pool);
    exit(0);
}

static void exits_while_it_plans(void)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        plan_and_exit();
    waitpid(child, &status, 0);
    CHILD_CHECK(status == 0);
}

TEST(a_process_may_end_while_a_step_is_planned)
{
    in_child(exits_while_it_plans);
}
