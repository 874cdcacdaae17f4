/* torch_error.c -- throwing PyTorch's C++ exceptions from C.
 *
 * PyTorch turns c10::OutOfMemoryError into torch.OutOfMemoryError. libtarn is not linked to
 * PyTorch or to a C++ runtime, so it finds both among the loaded libraries, by name. One
 * binary therefore works with several versions of PyTorch.
 *
 * An exception of PyTorch is built in four steps: memory from __cxa_allocate_exception(),
 * c10::Error's constructor, the table of virtual functions of the derived class, and
 * __cxa_throw(). No member of c10::Error is touched: PyTorch's own code constructs and
 * destroys it.
 *
 * The names are those of the Itanium C++ ABI with libstdc++'s std::string of C++11.
 * PyTorch has c10::OutOfMemoryError in libc10.so, or in another library in older versions.
 */
#define _GNU_SOURCE
#include "torch/torch_error.h"
#include <tarn/pool.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define OF_STRING(member) "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE" member

enum {
    OBJECT_BYTES = 1024, /* for c10::Error: 128 in PyTorch 2.11 and 2.15 */
    STRING_BYTES = 256,  /* for std::string: 32 in libstdc++ */
    TEXT_BYTES = 4096,
    HEAD_SLOTS = 2 /* of a table of virtual functions: offset, type */
};

/* c10::SourceLocation, which the constructor takes by value. */
struct source_location {
    const char *function;
    const char *file;
    uint32_t line;
};

typedef void cxx_destructor(void *object);

/* The functions of a C++ runtime. */
struct runtime {
    void *(*allocate_exception)(size_t bytes);
    void (*throw_exception)(void *object, void *type, cxx_destructor *destroy);
    void (*make_string)(void *string);
    void *(*append)(void *string, const char *text);
    cxx_destructor *end_string;
    void *plain_type; /* std::runtime_error */
    void (*make_plain)(void *object, const char *text);
    cxx_destructor *end_plain;
};

/* What PyTorch has. */
struct classes {
    void (*make_error)(void *object, struct source_location where, void *message);
    void *type, *table; /* of the class to throw */
};

static const char *const runtime_libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
static const char *const torch_libraries[] = {"libc10.so", "libc10_cuda.so",
                                              "libtorch_cuda.so", "libtorch_python.so"};

/* Return the address of a symbol in one of the libraries that are loaded, or NULL. */
static void *find(const char *const *libraries, size_t count, const char *name)
{
    void *found = NULL;

    for (size_t i = 0; i < count && !found; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (!library)
            continue;
        found = dlsym(library, name);
        dlclose(library); /* the count alone: it stays loaded */
    }
    return found ? found : dlsym(RTLD_DEFAULT, name);
}

/* One name, and where its address goes. */
struct wanted {
    const char *name;
    void *slot; /* a pointer to a pointer */
};

/* Set all slots. Returns the first missing name, or NULL. */
static const char *find_all(const char *const *libraries, size_t library_count,
                            const struct wanted *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *found = find(libraries, library_count, wanted[i].name);
        if (!found)
            return wanted[i].name;
        memcpy(wanted[i].slot, &found, sizeof found);
    }
    return NULL;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *find_runtime(struct runtime *out)
{
    const struct wanted wanted[] = {
        {"__cxa_allocate_exception", &out->allocate_exception},
        {"__cxa_throw", &out->throw_exception},
        {OF_STRING("C1Ev"), &out->make_string},
        {OF_STRING("6appendEPKc"), &out->append},
        {OF_STRING("D1Ev"), &out->end_string},
        {"_ZTISt13runtime_error", &out->plain_type},
        {"_ZNSt13runtime_errorC1EPKc", &out->make_plain},
        {"_ZNSt13runtime_errorD1Ev", &out->end_plain},
    };

    return find_all(runtime_libraries, COUNT(runtime_libraries), wanted, COUNT(wanted));
}

static const char *find_classes(bool out_of_memory, struct classes *out)
{
    const struct wanted wanted[] = {
        {"_ZN3c105ErrorC1ENS_14SourceLocationE" STRING, &out->make_error},
        {out_of_memory ? "_ZTIN3c1016OutOfMemoryErrorE" : "_ZTIN3c105ErrorE", &out->type},
        {out_of_memory ? "_ZTVN3c1016OutOfMemoryErrorE" : "_ZTVN3c105ErrorE",
         &out->table},
    };

    return find_all(torch_libraries, COUNT(torch_libraries), wanted, COUNT(wanted));
}

tarn_status tarn_torch_check(void)
{
    struct runtime runtime;
    struct classes classes;
    const char *missing = find_runtime(&runtime);

    if (missing)
        return tarn_error_set(
            TARN_NOT_SUPPORTED,
            "torch: no C++ runtime of libstdc++ is loaded: %s is missing", missing);
    missing = find_classes(true, &classes);
    if (!missing)
        missing = find_classes(false, &classes);
    if (missing)
        return tarn_error_set(TARN_NOT_FOUND,
                              "torch: no library of PyTorch is loaded, or it has no %s",
                              missing);
    return TARN_OK;
}

/* --- the message --- */

/* Print a size as PyTorch does. */
static void print_size(size_t bytes, char *out, size_t capacity)
{
    if (bytes >= (size_t)1 << 30)
        snprintf(out, capacity, "%.2f GiB", (double)bytes / (1 << 30));
    else if (bytes >= (size_t)1 << 20)
        snprintf(out, capacity, "%.2f MiB", (double)bytes / (1 << 20));
    else
        snprintf(out, capacity, "%zu bytes", bytes);
}

/* Tools look for "CUDA out of memory." at the beginning, as PyTorch's own text has it. */
static void write_out_of_memory(size_t bytes, int device, char *out, size_t capacity)
{
    tarn_pool_oom_report report = {.size = sizeof report};
    char size[32];

    print_size(bytes, size, sizeof size);
    int length =
        snprintf(out, capacity, "CUDA out of memory. Tried to allocate %s. GPU %d. %s",
                 size, device, tarn_error_last()->message);
    if (length < 0 || (size_t)length + 1 >= capacity ||
        strncmp(tarn_error_last()->message, "pool: cannot allocate", 21) != 0 ||
        tarn_pool_last_oom_report(&report) != TARN_OK)
        return;
    out[length] = '\n';
    tarn_pool_oom_report_text(&report, out + length + 1, capacity - (size_t)length - 1);
}

/* --- throwing --- */

static _Noreturn void throw_plain(const struct runtime *runtime, const char *text)
{
    void *object = runtime->allocate_exception(OBJECT_BYTES);

    runtime->make_plain(object, text);
    runtime->throw_exception(object, runtime->plain_type, runtime->end_plain);
    abort();
}

/* The first virtual function of c10::Error is its destructor. */
static _Noreturn void throw_class(const struct runtime *runtime,
                                  const struct classes *classes, const char *text)
{
    const struct source_location where = {"tarn_torch_allocate", "tarn", 0};
    _Alignas(max_align_t) unsigned char string[STRING_BYTES];
    void *object = runtime->allocate_exception(OBJECT_BYTES);
    void **functions = (void **)classes->table + HEAD_SLOTS;
    cxx_destructor *destroy;

    runtime->make_string(string);
    runtime->append(string, text);
    classes->make_error(object, where, string);
    runtime->end_string(string);
    memcpy(object, &functions, sizeof functions);
    memcpy(&destroy, functions, sizeof destroy);
    runtime->throw_exception(object, classes->type, destroy);
    abort();
}

_Noreturn void tarn__torch_error_throw(tarn_status status, size_t bytes, int device)
{
    bool out_of_memory = status == TARN_OUT_OF_MEMORY && bytes > 0;
    char text[TEXT_BYTES];
    struct runtime runtime;
    struct classes classes;

    if (out_of_memory)
        write_out_of_memory(bytes, device, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s", tarn_error_last()->message);
    if (find_runtime(&runtime) != NULL) {
        fprintf(stderr, "tarn: no C++ runtime to throw with: %s\n", text);
        abort();
    }
    if (find_classes(out_of_memory, &classes) == NULL)
        throw_class(&runtime, &classes, text);
    throw_plain(&runtime, text);
}
