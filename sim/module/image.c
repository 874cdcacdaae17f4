/* image.c -- loads cubins, PTX and fat binaries, and finds names in them. */
#define _GNU_SOURCE
#include "sim/module/image.h"
#include "sim/memory/memory.h"
#include "sim/module/elf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAT_BINARY_MAGIC 0xba55ed50u
#define FAT_WRAPPER_MAGIC 0x466243b1u
#define LTO_MAGIC 0x7f4e43edu
enum { REGISTERS_PER_KERNEL = 32, COMPUTE = 90 }; /* if the image does not specify it */
enum { SYSTEM_SHARED_BYTES = 1024 };

static struct sim_image *images;

/* --- kinds of images --- */

struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
};

struct fat_wrapper {
    uint32_t magic, version;
    const void *data;
};

/* Return true for PTX: text with directives, after comments and blank lines. */
static bool is_ptx(const char *text)
{
    for (size_t i = 0; i < 1 << 16 && text[i]; i++)
        if (strncmp(text + i, ".version", 8) == 0)
            return true;
    return false;
}

/* A library of object files: only a file is one, because it needs a linker. */
static bool is_archive(const void *data)
{
    return strncmp(data, "!<arch>\n", 8) == 0;
}

/* The length of the image at *data, which may be in a wrapper. 0: not an image. Of
 * intermediate code for the linker nothing is stored but its first word. */
static size_t image_bytes(const void **data)
{
    struct fat_wrapper wrapper;
    struct fat_header fat;
    uint32_t magic = 0;

    if (*(const unsigned char *)*data == 0x7f)
        return sim_elf_bytes(*data);
    if (strnlen(*data, sizeof magic) == sizeof magic) /* text may be shorter */
        memcpy(&magic, *data, sizeof magic);
    if (magic == LTO_MAGIC)
        return sizeof magic;
    if (magic == FAT_WRAPPER_MAGIC) {
        memcpy(&wrapper, *data, sizeof wrapper);
        *data = wrapper.data;
        memcpy(&magic, *data, sizeof magic);
    }
    if (magic != FAT_BINARY_MAGIC)
        return is_ptx(*data) ? strlen(*data) + 1 : 0;
    memcpy(&fat, *data, sizeof fat);
    return fat.header_bytes + (size_t)fat.bytes;
}

/* --- kernels --- */

/* Read the kernel's needs from the sections of a cubin. On newer devices shared memory
 * includes a part of the system's, which the driver does not count. */
static void read_cubin_needs(struct sim_function *function)
{
    const unsigned char *bytes = function->image->bytes;
    size_t count = function->image->byte_count, size;
    int *attributes = function->attributes;
    uint32_t note;

    if (sim_elf_note(bytes, count, SIM_ELF_REGISTERS, function->name, &note))
        attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = (int)note;
    if (sim_elf_note(bytes, count, SIM_ELF_FRAME_BYTES, function->name, &note))
        attributes[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = (int)note;
    if (sim_elf_section(bytes, count, ".nv.constant3", "", &size))
        attributes[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = (int)size;
    if (!sim_elf_section(bytes, count, ".nv.shared.", function->name, &size))
        return;
    attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = (int)size;
    if (size >= SYSTEM_SHARED_BYTES &&
        sim_elf_section(bytes, count, ".nv.shared.reserved.0", "", &size))
        attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] -= SYSTEM_SHARED_BYTES;
}

static void read_needs(struct sim_function *function)
{
    int *attributes = function->attributes;

    attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
    attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = REGISTERS_PER_KERNEL;
    attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION] = COMPUTE;
    attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = COMPUTE;
    attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 48 << 10;
    attributes[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1;
    if (!function->image->is_open)
        read_cubin_needs(function);
}

CUresult sim_image_parameter(const struct sim_function *function, size_t number,
                             struct sim_parameter *out)
{
    const struct sim_image *image = function->image;

    if (image->is_open)
        return CUDA_ERROR_NOT_SUPPORTED;
    return number <= UINT16_MAX &&
                   sim_elf_parameter(image->bytes, image->byte_count, function->name,
                                     (unsigned)number, out)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static struct sim_function *add_function(struct sim_image *image, const char *name)
{
    struct sim_function *function = calloc(1, sizeof *function);

    if (!function)
        return NULL;
    function->name = strdup(name);
    if (!function->name) {
        free(function);
        return NULL;
    }
    function->image = image;
    read_needs(function);
    function->next = image->functions;
    image->functions = function;
    return function;
}

static bool record_kernel(void *self, const char *name, bool is_kernel, size_t bytes)
{
    (void)bytes;
    return !is_kernel || add_function(self, name);
}

CUresult sim_image_function(struct sim_image *image, const char *name,
                            struct sim_function **out)
{
    struct sim_function *function = image->functions;

    while (function && strcmp(function->name, name) != 0)
        function = function->next;
    if (!function && !image->is_open)
        return CUDA_ERROR_NOT_FOUND;
    if (!function)
        function = add_function(image, name);
    if (!function)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = function;
    return CUDA_SUCCESS;
}

struct sim_function *sim_image_find_function(const void *handle)
{
    for (const struct sim_image *image = images; image; image = image->next)
        for (struct sim_function *function = image->functions; function;
             function = function->next)
            if (function == handle)
                return function;
    return NULL;
}

/* --- variables --- */

struct search {
    const char *name;
    size_t bytes; /* 0: not found */
};

static bool record_variable(void *self, const char *name, bool is_kernel, size_t bytes)
{
    struct search *search = self;

    if (!is_kernel && strcmp(name, search->name) == 0)
        search->bytes = bytes;
    return true;
}

static CUresult add_variable(struct sim_image *image, const char *name, size_t bytes,
                             struct sim_variable **out)
{
    struct sim_variable *variable = calloc(1, sizeof *variable);
    CUresult result;

    if (!variable)
        return CUDA_ERROR_OUT_OF_MEMORY;
    variable->name = strdup(name);
    result = variable->name ? sim_memory_allocate(&variable->address, bytes)
                            : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(variable->name);
        free(variable);
        return result;
    }
    variable->block_id = sim_block_find((uintptr_t)variable->address)->id;
    memset((void *)(uintptr_t)variable->address, 0, bytes);
    variable->bytes = bytes;
    variable->next = image->variables;
    image->variables = variable;
    *out = variable;
    return CUDA_SUCCESS;
}

CUresult sim_image_variable(struct sim_image *image, const char *name,
                            CUdeviceptr *address, size_t *bytes)
{
    struct sim_variable *variable = image->variables;
    struct search search = {.name = name};
    CUresult result = CUDA_SUCCESS;

    while (variable && strcmp(variable->name, name) != 0)
        variable = variable->next;
    if (!variable) {
        if (!image->is_open)
            sim_elf_symbols(image->bytes, image->byte_count, record_variable, &search);
        if (search.bytes == 0)
            return CUDA_ERROR_NOT_FOUND;
        result = add_variable(image, name, search.bytes, &variable);
    }
    if (result != CUDA_SUCCESS)
        return result;
    if (address)
        *address = variable->address;
    if (bytes)
        *bytes = variable->bytes;
    return CUDA_SUCCESS;
}

/* --- loading --- */

static void free_image(struct sim_image *image)
{
    while (image->functions) {
        struct sim_function *function = image->functions;
        image->functions = function->next;
        free(function->name);
        free(function);
    }
    while (image->variables) {
        struct sim_variable *variable = image->variables;
        image->variables = variable->next;
        sim_memory_release(variable->address, variable->block_id);
        free(variable->name);
        free(variable);
    }
    free(image->bytes);
    free(image);
}

static CUresult load(const void *data, size_t bytes, bool is_library,
                     struct sim_image **out)
{
    struct sim_image *image;

    if (bytes == 0)
        return CUDA_ERROR_INVALID_IMAGE;
    image = calloc(1, sizeof *image);
    if (!image)
        return CUDA_ERROR_OUT_OF_MEMORY;
    image->is_library = is_library;
    image->is_open = *(const unsigned char *)data != 0x7f;
    image->byte_count = bytes;
    image->bytes = malloc(bytes);
    if (!image->bytes) {
        free_image(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(image->bytes, data, bytes);
    if (!image->is_open && !sim_elf_symbols(image->bytes, bytes, record_kernel, image)) {
        free_image(image);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    image->next = images;
    images = image;
    *out = image;
    return CUDA_SUCCESS;
}

CUresult sim_image_load(const void *data, bool is_library, struct sim_image **out)
{
    size_t bytes = image_bytes(&data);

    return load(data, bytes, is_library, out);
}

/* Read all of the file, with a 0 after it, because PTX is text. NULL: no such file. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long bytes;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0 &&
        fseek(file, 0, SEEK_SET) == 0)
        data = calloc(1, (size_t)bytes + sizeof(struct fat_wrapper) + 1);
    if (data && fread(data, 1, (size_t)bytes, file) != (size_t)bytes) {
        free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

CUresult sim_image_load_file(const char *path, bool is_library, struct sim_image **out)
{
    char *data = read_file(path);
    CUresult result;

    if (!data)
        return CUDA_ERROR_FILE_NOT_FOUND;
    result = is_archive(data) && is_library ? load(data, 1, is_library, out)
                                            : sim_image_load(data, is_library, out);
    free(data);
    return result;
}

struct sim_image *sim_image_find(const void *handle, bool is_library)
{
    struct sim_image *image = images;

    while (image && (image != handle || image->is_library != is_library))
        image = image->next;
    return image;
}

void sim_image_unload(struct sim_image *image)
{
    struct sim_image **link = &images;

    while (*link != image)
        link = &(*link)->next;
    *link = image->next;
    free_image(image);
}
