/* trie.h -- the stacks of a log: frames, and a trie of them.
 *
 * A node of the trie is a stack: its frames are those from the root's child, the
 * outermost, to its own, the innermost. A parent's number is below those of its
 * children. Node 0 is the root, the stack without a frame: events without a stack.
 *
 * The site of a stack is its innermost frame in the program's own code. If there is no
 * such frame, it is the innermost frame. The framework of a stack is the library that the
 * program's own code calls, or the outermost library.
 */
#ifndef TARN_CLI_REPORT_TRIE_H
#define TARN_CLI_REPORT_TRIE_H

#include "map.h"
#include "names.h"
#include <tarn/trace.h>

/* Most nodes, and most stacks with memory of their own. */
enum { TRIE_NODES_MAX = 1 << 20, TRIE_OWNERS_MAX = 65536 };

struct frame {
    uint32_t function, file; /* names */
    int line;
    unsigned flags;     /* of library.h */
    uint32_t framework; /* name; 0: the program's own */
};

struct node {
    uint32_t parent, frame; /* the root's frame is 0, which is empty */
};

struct trie {
    struct names names;
    struct frame *frames; /* frame 0 has no file: unknown */
    size_t frame_count, frame_capacity;
    struct node *nodes;
    size_t node_count, node_capacity;
    struct map pairs;    /* (function, file) -> a number of the pair */
    struct map lines;    /* (number of the pair, line) -> frame */
    struct map children; /* (parent, frame) -> node */
    struct map numbers;  /* number of a stack in a binary log -> node */
    uint32_t *located;   /* name of a location -> node + 1 */
    size_t located_capacity;
    uint32_t other;   /* the node of stacks for which there is no space */
    uint64_t dropped; /* frames for which there was no space */
};

void trie_init(struct trie *stacks);
void trie_free(struct trie *stacks);
/* Add a stack of a binary log, the innermost frame first. */
void trie_add(struct trie *stacks, tarn_stack stack, const tarn_stack_frame *frames,
              size_t count);
/* Return the node of an event: that of its stack, or of its location. */
uint32_t trie_node_of(struct trie *stacks, const tarn_trace_event *event);
/* Return the node of the stack with that number. */
uint32_t trie_node_of_number(const struct trie *stacks, tarn_stack stack);
/* Return the frame that is the site of a node, and the name of its framework. */
uint32_t trie_site_of(const struct trie *stacks, uint32_t node, uint32_t *framework);
/* Return the frame of the program's own code that called the function of a node's site.
 * Return 0 if there is none. */
uint32_t trie_caller_of(const struct trie *stacks, uint32_t node);
/* Return the last two parts of a path, which name a file in reports. */
const char *trie_file(const char *path);
/* Write a frame for people: "function file:line". */
void trie_frame_text(const struct trie *stacks, uint32_t frame, char *out,
                     size_t capacity);
/* Return true if a location is `<gc>`, or `<exit>`. */
bool trie_is_collector(const char *location);
bool trie_is_exit(const char *location);

#endif
