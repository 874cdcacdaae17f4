/* Test the text of TARN_POOL_DEBUG. */
#include "test.h"

static void check_text(const char *text, tarn_guard_options wanted)
{
    tarn_guard_options got;

    memset(&got, 0xff, sizeof got);
    CHECK_OK(tarn_guard_parse(text, &got));
    CHECK_EQUAL(sizeof got, got.size);
    CHECK(got.guard == wanted.guard && got.poison == wanted.poison &&
          got.aborts == wanted.aborts);
    CHECK(got.quarantine_bytes == wanted.quarantine_bytes);
    CHECK(got.zone_bytes == wanted.zone_bytes && got.sample == wanted.sample);
    CHECK_EQUAL(wanted.stack_depth, got.stack_depth);
}

TEST(a_text_selects_options)
{
    check_text("guard", (tarn_guard_options){.guard = true});
    check_text("guard=1/1000", (tarn_guard_options){.guard = true, .sample = 1000});
    check_text("poison", (tarn_guard_options){.poison = true});
    check_text("quarantine", (tarn_guard_options){.quarantine_bytes = 64 << 20});
    check_text("quarantine=3", (tarn_guard_options){.quarantine_bytes = 3});
    check_text("quarantine=2KiB", (tarn_guard_options){.quarantine_bytes = 2048});
    check_text("quarantine=5GiB",
               (tarn_guard_options){.quarantine_bytes = (uint64_t)5 << 30});
    check_text("guard,poison,quarantine",
               (tarn_guard_options){
                   .guard = true, .poison = true, .quarantine_bytes = 64 << 20});
    check_text(
        "abort,zone=4KiB,stacks=128,guard",
        (tarn_guard_options){
            .guard = true, .aborts = true, .zone_bytes = 4096, .stack_depth = 128});
}

TEST(a_wrong_text_is_an_error_that_names_the_item)
{
    static const char *const texts[][2] = {
        {"", "\"\" is not"},
        {"guard,", "\"\" is not"},
        {",guard", "\"\" is not"},
        {"garde", "\"garde\" is not"},
        {"guard,poisson", "\"poisson\" is not"},
        {"Guard", "\"Guard\" is not"},
        {"guard poison", "\"guard poison\" is not"},
        {"guard=", "\"guard=\" is not"},
        {"guard=1", "\"guard=1\" is not"},
        {"guard=2/3", "\"guard=2/3\" is not"},
        {"guard=1/0", "\"guard=1/0\" is not"},
        {"guard=1/-1", "\"guard=1/-1\" is not"},
        {"guard=1/10x", "\"guard=1/10x\" is not"},
        {"guard=1/2000000000", "\"guard=1/2000000000\" is not"},
        {"poison=1", "\"poison=1\" is not"},
        {"abort=0,guard", "\"abort=0\" is not"},
        {"quarantine=0", "\"quarantine=0\" is not"},
        {"quarantine=1MB", "\"quarantine=1MB\" is not"},
        {"quarantine=99999999999999999999", "\"quarantine=99999999999999999999\" is not"},
        {"quarantine=18446744073709551615GiB",
         "\"quarantine=18446744073709551615GiB\" is not"},
        {"guard,zone=255", "\"zone=255\" is not"},
        {"guard,zone=2MiB", "\"zone=2MiB\" is not"},
        {"guard,stacks=129", "\"stacks=129\" is not"},
        {"guard,stacks=1KiB", "\"stacks=1KiB\" is not"},
        {"abort", "neither guard, nor poison, nor quarantine"},
        {"zone=1KiB,stacks=3", "neither guard, nor poison, nor quarantine"},
        {"guard,a_long_item_of_more_than_sixty_four_characters_that_is_cut_in_the_"
         "message",
         "\"a_long_item_of_more_than_sixty_four_characters_that_is_cut_in_th\" is not"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tarn_guard_options options = {.size = 77};
        CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_parse(texts[i][0], &options));
        CHECK_MESSAGE(texts[i][1]);
        CHECK_EQUAL(77, options.size);
    }
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_parse(NULL, NULL));
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_parse("guard", NULL));
}
