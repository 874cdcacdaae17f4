/* encode_pictures.c -- the section PLAN of a data block: a plan, and the run beside it. */
#include "encode_pictures.h"

enum { PICTURES = 2, SHARE = 10000 };

static uint64_t kept_share(const struct picture *picture)
{
    return picture->area > 0
               ? (uint64_t)(picture->kept_area / picture->area * SHARE + 0.5)
               : SHARE;
}

static uint64_t field_of(const struct view *view, const struct picture_block *block,
                         uint64_t before, int field)
{
    const uint64_t fields[] = {
        block->start - before, block->end - block->start,
        block->offset,         block->bytes,
        block->address,        block->node ? view_node_of(view, block->node) + 1 : 0};

    return fields[field];
}

static void add_picture(const struct view *view, const struct picture *picture,
                        struct bytes *out)
{
    bytes_add_number(out, picture->operations);
    bytes_add_number(out, picture->height);
    bytes_add_number(out, picture->all);
    bytes_add_number(out, kept_share(picture));
    bytes_add_number(out, picture->count);
    for (int field = 0; field < 6; field++)
        for (size_t i = 0; i < picture->count; i++)
            bytes_add_number(out, field_of(view, &picture->blocks[i],
                                           i ? picture->blocks[i - 1].start : 0, field));
}

void encode_pictures(const struct view *view, struct data_block *block)
{
    const struct pictures *pictures = view->aggregate->pictures;

    if (!pictures)
        return;
    struct bytes *out = data_block_section(block, "PLAN");
    bytes_add_number(out, PICTURES);
    data_block_string(block, out, pictures->name);
    bytes_add_number(out, pictures->summary.peak_live_bytes);
    bytes_add_number(out, pictures->summary.streams);
    bytes_add_number(out, pictures->summary.waits);
    add_picture(view, &pictures->of_plan, out);
    add_picture(view, &pictures->of_run, out);
}
