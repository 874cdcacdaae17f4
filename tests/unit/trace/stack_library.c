/* Test the native library that stands before the frames of a language runtime. */
#include "test.h"
#include "trace/stack.h"

static tarn_stack find(unsigned depth)
{
    tarn_stack_frame frame = {.function = "script", .file = "s.py", .line = 12};
    uint32_t number = tarn_stack_add_frame(&frame);

    return depth > 0 ? tarn_stack_add(&number, 1) : TARN_STACK_UNKNOWN;
}

static tarn_stack find_nothing(unsigned depth)
{
    (void)depth;
    return TARN_STACK_UNKNOWN;
}

TEST(a_library_that_calls_comes_before_the_frames_of_the_finder)
{
    tarn_stack_frame frames[2];

    tarn_stack_set_finder(find);
    CHECK(tarn__stack_set_library("libtorch.so") == NULL);
    CHECK_EQUAL(2, tarn_stack_frames(tarn_stack_capture(5), 2, frames));
    CHECK_TEXT("libtorch.so", frames[0].file);
    CHECK(frames[0].build_id != NULL);
    CHECK_TEXT("s.py", frames[1].file);
    CHECK_TEXT("libtorch.so", tarn__stack_set_library(NULL));
    CHECK_EQUAL(1, tarn_stack_frames(tarn_stack_capture(5), 2, frames));
    tarn_stack_set_finder(NULL);
}

TEST(a_stack_of_one_frame_is_the_line_of_the_program)
{
    tarn_stack_frame frames[2];

    tarn_stack_set_finder(find);
    tarn__stack_set_library("libtorch.so");
    CHECK_EQUAL(1, tarn_stack_frames(tarn_stack_capture(1), 2, frames));
    CHECK_TEXT("s.py", frames[0].file);
    CHECK_EQUAL(2,
                tarn_stack_frames(tarn_stack_capture(TARN_STACK_DEPTH_MAX), 2, frames));
    tarn__stack_set_library(NULL);
    tarn_stack_set_finder(NULL);
}

TEST(native_frames_have_no_other_library_before_them)
{
    tarn_stack_frame frame;

    tarn_stack_set_finder(find_nothing);
    tarn__stack_set_library("libtorch.so");
    CHECK(tarn_stack_frames(tarn_stack_capture(3), 1, &frame) > 0);
    CHECK(strcmp(frame.file, "libtorch.so") != 0);
    tarn__stack_set_library(NULL);
    tarn_stack_set_finder(NULL);
}
