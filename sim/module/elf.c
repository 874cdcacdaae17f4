/* elf.c -- reads a cubin's symbol table and section headers. */
#include "sim/module/elf.h"
#include <elf.h>
#include <string.h>

/* Return true if `bytes` bytes at `offset` are inside of the image. */
static bool holds(size_t image_bytes, uint64_t offset, uint64_t bytes)
{
    return offset <= image_bytes && bytes <= image_bytes - offset;
}

static bool read_header(const unsigned char *image, size_t bytes, Elf64_Ehdr *header)
{
    if (bytes < sizeof *header)
        return false;
    memcpy(header, image, sizeof *header);
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_shentsize == sizeof(Elf64_Shdr) &&
           holds(bytes, header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr));
}

static Elf64_Shdr section_at(const unsigned char *image, const Elf64_Ehdr *header,
                             unsigned index)
{
    Elf64_Shdr section;

    memcpy(&section, image + header->e_shoff + index * sizeof section, sizeof section);
    return section;
}

/* The end of the header, the sections or the segments, whichever is last. */
size_t sim_elf_bytes(const void *data)
{
    Elf64_Ehdr header;
    uint64_t end, segments;

    if (memcmp(data, ELFMAG, SELFMAG) != 0)
        return 0;
    memcpy(&header, data, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64)
        return 0;
    end = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
    segments = header.e_phoff + (uint64_t)header.e_phnum * header.e_phentsize;
    for (unsigned i = 0; i < header.e_shnum && header.e_shentsize == sizeof(Elf64_Shdr);
         i++) {
        Elf64_Shdr section = section_at(data, &header, i);
        if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > end)
            end = section.sh_offset + section.sh_size;
    }
    return (size_t)(end > segments ? end : segments);
}

/* The text at `offset` of string table `table`; NULL if it is not terminated inside of
 * it. */
static const char *text_at(const unsigned char *image, size_t bytes,
                           const Elf64_Shdr *table, uint32_t offset)
{
    if (!holds(bytes, table->sh_offset, table->sh_size) || offset >= table->sh_size)
        return NULL;
    const char *text = (const char *)image + table->sh_offset + offset;
    return memchr(text, '\0', (size_t)(table->sh_size - offset)) ? text : NULL;
}

static bool visit_symbol(const unsigned char *image, size_t bytes,
                         const Elf64_Shdr *strings, const Elf64_Sym *symbol,
                         sim_elf_visit *visit, void *self)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    const char *name = text_at(image, bytes, strings, symbol->st_name);

    if (!name || *name == '\0' || symbol->st_shndx == SHN_UNDEF ||
        ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL ||
        (type != STT_FUNC && type != STT_OBJECT))
        return true;
    return visit(self, name, type == STT_FUNC, (size_t)symbol->st_size);
}

bool sim_elf_symbols(const unsigned char *image, size_t bytes, sim_elf_visit *visit,
                     void *self)
{
    Elf64_Ehdr header;

    if (!read_header(image, bytes, &header))
        return false;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr table = section_at(image, &header, i);
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= header.e_shnum)
            continue;
        if (!holds(bytes, table.sh_offset, table.sh_size))
            return false;
        Elf64_Shdr strings = section_at(image, &header, table.sh_link);
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size;
             at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, image + table.sh_offset + at, sizeof symbol);
            if (!visit_symbol(image, bytes, &strings, &symbol, visit, self))
                return false;
        }
    }
    return true;
}

static bool is_called(const char *text, const char *prefix, const char *name)
{
    size_t length = strlen(prefix);

    return text && strncmp(text, prefix, length) == 0 && strcmp(text + length, name) == 0;
}

/* Find the section named `prefix` followed by `name`. */
static bool find_section(const unsigned char *image, size_t bytes,
                         const Elf64_Ehdr *header, const char *prefix, const char *name,
                         Elf64_Shdr *out)
{
    if (header->e_shstrndx >= header->e_shnum)
        return false;
    Elf64_Shdr strings = section_at(image, header, header->e_shstrndx);
    for (unsigned i = 0; i < header->e_shnum; i++) {
        *out = section_at(image, header, i);
        if (is_called(text_at(image, bytes, &strings, out->sh_name), prefix, name))
            return true;
    }
    return false;
}

bool sim_elf_section(const unsigned char *image, size_t bytes, const char *prefix,
                     const char *name, size_t *out)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;

    if (!read_header(image, bytes, &header) ||
        !find_section(image, bytes, &header, prefix, name, &section))
        return false;
    *out = (size_t)section.sh_size;
    return true;
}

/* Return true if symbol number `index` is named `name`. */
static bool is_symbol(const unsigned char *image, size_t bytes, const Elf64_Ehdr *header,
                      uint32_t index, const char *name)
{
    Elf64_Shdr table, strings;
    Elf64_Sym symbol;

    if (!find_section(image, bytes, header, ".symtab", "", &table) ||
        table.sh_link >= header->e_shnum || index >= table.sh_size / sizeof symbol ||
        !holds(bytes, table.sh_offset, table.sh_size))
        return false;
    strings = section_at(image, header, table.sh_link);
    memcpy(&symbol, image + table.sh_offset + index * sizeof symbol, sizeof symbol);
    return is_called(text_at(image, bytes, &strings, symbol.st_name), "", name);
}

/* An entry is a form, a note and 16 bits; in one form those are the length of what
 * follows, for a kernel's number the index of its symbol and the number. */
bool sim_elf_note(const unsigned char *image, size_t bytes, unsigned note,
                  const char *name, uint32_t *out)
{
    enum { SIZED = 4, HEAD = 4 };
    Elf64_Ehdr header;
    Elf64_Shdr section;

    if (!read_header(image, bytes, &header) ||
        !find_section(image, bytes, &header, ".nv.info", "", &section) ||
        !holds(bytes, section.sh_offset, section.sh_size))
        return false;
    for (uint64_t at = 0; at + HEAD <= section.sh_size;) {
        const unsigned char *entry = image + section.sh_offset + at;
        uint32_t words[2];
        uint16_t length = entry[0] == SIZED ? (uint16_t)(entry[2] | entry[3] << 8) : 0;
        at += HEAD + length;
        if (length != sizeof words || entry[1] != note || at > section.sh_size)
            continue;
        memcpy(words, entry + HEAD, sizeof words);
        if (!is_symbol(image, bytes, &header, words[0], name))
            continue;
        *out = words[1];
        return true;
    }
    return false;
}
