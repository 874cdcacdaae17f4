/* cubin.h -- builds the image of a cubin with the kernels that a test needs: symbols, and
 * notes about parameters. */
#ifndef TARN_TESTS_SIM_CUBIN_H
#define TARN_TESTS_SIM_CUBIN_H

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CUBIN_BYTES = 4096, CUBIN_PARAMETERS_MAX = 4 };

/* A kernel of the cubin. Its parameters have 8 bytes each. */
struct cubin_kernel {
    const char *name;
    unsigned char binding; /* STB_GLOBAL or STB_WEAK */
    unsigned parameters;
};

struct cubin {
    _Alignas(16) unsigned char bytes[CUBIN_BYTES];
    Elf64_Shdr sections[8];
    size_t used;
    unsigned count;
    char names[256];
    size_t names_used;
};

static inline uint32_t cubin_name(struct cubin *cubin, const char *prefix,
                                  const char *name)
{
    uint32_t at = (uint32_t)cubin->names_used;

    cubin->names_used += (size_t)snprintf(cubin->names + at, sizeof cubin->names - at,
                                          "%s%s", prefix, name) +
                         1;
    return at;
}

static inline void cubin_section(struct cubin *cubin, uint32_t name, uint32_t type,
                                 uint32_t link, const void *data, size_t bytes)
{
    cubin->used = (cubin->used + 15) & ~(size_t)15;
    memcpy(cubin->bytes + cubin->used, data, bytes);
    cubin->sections[cubin->count++] = (Elf64_Shdr){.sh_name = name,
                                                   .sh_type = type,
                                                   .sh_link = link,
                                                   .sh_offset = cubin->used,
                                                   .sh_size = bytes};
    cubin->used += bytes;
}

/* The notes of a kernel: one for each parameter, from the last to the first. */
static inline size_t cubin_notes(unsigned parameters, uint32_t *words)
{
    size_t count = 0;

    for (unsigned i = parameters; i-- > 0;) {
        words[count++] = 0x000c1704;
        words[count++] = 0;
        words[count++] = i | i * 8 << 16;
        words[count++] = 8 << 18;
    }
    return count * sizeof *words;
}

/* Section 1 has all names, section 2 the symbols. */
static inline void cubin_build(struct cubin *cubin, const struct cubin_kernel *kernels,
                               unsigned count)
{
    Elf64_Sym symbols[4] = {{0}};
    uint32_t words[CUBIN_PARAMETERS_MAX * 4], info_names[4];
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shstrndx = 1};

    memset(cubin, 0, sizeof *cubin);
    cubin->used = sizeof header;
    cubin->names_used = 1;
    uint32_t table_name = cubin_name(cubin, ".symtab", "");
    for (unsigned i = 0; i < count; i++) {
        info_names[i] = cubin_name(cubin, ".nv.info.", kernels[i].name);
        symbols[i + 1] = (Elf64_Sym){
            .st_name = info_names[i] + 9,
            .st_info = ELF64_ST_INFO(kernels[i].binding, STT_FUNC),
            .st_shndx = 5,
            .st_size = 256,
        };
    }
    cubin_section(cubin, 0, SHT_NULL, 0, "", 0);
    cubin_section(cubin, 0, SHT_STRTAB, 0, cubin->names, cubin->names_used);
    cubin_section(cubin, table_name, SHT_SYMTAB, 1, symbols,
                  (count + 1) * sizeof *symbols);
    for (unsigned i = 0; i < count; i++) {
        size_t bytes = cubin_notes(kernels[i].parameters, words);
        cubin_section(cubin, info_names[i], SHT_LOPROC, 0, words, bytes);
    }
    cubin->used = (cubin->used + 15) & ~(size_t)15;
    header.e_shoff = cubin->used;
    header.e_shnum = (Elf64_Half)cubin->count;
    memcpy(cubin->bytes, &header, sizeof header);
    memcpy(cubin->bytes + cubin->used, cubin->sections,
           cubin->count * sizeof *cubin->sections);
}

#endif
