/* plan.c -- a fuzz target: any bytes as a plan, read, checked, counted and written.
 *
 *     fuzz-plan [-max_total_time=120] [FOLDER]
 *
 * The checksum is repaired first: random bytes would not get past it.
 *
 * The reader accepts the bytes as a valid plan, whose file has the same bytes, or rejects
 * them with a message that names the file. The result does not depend on the portions in
 * which its source returns the bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/plan.h>
#include "input.h"
#include "plan/file.h"

/* The bytes of the plan have to be those that were read. */
static bool compare_output(void *data, const char *bytes, size_t count)
{
    struct input *input = data;

    if ((size_t)(input->end - input->at) < count || memcmp(input->at, bytes, count) != 0)
        abort();
    input->at += count;
    return true;
}

static void use(const tarn_plan *plan, const uint8_t *bytes, size_t count)
{
    tarn_plan_summary summary = {.size = sizeof summary};
    tarn_plan_moves moves = {.size = sizeof moves};
    struct input output = {bytes, bytes + count, 0};

    if (tarn_plan_summarize(plan, &summary) != TARN_OK ||
        tarn_plan_count_moves(plan, summary.height_bytes / 2, &moves) != TARN_OK ||
        moves.allocations > summary.blocks ||
        tarn_plan_write(plan, "fuzz", compare_output, &output) != TARN_OK ||
        output.at != output.end)
        abort();
}

static tarn_status read_plan(const uint8_t *bytes, size_t count, size_t portion)
{
    struct input input = {bytes, bytes + count, portion};
    tarn_plan *plan;
    tarn_status status = tarn_plan_read("fuzz", read_input, &input, &plan);

    if (status == TARN_OK) {
        use(plan, bytes, count);
        tarn_plan_release(plan);
    } else if (strncmp(tarn_error_last()->message, "fuzz:", 5) != 0) {
        fprintf(stderr, "no name in: %s\n", tarn_error_last()->message);
        abort();
    }
    return status;
}

static void repair(uint8_t *bytes, size_t count)
{
    if (count < TARN__FILE_HEADER_BYTES)
        return;
    uint64_t sum =
        tarn__file_checksum(TARN__FILE_CHECKSUM_START, bytes, TARN__FILE_CHECKSUM_AT);
    sum = tarn__file_checksum(sum, bytes + TARN__FILE_HEADER_BYTES,
                              count - TARN__FILE_HEADER_BYTES);
    for (int i = 0; i < 8; i++)
        bytes[TARN__FILE_CHECKSUM_AT + i] = (uint8_t)(sum >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    uint8_t *bytes = malloc(count + 1);

    if (!bytes)
        return 0;
    if (count > 0)
        memcpy(bytes, data, count);
    read_plan(bytes, count, count + 1);
    repair(bytes, count);
    tarn_status status = read_plan(bytes, count, count + 1);
    if (read_plan(bytes, count, 7) != status)
        abort();
    free(bytes);
    return 0;
}
