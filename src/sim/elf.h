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

/* How large is the section called `prefix` followed by `name`? False: there is none. */
bool sim_elf_section(const unsigned char *image, size_t bytes, const char *prefix,
                     const char *name, size_t *out);

/* What the compiler noted in .nv.info about the kernel `name`. False: nothing. */
enum { SIM_ELF_FRAME_BYTES = 0x11, SIM_ELF_REGISTERS = 0x2f };
bool sim_elf_note(const unsigned char *image, size_t bytes, unsigned note,
                  const char *name, uint32_t *out);

#endif
