/* abi.h -- the part of NVTX's binary interface that Tarn uses.
 *
 * NVTX is an interface between a program and a tool, such as compute-sanitizer or Nsight
 * Systems. The tool is a shared library. The program loads it, and the tool fills tables of
 * function pointers. There is no library of NVTX in between, so the types are declared
 * here. Version 3 of the interface, and its memory extension with the number 0x0102.
 */
#ifndef TARN_NVTX_ABI_H
#define TARN_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>

/* --- how a tool attaches: InitializeInjectionNvtx2() --- */

typedef void (*tarn__nvtx_function)(void);

enum {
    TARN__NVTX_VERSION = 3,
    /* numbers of the tables that the program has for the tool */
    TARN__NVTX_TABLE_CALLBACKS = 1,
    TARN__NVTX_TABLE_VERSION = 3,
    /* numbers of the modules of functions, and how many numbers of functions each has */
    TARN__NVTX_CORE = 1,
    TARN__NVTX_CORE2 = 5,
    TARN__NVTX_MODULES = 7,
    TARN__NVTX_FUNCTIONS_MAX = 16,
    /* numbers of functions in the module CORE2 */
    TARN__NVTX_RANGE_PUSH = 4,
    TARN__NVTX_RANGE_POP = 5,
    TARN__NVTX_DOMAIN_CREATE = 12,
};

struct tarn__nvtx_callbacks {
    size_t size;
    /* Returns 1, and an array of addresses of function pointers. */
    int (*get_functions)(int module, tarn__nvtx_function ***out, unsigned *count_out);
};

struct tarn__nvtx_version {
    size_t size;
    uint32_t version, reserved;
    void (*set_tool_version)(uint32_t version);
};

typedef const void *(*tarn__nvtx_get_table)(uint32_t table);
/* Returns 0 on failure. */
typedef int (*tarn__nvtx_initialize)(tarn__nvtx_get_table get_table);

/* --- how a tool attaches to an extension: InitializeInjectionNvtxExtension() --- */

enum {
    TARN__NVTX_MEMORY = 1, /* number of the extension */
    TARN__NVTX_MEMORY_ID = 0x0102,
    TARN__NVTX_MEMORY_SLOTS = 63,
    TARN__NVTX_NO_FUNCTION = 1, /* in a slot, as well as 0 */
    /* numbers of its functions */
    TARN__NVTX_HEAP_REGISTER = 0,
    TARN__NVTX_HEAP_UNREGISTER = 1,
    TARN__NVTX_REGIONS_REGISTER = 3,
    TARN__NVTX_REGIONS_UNREGISTER = 5,
    TARN__NVTX_REGIONS_NAME = 6,
};

struct tarn__nvtx_segment {
    size_t number, slot_count;
    intptr_t *slots;
};

struct tarn__nvtx_extension {
    uint16_t version, size, extension, id;
    size_t segment_count;
    struct tarn__nvtx_segment *segments;
    intptr_t (*get_export)(uint32_t number);
    const void *info;
};

typedef int (*tarn__nvtx_initialize_extension)(struct tarn__nvtx_extension *extension);

/* --- domains and ranges --- */

enum { TARN__NVTX_ASCII = 1, TARN__NVTX_PAYLOAD_U64 = 1 };

union tarn__nvtx_message {
    const char *ascii;
    const void *other;
};

struct tarn__nvtx_event {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union {
        uint64_t u64;
        double f64;
    } payload;
    int32_t message_type;
    union tarn__nvtx_message message;
};

typedef void *(*tarn__nvtx_domain_create)(const char *name);
typedef int (*tarn__nvtx_range_push)(void *domain, const struct tarn__nvtx_event *event);
typedef int (*tarn__nvtx_range_pop)(void *domain);

/* --- heaps and regions --- */

enum {
    TARN__NVTX_SUB_ALLOCATOR = 1,   /* use of a heap */
    TARN__NVTX_VIRTUAL_ADDRESS = 1, /* type of a heap and of a region */
    TARN__NVTX_BY_POINTER = 1,      /* type of a reference to a region */
};

struct tarn__nvtx_range {
    size_t size;
    const void *address;
};

struct tarn__nvtx_heap {
    uint16_t id, size;
    uint32_t reserved;
    uint32_t use, type;
    size_t range_size;
    const struct tarn__nvtx_range *range;
    uint32_t category, message_type;
    union tarn__nvtx_message message;
};

struct tarn__nvtx_regions {
    uint16_t id, size;
    uint32_t type;
    void *heap;
    size_t count, range_size;
    const struct tarn__nvtx_range *ranges;
    void **handles_out; /* may be NULL */
};

struct tarn__nvtx_region_list {
    uint16_t id, size;
    uint32_t reference_type;
    size_t count, reference_size;
    const void *const *addresses;
};

struct tarn__nvtx_region_name {
    uint32_t reference_type, message_type;
    const void *address;
    union tarn__nvtx_message name;
    uint32_t category, reserved;
};

struct tarn__nvtx_region_names {
    uint16_t id, size;
    uint32_t reserved;
    size_t count, name_size;
    const struct tarn__nvtx_region_name *names;
    size_t reserved_too;
};

typedef void *(*tarn__nvtx_heap_register)(void *domain,
                                          const struct tarn__nvtx_heap *heap);
typedef void (*tarn__nvtx_heap_unregister)(void *domain, void *heap);
typedef void (*tarn__nvtx_regions_register)(void *domain,
                                            const struct tarn__nvtx_regions *regions);
typedef void (*tarn__nvtx_regions_unregister)(
    void *domain, const struct tarn__nvtx_region_list *regions);
typedef void (*tarn__nvtx_regions_name)(void *domain,
                                        const struct tarn__nvtx_region_names *names);

#endif
