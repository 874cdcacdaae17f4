/* elf.h -- the little of a cubin that is read: its symbols and some sections. Every
 * offset is checked: images come from clients.
 */
#ifndef TARN_SIM_ELF_H
#define TARN_SIM_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long is the image that begins at `data`, by its own word? 0: no 64-bit ELF. */
size_t sim_elf_bytes(const void *data);

/* Call `visit` for each kernel (`is_kernel`) and each variable with its size, until it
 * returns false. False: it did, or the image is torn. */
typedef bool sim_elf_visit(void *self, const char *name, bool is_kernel, size_t bytes);
bool sim_elf_symbols(const unsigned char *image, size_t bytes, sim_elf_visit *visit,
                     void *self);

/* The section called `prefix` followed by `name`. False: there is none. */
struct sim_section {
    uint64_t bytes;
    uint32_t info;
};
bool sim_elf_section(const unsigned char *image, size_t bytes, const char *prefix,
                     const char *name, struct sim_section *out);

#endif
