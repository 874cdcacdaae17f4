/* native_stack.c -- the native frames of a thread: a module, and an offset in it.
 *
 * glibc's backtrace() unwinds the stack by the unwind tables, which all modules have:
 * distributions compile without frame pointers. It loads libgcc's unwinder by itself, so
 * that libtarn needs no library but libc. Without it a stack has no native frames.
 *
 * An address means something only in this process, and only until its module is unloaded.
 * So a frame is stored as the build-id of the module and the offset in it, which any
 * reader can resolve later. The list of modules is made again when the loader has loaded
 * or unloaded one since. Code of no module, as from a compiler at run time, has no file,
 * and its address as the offset.
 *
 * A fork copies the loader's lock as it is, and glibc does not free it in the child. So
 * this file unwinds and walks under a lock of its own, which the forking thread holds
 * (mutex.h). The first unwinding loads libgcc's library, whose constructors must not run
 * under that lock. A fork may come in the middle of that, and then the unwinder ends the
 * child by abort(). Such a child captures no native frames.
 */
#define _GNU_SOURCE
#include "trace/native_stack.h"
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

enum {
    OWN_FRAMES = 6,       /* of libtarn, in most captures */
    OWN_FRAMES_MAX = 128, /* with many adaptors */
    KNOWN_CALLS = 1024,   /* a power of two */
    OTHER_FRAMES = 2,     /* within libtarn's */
    PATH_BYTES = 4096,
    ID_DIGITS = 2 * 32 + 1
};

/* A loaded module. */
struct module {
    uintptr_t base, first, last; /* addresses of its segments are first..last */
    uint32_t file, build_id;     /* strings of the table */
    bool is_program;             /* not a library */
};

/* A call on a stack, by its address. */
struct call {
    uintptr_t address;
    uint32_t frame;   /* its number in the table; 0: not known */
    tarn_stack alone; /* the stack of that frame; TARN_STACK_UNKNOWN: not known */
    bool is_own;      /* in libtarn, where that is a library */
};

struct modules {
    unsigned long long changes; /* of the loader, at the time of the list */
    size_t count;
    struct call known[KNOWN_CALLS]; /* a cache, by the address */
    struct module at[];             /* by address */
};

static struct tarn__mutex lock; /* guards `modules`, and the loader's lock (see above) */
static struct modules *modules;

/* The unwinder: whether it is loaded, how many threads are loading it, and whether this
 * process is a child that was forked meanwhile. */
static atomic_bool is_unwinder_loaded, is_unwinder_lost;
static atomic_uint loading_threads;

static void note_fork(struct tarn__mutex *self)
{
    (void)self;
    if (atomic_load(&loading_threads) > 0 && !atomic_load(&is_unwinder_loaded))
        atomic_store(&is_unwinder_lost, true);
    atomic_store(&loading_threads, 0);
}

__attribute__((constructor)) static void watch_forks(void)
{
    tarn__mutex_init(&lock, note_fork);
}

/* --- the list of modules --- */

/* What a walk through the loader's modules finds. It copies the names: a module may be
 * unloaded after the walk. */
struct walk {
    unsigned long long changes;
    size_t count, capacity; /* modules found, and those for which there is space */
    struct found {
        struct module module;
        char build_id[ID_DIGITS];
        char path[PATH_BYTES];
    } *found;
};

static unsigned long long changes_of(const struct dl_phdr_info *info)
{
    return info->dlpi_adds + info->dlpi_subs;
}

static int read_changes(struct dl_phdr_info *info, size_t size, void *data)
{
    unsigned long long *changes = data;

    (void)size;
    *changes = changes_of(info);
    return 1;
}

/* Write the build-id of a segment of notes as digits, if it has one. */
static void read_notes(const char *notes, size_t bytes, char digits[ID_DIGITS])
{
    ElfW(Nhdr) note;

    while (bytes >= sizeof note) {
        memcpy(&note, notes, sizeof note);
        size_t name = (note.n_namesz + (size_t)3) & ~(size_t)3;
        size_t text = (note.n_descsz + (size_t)3) & ~(size_t)3;
        if (name + text > bytes - sizeof note)
            return;
        const char *id = notes + sizeof note + name;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + sizeof note, "GNU", 4) == 0 && note.n_descsz < ID_DIGITS / 2)
            for (size_t i = 0; i < note.n_descsz; i++) {
                digits[2 * i] = "0123456789abcdef"[(unsigned char)id[i] >> 4];
                digits[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
            }
        notes = id + text;
        bytes -= sizeof note + name + text;
    }
}

/* Return true if a segment of the loaded ones contains these bytes. */
static bool is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_R &&
            part->p_vaddr >= segment->p_vaddr && part->p_memsz <= segment->p_memsz &&
            part->p_vaddr - segment->p_vaddr <= segment->p_memsz - part->p_memsz)
            return true;
    }
    return false;
}

static void read_segment(const struct dl_phdr_info *info, const ElfW(Phdr) * segment,
                         struct found *found)
{
    uintptr_t first = info->dlpi_addr + segment->p_vaddr;
    uintptr_t last = first + segment->p_memsz - 1;

    if (segment->p_type == PT_LOAD && segment->p_memsz > 0) {
        found->module.first = first < found->module.first ? first : found->module.first;
        found->module.last = last > found->module.last ? last : found->module.last;
    } else if (segment->p_type == PT_NOTE && is_loaded(info, segment)) {
        read_notes((const char *)first, segment->p_memsz, found->build_id);
    }
}

static int note_module(struct dl_phdr_info *info, size_t size, void *data)
{
    struct walk *walk = data;

    (void)size;
    walk->changes = changes_of(info);
    if (walk->count++ >= walk->capacity)
        return 0;
    struct found *found = &walk->found[walk->count - 1];
    *found = (struct found){.module = {.base = info->dlpi_addr,
                                       .first = UINTPTR_MAX,
                                       .is_program = walk->count == 1}};
    for (int i = 0; i < info->dlpi_phnum; i++)
        read_segment(info, &info->dlpi_phdr[i], found);
    if (info->dlpi_name)
        strncpy(found->path, info->dlpi_name, PATH_BYTES - 1);
    return 0;
}

static int by_address(const void *one, const void *two)
{
    const struct module *a = one, *b = two;

    return a->first < b->first ? -1 : a->first > b->first;
}

/* Make the list of what a walk has found. NULL: no host memory. */
static struct modules *list_of(struct walk *walk)
{
    struct modules *list = calloc(1, sizeof *list + walk->count * sizeof *list->at);

    if (!list)
        return NULL;
    list->changes = walk->changes;
    list->count = walk->count;
    for (size_t i = 0; i < walk->count; i++) {
        struct found *found = &walk->found[i];
        if (found->module.is_program && found->path[0] == 0 &&
            readlink("/proc/self/exe", found->path, PATH_BYTES - 1) < 0)
            found->path[0] = 0;
        found->module.file = tarn__stack_table_string(found->path);
        found->module.build_id = tarn__stack_table_string(found->build_id);
        list->at[i] = found->module;
    }
    qsort(list->at, list->count, sizeof *list->at, by_address);
    return list;
}

/* List the modules that are loaded. NULL: no host memory. */
static struct modules *make_list(void)
{
    struct walk walk = {0};
    struct modules *list;

    do { /* until no other thread loads one meanwhile */
        free(walk.found);
        walk.capacity = walk.count + 16;
        walk.count = 0;
        walk.found = malloc(walk.capacity * sizeof *walk.found);
        if (!walk.found)
            return NULL;
        tarn__mutex_lock(&lock);
        dl_iterate_phdr(note_module, &walk);
        tarn__mutex_unlock(&lock);
    } while (walk.count > walk.capacity);
    list = list_of(&walk);
    free(walk.found);
    return list;
}

/* Return true if the loader has loaded or unloaded a module since the list was made. `lock`
 * held. */
static bool is_stale(void)
{
    tarn__assert_mutex_held(&lock.mutex);

    unsigned long long changes = 0;

    dl_iterate_phdr(read_changes, &changes);
    return !modules || modules->changes != changes;
}

/* Make the list anew. Without host memory the old one stays. */
static void refresh(void)
{
    struct modules *list = make_list();

    if (!list)
        return;
    tarn__mutex_lock(&lock);
    struct modules *old = modules;
    modules = list;
    tarn__mutex_unlock(&lock);
    free(old);
}

/* Return the module that contains an address, or NULL. `lock` held. */
static const struct module *module_at(uintptr_t address)
{
    tarn__assert_mutex_held(&lock.mutex);

    size_t low = 0, high = modules ? modules->count : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (modules->at[middle].first <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address <= modules->at[low - 1].last ? &modules->at[low - 1] : NULL;
}

/* --- captures --- */

/* Return the place of an address in the cache; NULL: there is none. `lock` held. */
static struct call *known_at(uintptr_t address)
{
    tarn__assert_mutex_held(&lock.mutex);

    size_t place = (size_t)(address * 0x9e3779b97f4a7c15u >> 32) & (KNOWN_CALLS - 1);

    return modules ? &modules->known[place] : NULL;
}

/* Describe the frame of a call. */
static struct tarn__stack_table_frame frame_of(uintptr_t address, bool *is_own)
{
    struct tarn__stack_table_frame frame = {.offset = address};

    tarn__mutex_lock(&lock);
    const struct module *module = module_at(address);
    *is_own = module && !module->is_program &&
              module == module_at((uintptr_t)tarn__native_stack_capture);
    if (module) {
        frame.file = module->file;
        frame.build_id = module->build_id;
        frame.offset -= module->base;
    }
    tarn__mutex_unlock(&lock);
    if (!frame.build_id) /* it marks the frame as native */
        frame.build_id = tarn__stack_table_string("");
    return frame;
}

/* Add the frame of a call to the table, and the call to the cache. While the call is on a
 * stack, its module stays loaded. */
static void add_call(struct call *call)
{
    const struct tarn__stack_table_frame frame = frame_of(call->address, &call->is_own);

    call->frame = tarn__stack_table_add_frame(&frame);
    tarn__mutex_lock(&lock);
    struct call *known = known_at(call->address);
    if (known && call->frame)
        *known = *call;
    tarn__mutex_unlock(&lock);
}

/* Look `count` calls up in the cache. */
static void look_up(struct call *calls, size_t count)
{
    tarn__mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        const struct call *known = known_at(calls[i].address);
        if (known && known->address == calls[i].address)
            calls[i] = *known;
    }
    tarn__mutex_unlock(&lock);
}

/* Unwind into an array of `capacity` addresses, with a fresh list of modules. */
static size_t unwind(void **addresses, size_t capacity)
{
    size_t count = 0;

    tarn__mutex_lock(&lock);
#ifdef __GLIBC__
    count = (size_t)backtrace(addresses, (int)capacity);
#else
    (void)addresses, (void)capacity;
#endif
    bool must_refresh = is_stale();
    tarn__mutex_unlock(&lock);
    if (must_refresh)
        refresh();
    return count;
}

/* Load the unwinder, if it is not loaded yet. Returns false if there is none. */
static bool load_unwinder(void)
{
#ifdef __GLIBC__
    void *address;

    if (atomic_load_explicit(&is_unwinder_loaded, memory_order_acquire))
        return true;
    if (atomic_load(&is_unwinder_lost))
        return false;
    atomic_fetch_add(&loading_threads, 1);
    backtrace(&address, 1);
    atomic_store_explicit(&is_unwinder_loaded, true, memory_order_release);
    atomic_fetch_sub(&loading_threads, 1);
    return true;
#else
    return false;
#endif
}

/* Return the number of the innermost calls that the program did not make: those in libtarn,
 * and in a library that stands in for libc's backtrace(), as a sanitizer's does. */
static size_t count_own(const struct call *calls, size_t count)
{
    size_t own = 0;

    while (own < count && own < OTHER_FRAMES && !calls[own].is_own)
        own++;
    if (own == count || !calls[own].is_own)
        return 0;
    while (own < count && calls[own].is_own)
        own++;
    return own;
}

/* Capture a stack, with space for `own_max` frames of libtarn beyond `depth`. Returns
 * false if it has more of them. */
static bool capture(unsigned depth, unsigned own_max, tarn_stack *out)
{
    void *addresses[TARN_STACK_DEPTH_MAX + OWN_FRAMES_MAX];
    struct call calls[TARN_STACK_DEPTH_MAX + OWN_FRAMES_MAX];
    uint32_t frames[TARN_STACK_DEPTH_MAX];
    size_t count = unwind(addresses, depth + own_max), used = 0;

    for (size_t i = 0; i < count; i++) /* a return address may be of the next line */
        calls[i] = (struct call){.address = (uintptr_t)addresses[i] - 1};
    look_up(calls, count);
    for (size_t i = 0; i < count; i++)
        if (!calls[i].frame)
            add_call(&calls[i]);
    size_t own = count_own(calls, count);
    for (size_t i = own; i < count && used < depth; i++)
        frames[used++] = calls[i].frame;
    if (count == depth + own_max && own > own_max)
        return false;
    *out = tarn_stack_add(frames, used);
    return true;
}

tarn_stack tarn__native_stack_capture(unsigned depth)
{
    tarn_stack stack = TARN_STACK_UNKNOWN;

    if (!load_unwinder())
        return TARN_STACK_UNKNOWN;
    if (!capture(depth, OWN_FRAMES, &stack))
        capture(depth, OWN_FRAMES_MAX, &stack);
    return stack;
}

/* Read the list of modules again, if they have changed. */
static void refresh_if_stale(void)
{
    tarn__mutex_lock(&lock);
    bool must_refresh = is_stale();
    tarn__mutex_unlock(&lock);
    if (must_refresh)
        refresh();
}

/* Make the stack of the frame of a call alone. The cache gets it. */
static tarn_stack make_alone(struct call *call)
{
    add_call(call);
    if (!call->frame || call->is_own)
        return TARN_STACK_UNKNOWN;
    call->alone = tarn_stack_add(&call->frame, 1);
    tarn__mutex_lock(&lock);
    struct call *known = known_at(call->address);
    if (known && known->address == call->address)
        known->alone = call->alone;
    tarn__mutex_unlock(&lock);
    return call->alone;
}

/* Return the stack of the frame of a call alone, if the cache has it. */
static tarn_stack look_up_alone(uintptr_t address)
{
    tarn_stack stack = TARN_STACK_UNKNOWN;

    tarn__mutex_lock(&lock);
    const struct call *known = is_stale() ? NULL : known_at(address);
    if (known && known->address == address)
        stack = known->alone;
    tarn__mutex_unlock(&lock);
    return stack;
}

tarn_stack tarn__native_stack_of_caller(void *caller)
{
    struct call call = {.address = (uintptr_t)caller - 1}; /* as in capture() */
    tarn_stack stack = look_up_alone(call.address);

    if (stack != TARN_STACK_UNKNOWN)
        return stack;
    refresh_if_stale();
    return make_alone(&call);
}

/* --- names --- */

/* Find the base of a module that is loaded. */
static bool find_base(uint32_t file, uint32_t build_id, uintptr_t *out)
{
    bool found = false;

    refresh_if_stale();
    tarn__mutex_lock(&lock);
    for (size_t i = 0; !found && modules && i < modules->count; i++) {
        found = modules->at[i].file == file && modules->at[i].build_id == build_id;
        *out = modules->at[i].base;
    }
    tarn__mutex_unlock(&lock);
    return found;
}

const char *tarn__native_stack_function(const struct tarn__stack_table_frame *frame)
{
    uintptr_t base;
    Dl_info info;

    if (!find_base(frame->file, frame->build_id, &base) ||
        dladdr((void *)(base + frame->offset), &info) == 0)
        return NULL;
    return info.dli_sname;
}
