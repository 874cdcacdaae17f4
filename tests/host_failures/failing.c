/* failing.c -- malloc and its relatives, which fail on request; see failing.h.
 *
 * It is linked into a test, or preloaded into any program. A preloaded copy reads
 * TARN_FAILING=ONCE:NTH or TARN_FAILING=ON:NTH when it is loaded. With TARN_FAILING_COUNT=PATH
 * it writes the number of allocations to that file when the program ends.
 */
#define _GNU_SOURCE
#include "failing.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

/* The allocator below: a sanitizer's, or libc's. */
void *__interceptor_malloc(size_t bytes) __attribute__((weak));
void *__interceptor_calloc(size_t count, size_t bytes) __attribute__((weak));
void *__interceptor_realloc(void *block, size_t bytes) __attribute__((weak));
void *__interceptor_aligned_alloc(size_t alignment, size_t bytes) __attribute__((weak));
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_uint allocations, failed, nth;
static atomic_int mode;
static _Atomic(void *) last, program;
static _Thread_local bool is_deciding __attribute__((tls_model("initial-exec")));

/* --- who asks --- */

enum caller { LIBTARN, LIBC, OTHER };

static bool has_name(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return strncmp(slash ? slash + 1 : path, name, strlen(name)) == 0;
}

static int look_at_object(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    (void)data;
    return has_name(object->dlpi_name, "libtarn.so");
}

/* Tests of internals have libtarn's objects in the program: where there is no libtarn.so, its
 * place is the main program. */
static void *find_program_with_libtarn(void)
{
    Dl_info info;

    if (dl_iterate_phdr(look_at_object, NULL) ||
        !dladdr((void *)getauxval(AT_ENTRY), &info)) // NOLINT(performance-no-int-to-ptr)
        return NULL;
    return info.dli_fbase;
}

static enum caller caller_at(const void *address)
{
    Dl_info info;

    if (!dladdr(address, &info) || !info.dli_fname)
        return OTHER;
    if (info.dli_fbase == atomic_load(&program) || has_name(info.dli_fname, "libtarn.so"))
        return LIBTARN;
    return has_name(info.dli_fname, "libc.so") || has_name(info.dli_fname, "libasan") ||
                   has_name(info.dli_fname, "libtarn_failing")
               ? LIBC
               : OTHER;
}

struct walk {
    enum caller found;
    bool has_begun; /* the frames before it are those of this file */
};

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *data)
{
    struct walk *walk = data;

    walk->found = caller_at((void *)_Unwind_GetIP(context));
    walk->has_begun |= walk->found == LIBC;
    return walk->found == LIBC || !walk->has_begun ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static bool is_of_libtarn(const void *caller)
{
    struct walk walk = {.found = caller_at(caller)};

    if (walk.found == LIBC)
        _Unwind_Backtrace(look_at_frame, &walk);
    return walk.found == LIBTARN;
}

/* Decide whether the allocation called from `caller` fails. */
static bool has_to_fail(const void *caller)
{
    int now = atomic_load(&mode);

    if (now == FAILING_NONE || is_deciding)
        return false;
    is_deciding = true;
    bool fails = false;
    if (is_of_libtarn(caller)) {
        unsigned number = atomic_fetch_add(&allocations, 1) + 1,
                 wanted = atomic_load(&nth);
        fails = number == wanted || (now == FAILING_FROM_THEN_ON && number > wanted);
    }
    if (fails) {
        atomic_fetch_add(&failed, 1);
        atomic_store(&last, (void *)caller);
    }
    is_deciding = false;
    return fails;
}

/* What the loader keeps comes through here, so LeakSanitizer does not know whose it is. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:_dl_\n";
}

/* --- the controls --- */

void failing_begin(unsigned number, enum failing_mode wanted)
{
    atomic_store(&program, find_program_with_libtarn());
    atomic_store(&allocations, 0);
    atomic_store(&failed, 0);
    atomic_store(&nth, number);
    atomic_store(&mode, (int)wanted);
}

unsigned failing_end(void)
{
    atomic_store(&mode, FAILING_NONE);
    return atomic_load(&failed);
}

const char *failing_place(void)
{
    static _Thread_local char text[512];
    Dl_info info = {.dli_fname = "?"};
    char *address = atomic_load(&last);

    if (!dladdr(address, &info) || !info.dli_fname)
        return "?";
    snprintf(text, sizeof text, "%s of %s+0x%zx", info.dli_sname ? info.dli_sname : "?",
             info.dli_fname, (size_t)(address - (char *)info.dli_fbase));
    return text;
}

/* --- a preloaded copy --- */

__attribute__((constructor)) static void begin(void)
{
    const char *asked = getenv("TARN_FAILING"),
               *colon = asked ? strchr(asked, ':') : NULL;

    if (colon)
        failing_begin((unsigned)strtoul(colon + 1, NULL, 10),
                      strncmp(asked, "ON:", 3) == 0 ? FAILING_FROM_THEN_ON
                                                    : FAILING_ONCE);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("TARN_FAILING_COUNT");
    char text[600];

    if (!path)
        return;
    unsigned count = atomic_load(&allocations), fails = failing_end();
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int bytes = snprintf(text, sizeof text, "%u %u %s\n", count, fails, failing_place());
    if (file >= 0 && write(file, text, (size_t)bytes) == bytes)
        close(file);
}

/* --- the functions --- */

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t bytes)
{
    if (has_to_fail(__builtin_return_address(0)))
        return no_memory();
    return __interceptor_malloc ? __interceptor_malloc(bytes) : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    if (has_to_fail(__builtin_return_address(0)))
        return no_memory();
    return __interceptor_calloc ? __interceptor_calloc(count, bytes)
                                : __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    if (has_to_fail(__builtin_return_address(0)))
        return no_memory();
    return __interceptor_realloc ? __interceptor_realloc(block, bytes)
                                 : __libc_realloc(block, bytes);
}

static void *allocate_aligned(size_t alignment, size_t bytes)
{
    return __interceptor_aligned_alloc ? __interceptor_aligned_alloc(alignment, bytes)
                                       : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (has_to_fail(__builtin_return_address(0)))
        return no_memory();
    return allocate_aligned(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
    if (has_to_fail(__builtin_return_address(0)))
        return ENOMEM;
    void *memory = allocate_aligned(alignment, bytes);
    if (memory)
        *block = memory;
    return memory ? 0 : ENOMEM;
}

static char *copy_text(const char *text, size_t length)
{
    char *copy = __interceptor_malloc ? __interceptor_malloc(length + 1)
                                      : __libc_malloc(length + 1);

    if (copy) {
        memcpy(copy, text, length);
        copy[length] = 0;
    }
    return copy;
}

char *strdup(const char *text)
{
    if (has_to_fail(__builtin_return_address(0)))
        return no_memory();
    return copy_text(text, strlen(text));
}

char *strndup(const char *text, size_t limit)
{
    if (has_to_fail(__builtin_return_address(0)))
        return no_memory();
    return copy_text(text, strnlen(text, limit));
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (has_to_fail(__builtin_return_address(0))) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*run)(void *), void *data)
{
    static _Atomic(void *) below;
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (has_to_fail(__builtin_return_address(0)))
        return EAGAIN;
    if (!atomic_load(&below))
        atomic_store(&below, dlsym(RTLD_NEXT, "pthread_create"));
    void *found = atomic_load(&below);
    memcpy(&create, &found, sizeof create);
    return create(thread, attributes, run, data);
}

/* A test that aborts is no defect where memory is short. */
void abort(void)
{
    static _Atomic(void *) below;
    void (*real)(void) __attribute__((noreturn));
    Dl_info info = {.dli_fname = NULL};
    char text[600];

    dladdr(__builtin_return_address(0), &info);
    int bytes = snprintf(text, sizeof text, "failing: abort() called by %s\n",
                         info.dli_fname ? info.dli_fname : "?");
    if (write(STDERR_FILENO, text, (size_t)bytes) != bytes)
        _exit(99);
    atomic_store(&below, dlsym(RTLD_NEXT, "abort"));
    void *found = atomic_load(&below);
    memcpy(&real, &found, sizeof real);
    real();
}
