/* nvtx_log.h -- what the tool tests/fake/nvtx_tool.c has seen. */
#ifndef TARN_TEST_NVTX_LOG_H
#define TARN_TEST_NVTX_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvtx_region {
    uint64_t address, bytes;
    char name[256];
};

/* Let the environment name the tool, with defects (nvtx_tool.c) or NULL, and a new log. Tarn
 * attaches the tool at its first heap. */
void nvtx_use_tool(const char *defects);

/* Read the log so far. The test fails unless heaps do not overlap, each region is in its heap
 * and overlaps no other one, and each end belongs to a begin. */
void nvtx_read(void);

/* After nvtx_read(): the heap or region that has an address; NULL: there is none. */
const struct nvtx_region *nvtx_heap(uint64_t address);
const struct nvtx_region *nvtx_region(uint64_t address);
size_t nvtx_heap_count(void);
size_t nvtx_region_count(void);

/* Append a line to the log, and find the number of the first line after `from` that begins with a
 * text; 0: there is none. Lines count from 1. */
void nvtx_note(const char *line);
size_t nvtx_line(const char *begin, size_t from);

#endif
