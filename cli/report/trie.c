/* trie.c -- the stacks of a log: frames, and a trie of them. */
#include "trie.h"
#include "library.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

static uint64_t pair(uint32_t first, uint32_t second)
{
    return (uint64_t)first << 32 | second;
}

/* Add a frame unless it is there; its framework follows from its file. */
static uint32_t add_frame(struct trie *stacks, uint32_t function, uint32_t file, int line,
                          bool is_native)
{
    uint32_t key = map_get(&stacks->pairs, pair(function, file));

    if (key == MAP_NONE) {
        key = (uint32_t)stacks->pairs.count;
        map_put(&stacks->pairs, pair(function, file), key);
    }
    uint32_t frame = map_get(&stacks->lines, pair(key, (uint32_t)line));
    if (frame != MAP_NONE)
        return frame;
    stacks->frames = memory_grow(stacks->frames, &stacks->frame_capacity,
                                 stacks->frame_count + 1, sizeof *stacks->frames);
    char path[4097];
    snprintf(path, sizeof path, "%s", names_text(&stacks->names, file));
    struct library library = library_of(path, is_native);
    stacks->frames[stacks->frame_count] = (struct frame){
        function, file, line, library.flags,
        names_add_bytes(&stacks->names, library.name, (size_t)library.length)};
    map_put(&stacks->lines, pair(key, (uint32_t)line), (uint32_t)stacks->frame_count);
    return (uint32_t)stacks->frame_count++;
}

/* The child of a node with that frame; the node itself if there is no space. */
static uint32_t child_of(struct trie *stacks, uint32_t parent, uint32_t frame)
{
    uint32_t node = map_get(&stacks->children, pair(parent, frame));

    if (node != MAP_NONE)
        return node;
    if (stacks->node_count >= TRIE_NODES_MAX) {
        stacks->dropped++;
        return parent;
    }
    stacks->nodes = memory_grow(stacks->nodes, &stacks->node_capacity,
                                stacks->node_count + 1, sizeof *stacks->nodes);
    stacks->nodes[stacks->node_count] = (struct node){parent, frame};
    map_put(&stacks->children, pair(parent, frame), (uint32_t)stacks->node_count);
    return (uint32_t)stacks->node_count++;
}

void trie_init(struct trie *stacks)
{
    memset(stacks, 0, sizeof *stacks);
    add_frame(stacks, 0, names_add(&stacks->names, ""), 0, false);
    stacks->nodes = memory_grow(NULL, &stacks->node_capacity, 1, sizeof *stacks->nodes);
    stacks->node_count = 1;
    stacks->other = child_of(
        stacks, 0, add_frame(stacks, 0, names_add(&stacks->names, "<other>"), 0, false));
}

void trie_free(struct trie *stacks)
{
    names_free(&stacks->names);
    free(stacks->frames);
    free(stacks->nodes);
    free(stacks->located);
    map_free(&stacks->pairs);
    map_free(&stacks->lines);
    map_free(&stacks->children);
    map_free(&stacks->numbers);
}

void trie_add(struct trie *stacks, tarn_stack stack, const tarn_stack_frame *frames,
              size_t count)
{
    uint32_t node = 0;

    for (size_t i = count; i-- > 0;) {
        uint32_t function = names_add(&stacks->names, frames[i].function);
        uint32_t file = names_add(&stacks->names, frames[i].file);
        bool is_native = frames[i].build_id != NULL;
        if (is_native && function == 0 && frames[i].offset != 0) {
            char offset[32];
            snprintf(offset, sizeof offset, "+0x%llx",
                     (unsigned long long)frames[i].offset);
            function = names_add(&stacks->names, offset);
        }
        node = child_of(stacks, node,
                        add_frame(stacks, function, file, frames[i].line, is_native));
    }
    map_put(&stacks->numbers, stack, node);
}

/* The node of one frame, from "file:line" or a name in angle brackets. */
static uint32_t add_location(struct trie *stacks, const char *location)
{
    const char *colon = strrchr(location, ':');
    size_t length = strlen(location);
    int line = 0;

    if (colon && colon > location &&
        strspn(colon + 1, "0123456789") == strlen(colon + 1) && colon[1] != '\0' &&
        strlen(colon + 1) < 10) {
        line = atoi(colon + 1);
        length = (size_t)(colon - location);
    }
    uint32_t file = names_add_bytes(&stacks->names, location, length);
    return child_of(stacks, 0, add_frame(stacks, 0, file, line, false));
}

uint32_t trie_node_of_number(const struct trie *stacks, tarn_stack stack)
{
    uint32_t node = stack == TARN_STACK_UNKNOWN ? 0 : map_get(&stacks->numbers, stack);

    return node == MAP_NONE ? 0 : node;
}

uint32_t trie_node_of(struct trie *stacks, const tarn_trace_event *event)
{
    if (event->stack != TARN_STACK_UNKNOWN) {
        uint32_t node = trie_node_of_number(stacks, event->stack);
        if (node != 0)
            return node;
    }
    if (!event->location || !*event->location)
        return 0;
    uint32_t name = names_add(&stacks->names, event->location);
    stacks->located = memory_grow(stacks->located, &stacks->located_capacity, name + 1,
                                  sizeof *stacks->located);
    if (stacks->located[name] == 0)
        stacks->located[name] = add_location(stacks, event->location) + 1;
    return stacks->located[name] - 1;
}

static bool is_own(const struct frame *frame)
{
    return (frame->flags & LIBRARY_CODE) == 0;
}

static bool names_a_framework(const struct frame *frame)
{
    return frame->framework != 0 &&
           !(frame->flags & (LIBRARY_TARN | LIBRARY_INTERPRETER));
}

uint32_t trie_site_of(const struct trie *stacks, uint32_t node, uint32_t *framework)
{
    uint32_t innermost = stacks->nodes[node].frame;

    *framework = 0;
    for (; node != 0; node = stacks->nodes[node].parent) {
        const struct frame *frame = &stacks->frames[stacks->nodes[node].frame];
        if (is_own(frame))
            return stacks->nodes[node].frame;
        if (names_a_framework(frame))
            *framework = frame->framework;
    }
    return innermost;
}

uint32_t trie_caller_of(const struct trie *stacks, uint32_t node)
{
    const struct frame *site = NULL;

    for (; node != 0; node = stacks->nodes[node].parent) {
        const struct frame *frame = &stacks->frames[stacks->nodes[node].frame];
        if (!is_own(frame))
            continue;
        if (site && (frame->file != site->file || frame->function != site->function))
            return stacks->nodes[node].frame;
        if (!site)
            site = frame;
    }
    return 0;
}

bool trie_is_collector(const char *location)
{
    return location && strcmp(location, "<gc>") == 0;
}

bool trie_is_exit(const char *location)
{
    return location && strcmp(location, "<exit>") == 0;
}

const char *trie_file(const char *path)
{
    int slashes = 0;

    for (const char *at = path + strlen(path); at > path; at--)
        if (at[-1] == '/' && ++slashes == 2)
            return at;
    return path;
}

void trie_frame_text(const struct trie *stacks, uint32_t frame, char *out,
                     size_t capacity)
{
    const struct frame *item = &stacks->frames[frame];
    const char *function = names_text(&stacks->names, item->function);
    const char *file = names_text(&stacks->names, item->file);
    const char *between = *function && *file ? " " : "";

    if (*function == '\0' && *file == '\0')
        snprintf(out, capacity, "(unknown)");
    else if (item->line > 0)
        snprintf(out, capacity, "%s%s%s:%d", function, between, file, item->line);
    else
        snprintf(out, capacity, "%s%s%s", function, between, file);
}
