/* Test the replacement of a function that was never compiled. */
#define _GNU_SOURCE
#include "test.h"
#include "captured_stderr.h"

typedef int unknown(int one, double two, const char *three, long four, long five,
                    long six, long seven, double eight);

/* As in a compiler's symbol table. */
static unknown *unresolved(void)
{
    return (unknown *)(void (*)(void))nrt_unresolved_abort;
}

static jmp_buf back;

static int hook(void *data, const void *caller)
{
    CHECK(caller);
    ++*(int *)data;
    return -7;
}

static int leave(void *data, const void *caller)
{
    (void)data;
    (void)caller;
    longjmp(back, 1);
}

TEST(an_unresolved_call_goes_to_the_hook_with_any_arguments)
{
    int calls = 0;

    tarn_nrt_set_unresolved_hook(hook, &calls);
    CHECK_EQUAL(-7, unresolved()(1, 2.0, "three", 4, 5, 6, 7, 8.0));
    CHECK_EQUAL(1, calls);
    CHECK_MESSAGE("a function without a compiled implementation was called at ");
    tarn_nrt_set_unresolved_hook(NULL, NULL);
}

TEST(a_hook_may_leave_by_a_jump)
{
    tarn_nrt_set_unresolved_hook(leave, NULL);
    if (setjmp(back) == 0) {
        unresolved()(1, 2.0, "three", 4, 5, 6, 7, 8.0);
        fail_msg("the hook came back");
    }
    tarn_nrt_set_unresolved_hook(NULL, NULL);
}

static void call(void)
{
    unresolved()(1, 2.0, "three", 4, 5, 6, 7, 8.0);
}

TEST(without_a_hook_it_aborts_with_a_message)
{
    CHECK_EQUAL(-6, child_status(call, 1));
    CHECK(strstr(captured_stderr,
                 "tarn: nrt: a function without a compiled implementation was called"));
}
