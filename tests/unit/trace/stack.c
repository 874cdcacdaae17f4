/* Test call stacks: the table of stacks, native captures, and their text. */
#define _GNU_SOURCE
#include "child.h"
#include "test.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static uint32_t frame_at(const char *function, const char *file, int line)
{
    tarn_stack_frame frame = {.function = function, .file = file, .line = line};

    return tarn_stack_add_frame(&frame);
}

static tarn_stack_counts counts_now(void)
{
    tarn_stack_counts counts = {.size = sizeof counts};

    CHECK_OK(tarn_stack_get_counts(&counts));
    return counts;
}

static void check_frame(const tarn_stack_frame *frame, const char *function,
                        const char *file, int line)
{
    CHECK_TEXT(function, frame->function);
    CHECK_TEXT(file, frame->file);
    CHECK_EQUAL(line, frame->line);
    CHECK(frame->offset == 0 && frame->build_id == NULL);
}

/* --- the table --- */

TEST(equal_stacks_have_one_number)
{
    uint32_t f = frame_at("f", "a.py", 3), g = frame_at("g", "a.py", 9);
    tarn_stack_counts before = counts_now();
    tarn_stack one = tarn_stack_add((uint32_t[]){f, g}, 2);

    CHECK(f != 0 && g != 0 && f != g && one != TARN_STACK_UNKNOWN);
    CHECK_EQUAL(f, frame_at("f", "a.py", 3));
    CHECK_EQUAL(one, tarn_stack_add((uint32_t[]){f, g}, 2));
    CHECK(tarn_stack_add((uint32_t[]){g, f}, 2) != one);
    CHECK(tarn_stack_add((uint32_t[]){f}, 1) != one);
    CHECK_EQUAL(before.stacks + 3, counts_now().stacks);
    CHECK_EQUAL(before.entries + 3, counts_now().entries);
    CHECK_EQUAL(before.lost, counts_now().lost);
}

TEST(frames_differ_in_each_field)
{
    tarn_stack_frame frames[] = {{"f", "a", 1, 0, NULL}, {"g", "a", 1, 0, NULL},
                                 {"f", "b", 1, 0, NULL}, {"f", "a", 2, 0, NULL},
                                 {"f", "a", 1, 5, NULL}, {"f", "a", 1, 0, ""},
                                 {"f", "a", 1, 0, "ab"}, {NULL, "a", 1, 0, NULL}};
    uint32_t numbers[8];

    for (int i = 0; i < 8; i++) {
        numbers[i] = tarn_stack_add_frame(&frames[i]);
        CHECK(numbers[i] != 0);
        for (int j = 0; j < i; j++)
            CHECK(numbers[i] != numbers[j]);
    }
    CHECK_TEXT("", frames[7].function);
}

TEST(a_frame_has_strings_that_stay)
{
    char file[] = "changes.py";
    tarn_stack_frame frame = {.function = "f", .file = file, .line = 7}, found;
    uint32_t number = tarn_stack_add_frame(&frame);

    CHECK(frame.file != file);
    file[0] = 'X';
    CHECK_TEXT("changes.py", frame.file);
    CHECK_EQUAL(1, tarn_stack_frames(tarn_stack_add(&number, 1), 1, &found));
    CHECK(found.file == frame.file && found.function == frame.function);
}

TEST(frames_come_back_the_innermost_first)
{
    uint32_t numbers[] = {frame_at("inner", "a.py", 1), frame_at("outer", "b.py", 2)};
    tarn_stack stack = tarn_stack_add(numbers, 2);
    tarn_stack_frame frames[3] = {{.line = 77}, {.line = 77}, {.line = 77}};

    CHECK_EQUAL(2, tarn_stack_frames(stack, 0, NULL));
    CHECK_EQUAL(2, tarn_stack_frames(stack, 1, frames));
    CHECK_EQUAL(77, frames[1].line);
    CHECK_EQUAL(2, tarn_stack_frames(stack, 3, frames));
    check_frame(&frames[0], "inner", "a.py", 1);
    check_frame(&frames[1], "outer", "b.py", 2);
    CHECK_EQUAL(77, frames[2].line);
}

TEST(a_stack_keeps_its_innermost_frames)
{
    uint32_t numbers[TARN_STACK_DEPTH_MAX + 5];
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];

    for (int i = 0; i < TARN_STACK_DEPTH_MAX + 5; i++)
        numbers[i] = frame_at("deep", "deep.py", i + 1);
    tarn_stack stack = tarn_stack_add(numbers, TARN_STACK_DEPTH_MAX + 5);
    CHECK_EQUAL(TARN_STACK_DEPTH_MAX,
                tarn_stack_frames(stack, TARN_STACK_DEPTH_MAX, frames));
    CHECK_EQUAL(1, frames[0].line);
    CHECK_EQUAL(TARN_STACK_DEPTH_MAX, frames[TARN_STACK_DEPTH_MAX - 1].line);
}

TEST(numbers_of_other_things_are_no_stacks)
{
    uint32_t frame = frame_at("f", "a.py", 3);
    tarn_stack stack = tarn_stack_add(&frame, 1);
    tarn_stack_counts before = counts_now();
    const uint32_t wrong[] = {0, stack, frame - 1 /* a string */, UINT32_MAX};

    CHECK_EQUAL(TARN_STACK_UNKNOWN, tarn_stack_add(NULL, 3));
    CHECK_EQUAL(TARN_STACK_UNKNOWN, tarn_stack_add(&frame, 0));
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(TARN_STACK_UNKNOWN, tarn_stack_add((uint32_t[]){frame, wrong[i]}, 2));
    CHECK_EQUAL(before.lost + 1, counts_now().lost); /* 0 is a frame without space */
    CHECK_EQUAL(0, tarn_stack_frames(TARN_STACK_UNKNOWN, 0, NULL));
    CHECK_EQUAL(0, tarn_stack_frames(frame, 0, NULL));
    CHECK_EQUAL(0, tarn_stack_frames(UINT32_MAX, 0, NULL));
}

TEST(counts_need_their_size)
{
    tarn_stack_counts counts = {.size = 0, .lost = 77};

    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stack_get_counts(NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_stack_get_counts(&counts));
    counts.size = offsetof(tarn_stack_counts, lost);
    CHECK_OK(tarn_stack_get_counts(&counts));
    CHECK(counts.lost == 77 && counts.entries > 0);
}

TEST(a_long_name_is_cut)
{
    char *name = malloc(10000);
    memset(name, 'n', 9999);
    name[9999] = 0;
    tarn_stack_frame frame = {.function = name, .file = "a.py"};

    CHECK(tarn_stack_add_frame(&frame) != 0);
    CHECK_EQUAL(4096, strlen(frame.function));
    free(name);
}

/* --- a table without space: in a child, as it stays full --- */

/* Fill the table with long names. Returns the number of the last frame. */
static uint32_t fill(void)
{
    char name[4096];
    uint32_t number = 0, last;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (unsigned i = 0; i < 100000; i++) {
        memcpy(name, &(uint32_t){i | 0x80808080u | i << 8}, 4);
        last = number;
        number = frame_at(name, "a.py", (int)i);
        if (number == 0)
            return last;
    }
    return 0;
}

static void use_full_table(void)
{
    uint32_t old = frame_at("old", "a.py", 3);
    tarn_stack known = tarn_stack_add(&old, 1);
    tarn_stack_counts before = counts_now();
    uint32_t last = fill();
    tarn_stack_counts full = counts_now();
    tarn_stack_frame frame = {.function = "new", .file = "new.py", .line = 4}, found;

    CHILD_CHECK(last != 0);
    CHILD_CHECK(full.bytes >= 64 << 20 && full.bytes < (64 << 20) + 5000);
    CHILD_CHECK(full.lost == before.lost);
    CHILD_CHECK(tarn_stack_add_frame(&frame) == 0);
    CHILD_CHECK(strcmp(frame.file, "new.py") == 0 && frame.line == 4);
    CHILD_CHECK(tarn_stack_add(&last, 1) == TARN_STACK_UNKNOWN);
    CHILD_CHECK(tarn_stack_capture(3) == TARN_STACK_UNKNOWN);
    CHILD_CHECK(counts_now().lost == before.lost + 2 && counts_now().bytes == full.bytes);
    CHILD_CHECK(frame_at("old", "a.py", 3) == old);
    CHILD_CHECK(tarn_stack_add(&old, 1) == known);
    CHILD_CHECK(tarn_stack_frames(known, 1, &found) == 1 && found.line == 3);
}

TEST(a_full_table_counts_what_it_loses_and_finds_what_it_has)
{
    in_child(use_full_table);
}

/* The system provides no more memory to this process. */
static void use_without_memory(void)
{
    struct rlimit before, none;
    uint32_t old = frame_at("old", "a.py", 3);
    tarn_stack known = tarn_stack_add(&old, 1);
    tarn_stack_counts counts = counts_now();

    CHILD_CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = before.rlim_max};
    CHILD_CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    uint32_t last = fill();
    tarn_stack lost = tarn_stack_add((uint32_t[]){old, last, 0}, 3);
    tarn_stack found = tarn_stack_add(&old, 1);
    CHILD_CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    CHILD_CHECK(last != 0 && counts_now().bytes < 60 << 20);
    CHILD_CHECK(lost == TARN_STACK_UNKNOWN && found == known);
    CHILD_CHECK(counts_now().lost == counts.lost + 1);
    CHILD_CHECK(frame_at("new", "new.py", 4) != 0);
}

TEST(a_table_without_host_memory_loses_stacks_and_goes_on)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their allocators end the process */
#endif
    in_child(use_without_memory);
}

/* --- threads and forks --- */

enum { THREADS = 4, STACKS = 500 };

static tarn_stack numbers_of[THREADS][STACKS];

static void *add_all(void *data)
{
    tarn_stack *numbers = data;

    for (int i = 0; i < STACKS; i++) {
        uint32_t frames[] = {frame_at("thread", "t.py", i), frame_at("run", "t.py", i)};
        numbers[i] = tarn_stack_add(frames, 2);
    }
    return NULL;
}

TEST(threads_get_the_same_numbers)
{
    pthread_t threads[THREADS];
    tarn_stack_counts before = counts_now();

    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, add_all, numbers_of[i]));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
    for (int i = 1; i < THREADS; i++)
        CHECK(memcmp(numbers_of[0], numbers_of[i], sizeof numbers_of[0]) == 0);
    CHECK_EQUAL(before.stacks + STACKS, counts_now().stacks);
}

static tarn_stack of_the_parent;

static void use_in_child(void)
{
    tarn_stack_frame frame;
    uint32_t number = frame_at("parent", "p.py", 5);

    CHILD_CHECK(tarn_stack_add(&number, 1) == of_the_parent);
    CHILD_CHECK(tarn_stack_frames(of_the_parent, 1, &frame) == 1 && frame.line == 5);
    CHILD_CHECK(frame_at("child", "c.py", 1) != 0);
}

TEST(a_forked_child_keeps_the_numbers)
{
    uint32_t number = frame_at("parent", "p.py", 5);

    of_the_parent = tarn_stack_add(&number, 1);
    in_child(use_in_child);
}

/* --- native captures --- */

__attribute__((noinline)) static tarn_stack capture_here(unsigned depth)
{
    tarn_stack stack = tarn_stack_capture(depth);

    __asm__ volatile("" ::"r"(&stack) : "memory"); /* no tail call */
    return stack;
}

__attribute__((noinline)) static tarn_stack capture_deep(unsigned depth, unsigned calls)
{
    tarn_stack stack = calls ? capture_deep(depth, calls - 1) : capture_here(depth);

    __asm__ volatile("" ::"r"(&stack) : "memory");
    return stack;
}

TEST(a_native_stack_begins_at_the_caller)
{
    char program[4096] = "";
    tarn_stack_frame frames[4];
    Dl_info info;

    CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    CHECK(dladdr((void *)(uintptr_t)capture_here, &info) != 0);
    CHECK_EQUAL(4, tarn_stack_frames(capture_deep(4, 10), 4, frames));
    uintptr_t call = (uintptr_t)info.dli_fbase + frames[0].offset;
    CHECK(call - (uintptr_t)capture_here < 1000);
    for (int i = 0; i < 4; i++) {
        CHECK_TEXT(program, frames[i].file);
        CHECK_EQUAL(0, frames[i].line);
        CHECK(frames[i].build_id != NULL && frames[i].function != NULL);
    }
    CHECK(frames[1].offset != frames[0].offset && frames[2].offset == frames[3].offset);
}

/* The bytes of a file contain a note with these digits. */
static bool has_build_id(const char *path, const char *digits)
{
    unsigned char note[12 + 4 + 32];
    uint32_t header[3] = {4, (uint32_t)strlen(digits) / 2, 3};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat its;

    CHECK(file >= 0 && fstat(file, &its) == 0 && header[1] <= 32);
    memcpy(note, header, sizeof header);
    memcpy(note + 12, "GNU", 4);
    for (uint32_t i = 0; i < header[1]; i++) {
        unsigned byte;
        CHECK_EQUAL(1, sscanf(digits + 2 * i, "%2x", &byte));
        note[16 + i] = (unsigned char)byte;
    }
    void *bytes = mmap(NULL, (size_t)its.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(bytes != MAP_FAILED);
    bool found = memmem(bytes, (size_t)its.st_size, note, 16 + header[1]) != NULL;
    munmap(bytes, (size_t)its.st_size);
    close(file);
    return found;
}

static tarn_stack in_visit;

static bool capture_in_visit(void *data, const tarn_tracked_block *block)
{
    (void)data, (void)block;
    in_visit = capture_here(8);
    return true;
}

/* Functions of libraries have names, and libtarn is left out only where it is innermost. */
TEST(a_native_frame_has_its_module_and_the_name_of_its_function)
{
    tarn_resource *host, *tracker;
    tarn_stack_frame frames[8];
    tarn_device_ptr block;

    CHECK_OK(tarn_host_create(&host));
    CHECK_OK(tarn_tracker_create(host, NULL, &tracker));
    CHECK_OK(tarn_resource_allocate(tracker, 10, 0, TARN_STREAM_NONE, &block));
    CHECK_OK(tarn_tracker_visit(tracker, capture_in_visit, NULL));
    CHECK(tarn_stack_frames(in_visit, 8, frames) >= 4);
    CHECK_TEXT("tarn_tracker_visit", frames[2].function);
    CHECK(strstr(frames[2].file, "libtarn.so") != NULL);
    CHECK(strlen(frames[2].build_id) >= 16);
    CHECK(has_build_id(frames[2].file, frames[2].build_id));
    CHECK(has_build_id(frames[0].file, frames[0].build_id));
    CHECK(strcmp(frames[0].build_id, frames[2].build_id) != 0);
    CHECK_OK(tarn_resource_deallocate(tracker, block, 10, 0, TARN_STREAM_NONE));
    CHECK_OK(tarn_resource_release(tracker));
    CHECK_OK(tarn_resource_release(host));
}

TEST(equal_native_stacks_have_one_number)
{
    tarn_stack stacks[2], deeper;

    for (int i = 0; i < 2; i++)
        stacks[i] = capture_deep(16, 3);
    deeper = capture_deep(16, 4);
    CHECK(stacks[0] == stacks[1] && stacks[0] != TARN_STACK_UNKNOWN);
    CHECK(deeper != stacks[0]);
}

TEST(a_capture_has_at_most_its_depth)
{
    CHECK_EQUAL(TARN_STACK_UNKNOWN, tarn_stack_capture(0));
    for (unsigned depth = 1; depth <= TARN_STACK_DEPTH_MAX; depth *= 2)
        CHECK_EQUAL(depth, tarn_stack_frames(capture_deep(depth, 200), 0, NULL));
    CHECK_EQUAL(TARN_STACK_DEPTH_MAX,
                tarn_stack_frames(capture_deep(9999, 200), 0, NULL));
}

static void *capture_often(void *data)
{
    for (unsigned i = 0; i < 200; i++)
        if (capture_deep(16, i % 8) == TARN_STACK_UNKNOWN)
            *(bool *)data = true;
    return NULL;
}

/* The list of modules is made again while others read it. */
TEST(captures_go_on_while_libraries_are_loaded_and_unloaded)
{
    pthread_t threads[THREADS];
    bool is_lost[THREADS] = {false};
    char path[4096];

    snprintf(path, sizeof path, "%s/tests/fake/manager.so", getenv("TARN_BUILD"));
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, capture_often, &is_lost[i]));
    for (int i = 0; i < 50; i++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        CHECK_EQUAL(0, dlclose(library));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(0, pthread_join(threads[i], NULL));
        CHECK(!is_lost[i]);
    }
}

/* --- the finder --- */

static unsigned depth_asked;

static tarn_stack find(unsigned depth)
{
    uint32_t number = frame_at("script", "s.py", 12);

    depth_asked = depth;
    return tarn_stack_add(&number, 1);
}

static tarn_stack find_nothing(unsigned depth)
{
    depth_asked = depth;
    return TARN_STACK_UNKNOWN;
}

TEST(the_finder_is_asked_first_and_native_frames_serve_where_it_knows_nothing)
{
    tarn_stack_frame frame;

    tarn_stack_set_finder(find);
    CHECK_EQUAL(1, tarn_stack_frames(tarn_stack_capture(5), 1, &frame));
    CHECK_EQUAL(5, depth_asked);
    check_frame(&frame, "script", "s.py", 12);
    tarn_stack_capture(1000);
    CHECK_EQUAL(TARN_STACK_DEPTH_MAX, depth_asked);
    tarn_stack_set_finder(find_nothing);
    tarn_stack native = tarn_stack_capture(3);
    tarn_stack_set_finder(NULL);
    CHECK_EQUAL(3, depth_asked);
    CHECK(tarn_stack_frames(native, 1, &frame) > 0 && frame.build_id != NULL);
}

/* --- text --- */

TEST(a_stack_is_printed_as_a_traceback)
{
    tarn_stack_frame native = {
        .function = "", .file = "/lib/x.so", .offset = 0x1234, .build_id = "ab12"};
    uint32_t numbers[] = {frame_at("inner", "a.py", 1), frame_at("", "<stdin>", 0),
                          tarn_stack_add_frame(&native)};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    tarn_stack_print(tarn_stack_add(numbers, 3), out);
    tarn_stack_print(TARN_STACK_UNKNOWN, out);
    fclose(out);
    CHECK_TEXT("  File \"/lib/x.so\", offset 0x1234, build-id ab12\n"
               "  File \"<stdin>\"\n"
               "  File \"a.py\", line 1, in inner\n"
               "  the call stack is unknown\n",
               text);
    free(text);
}
