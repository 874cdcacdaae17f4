/* pictures.h -- the blocks of a plan by time and address, and those of the run beside it.
 *
 * Time is counted in operations, as in a plan: allocations and frees. A picture keeps its
 * PICTURES_BLOCKS largest blocks, by bytes times life, and counts the others.
 *
 * The addresses of the run lie far apart. They are pushed together: a gap of more than
 * 64 MiB between the kept blocks is left out. So the gaps of fragmentation stay.
 */
#ifndef TARN_CLI_REPORT_PICTURES_H
#define TARN_CLI_REPORT_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tarn/tarn.h>

enum { PICTURES_BLOCKS = 4096 };

struct picture_block {
    uint64_t start, end;      /* operations */
    uint64_t address, offset; /* `offset` is that in the picture, in bytes */
    uint64_t bytes;
    uint32_t node; /* of the stacks; 0: unknown */
};

struct picture {
    struct picture_block *blocks; /* the smallest first; of a finished one, by start */
    size_t count;
    uint64_t started;         /* allocations so far, of a run */
    uint64_t all, operations; /* blocks, and time, of the whole work */
    uint64_t height;          /* bytes of the picture */
    double area, kept_area; /* bytes times operations: of all blocks, and of those kept */
};

struct pictures {
    const char *name;      /* of the plan; borrowed */
    const tarn_plan *plan; /* borrowed */
    tarn_plan_summary summary;
    uint32_t *nodes; /* by block of the plan: of the allocation of the run in its place */
    struct picture of_plan, of_run;
};

/* Make pictures of a plan, with none of the run yet. The plan and its name are borrowed. */
void pictures_init(struct pictures *pictures, const tarn_plan *plan, const char *name);
/* Note an allocation of the run with its stack, and return its operation. */
uint64_t pictures_begin(struct pictures *pictures, uint64_t bytes, uint32_t node);
/* Note a free of the run; the offset and the end of the block are not known yet. */
void pictures_end(struct pictures *pictures, const struct picture_block *block);
/* Note a block that is live at the end of the run, before pictures_finish(). */
void pictures_keep(struct pictures *pictures, const struct picture_block *block);
/* Complete both pictures at the end of the run. */
void pictures_finish(struct pictures *pictures);
void pictures_free(struct pictures *pictures);

#endif
