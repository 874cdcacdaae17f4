/* elf.h -- reads the symbols and some sections of a cubin. It checks every offset,
 * because images come from clients. */
#ifndef TARN_SIM_ELF_H
#define TARN_SIM_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the image that begins at `data`, from its own header. 0: no 64-bit ELF.
 */
size_t sim_elf_bytes(const void *data);

/* Call `visit` for each kernel (`is_kernel`) and each variable with its size, until it
 * returns false. Return false if it did, or if the image is truncated. */
typedef bool sim_elf_visit(void *self, const char *name, bool is_kernel, size_t bytes);
bool sim_elf_symbols(const unsigned char *image, size_t bytes, sim_elf_visit *visit,
                     void *self);

/* Find the size of the section named `prefix` followed by `name`. False: there is none.
 */
bool sim_elf_section(const unsigned char *image, size_t bytes, const char *prefix,
                     const char *name, size_t *out);

/* Find the compiler's note in .nv.info about the kernel `name`. False: there is none. */
enum { SIM_ELF_FRAME_BYTES = 0x11, SIM_ELF_REGISTERS = 0x2f };
bool sim_elf_note(const unsigned char *image, size_t bytes, unsigned note,
                  const char *name, uint32_t *out);

/* Find the place of parameter `number` of the kernel `name` among all of them. False:
 * there are fewer. */
struct sim_parameter {
    size_t offset, bytes;
};
bool sim_elf_parameter(const unsigned char *image, size_t bytes, const char *name,
                       unsigned number, struct sim_parameter *out);

#endif
