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
        (ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL &&
         ELF64_ST_BIND(symbol->st_info) != STB_WEAK) ||
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

/* An entry of a section of notes: a form, a note and 16 bits. In one form those are the
 * length of what follows. */
enum { SIZED = 4, HEAD = 4 };

struct entry {
    unsigned note;
    size_t bytes; /* of what follows; 0 in the other forms */
    const unsigned char *data;
};

/* The section of notes named `prefix` followed by `name`; false: it is not there, or not
 * inside of the image. */
static bool find_notes(const unsigned char *image, size_t bytes, const char *prefix,
                       const char *name, Elf64_Ehdr *header, Elf64_Shdr *section)
{
    return read_header(image, bytes, header) &&
           find_section(image, bytes, header, prefix, name, section) &&
           holds(bytes, section->sh_offset, section->sh_size);
}

/* Read the entry at *at of `section`, and move *at behind it. False: there is none. */
static bool next_entry(const unsigned char *image, const Elf64_Shdr *section,
                       uint64_t *at, struct entry *out)
{
    const unsigned char *head = image + section->sh_offset + *at;

    if (*at + HEAD > section->sh_size)
        return false;
    *out = (struct entry){.note = head[1], .data = head + HEAD};
    if (head[0] == SIZED)
        out->bytes = (size_t)(head[2] | head[3] << 8);
    *at += HEAD + out->bytes;
    return *at <= section->sh_size;
}

/* A note about a kernel in .nv.info has the index of its symbol and a number. */
bool sim_elf_note(const unsigned char *image, size_t bytes, unsigned note,
                  const char *name, uint32_t *out)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    struct entry entry;
    uint32_t words[2];

    if (!find_notes(image, bytes, ".nv.info", "", &header, &section))
        return false;
    for (uint64_t at = 0; next_entry(image, &section, &at, &entry);) {
        if (entry.bytes != sizeof words || entry.note != note)
            continue;
        memcpy(words, entry.data, sizeof words);
        if (!is_symbol(image, bytes, &header, words[0], name))
            continue;
        *out = words[1];
        return true;
    }
    return false;
}

/* A parameter's note has an index, two halves (its number and offset), and its size in
 * the upper bits of a word. */
bool sim_elf_parameter(const unsigned char *image, size_t bytes, const char *name,
                       unsigned number, struct sim_parameter *out)
{
    enum { PARAMETER = 0x17, SIZE_SHIFT = 18 };
    Elf64_Ehdr header;
    Elf64_Shdr section;
    struct entry entry;
    uint32_t words[3];

    if (!find_notes(image, bytes, ".nv.info.", name, &header, &section))
        return false;
    for (uint64_t at = 0; next_entry(image, &section, &at, &entry);) {
        if (entry.note != PARAMETER || entry.bytes != sizeof words)
            continue;
        memcpy(words, entry.data, sizeof words);
        if ((words[1] & 0xffff) != number)
            continue;
        *out = (struct sim_parameter){words[1] >> 16, words[2] >> SIZE_SHIFT};
        return true;
    }
    return false;
}
