/* names.h -- strings of a log, each stored once. */
#ifndef TARN_CLI_REPORT_NAMES_H
#define TARN_CLI_REPORT_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* Number 0 is "". Strings are cut after 4,096 bytes. After 64 MiB of text, or 1 Mi
 * strings, each new one is `<other>`. */
struct names {
    char *text; /* all strings, each with its NUL */
    size_t text_bytes, text_capacity;
    struct name {
        size_t at;
        uint64_t hash;
        uint32_t length;
    } *items;
    size_t count, capacity;
    uint32_t *slots; /* number + 1; 0: empty */
    size_t slot_count;
};

/* Return the number of a string, which is added if it is new; NULL counts as "". */
uint32_t names_add(struct names *names, const char *text);
/* Do the same for a string of `length` bytes. */
uint32_t names_add_bytes(struct names *names, const char *text, size_t length);
/* Return the string of a number; valid until the next names_add(). */
const char *names_text(const struct names *names, uint32_t number);
void names_free(struct names *names);

#endif
