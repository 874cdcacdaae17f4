/* managers.c -- random programs on managers and their pointers, beside a plain model.
 *
 *     model-managers [--operations N] [--seed N]
 *
 * Each program of PROGRAM operations draws its managers and its current device resource. It
 * allocates all kinds of memory, pins some of its own, makes views, and adds and drops
 * references. Between these it defers cleanup, changes limits, resets and replaces managers.
 * The model knows the references of each pointer, the bytes in memory that the host reads,
 * and which owner of pinned memory is still needed. Program I of a run has the seed
 * --seed + I: the last line has the seed that comes next.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/sim.h>
#include <tarn/tarn.h>
#include "run.h"

enum {
    MANAGERS = 2,
    POINTERS = 120,
    PROGRAM = 4000,
    STREAMS = 4,
    OWNERS = 4096, /* most pinned blocks of a program */
    PAGE = 4096
};
enum kind { DEVICE, HOST, MANAGED, PINNED, KINDS };

struct manager {
    tarn_manager *instance;
    unsigned kind;  /* of tables[] */
    unsigned depth; /* of deferred cleanup */
};

struct block {
    tarn_pointer *pointer;
    enum kind kind;
    size_t bytes, references, views;
    int first; /* of a view: the index of its first owner; -1: it is an owner */
    unsigned char pattern;
};

static struct {
    struct manager managers[MANAGERS];
    struct block blocks[POINTERS]; /* pointer NULL: unused */
    unsigned count;
    tarn_stream streams[STREAMS];
    unsigned owners, owners_released;
    bool is_owned[OWNERS];
    uint64_t refused;
} model;

static const tarn_manager_ops *(*const tables[])(void) = {
    tarn_native_manager_ops, tarn_resource_manager_ops, tarn_pool_manager_ops};
enum { TABLES = 3 };

static void expect(tarn_status wanted, tarn_status got, const char *what)
{
    if (got != wanted)
        fail("%s gives %s, not %s", what, tarn_status_name(got),
             tarn_status_name(wanted));
}

/* --- the memory of a block --- */

/* Write or check the pattern at both ends. */
static void mark(const struct block *block, bool is_check)
{
    unsigned char *host = tarn_pointer_host(block->pointer);

    if (!host || block->bytes == 0)
        return;
    unsigned char *ends[] = {host, host + block->bytes - 1};
    for (int i = 0; i < 2; i++) {
        if (is_check && *ends[i] != block->pattern)
            fail("byte %zu of %zu is %u, not %u", (size_t)(ends[i] - host), block->bytes,
                 *ends[i], block->pattern);
        *ends[i] = block->pattern;
    }
}

static void compare(const struct block *block)
{
    size_t wanted = block->references + block->views;

    if (tarn_pointer_use_count(block->pointer) != wanted)
        fail("a pointer has %zu references, not %zu",
             tarn_pointer_use_count(block->pointer), wanted);
    if (tarn_pointer_bytes(block->pointer) != block->bytes)
        fail("a pointer has %zu bytes, not %zu", tarn_pointer_bytes(block->pointer),
             block->bytes);
    if (block->first < 0)
        mark(block, true);
}

/* Two owners of device memory do not overlap. */
static void check_apart(const struct block *new)
{
    tarn_device_ptr at = tarn_pointer_address(new->pointer);

    for (unsigned i = 0; i < POINTERS; i++) {
        const struct block *other = &model.blocks[i];
        if (!other->pointer || other == new || other->first >= 0 || !other->bytes)
            continue;
        tarn_device_ptr there = tarn_pointer_address(other->pointer);
        if (at && there && at < there + other->bytes && there < at + new->bytes)
            fail("two blocks overlap: 0x%llx, %zu bytes, and 0x%llx, %zu bytes", at,
                 new->bytes, there, other->bytes);
    }
}

/* --- managers --- */

static void make_manager(struct manager *manager)
{
    manager->kind = (unsigned)draw(TABLES);
    manager->depth = 0;
    expect(TARN_OK,
           tarn_manager_create(tables[manager->kind](), NULL, 0, &manager->instance),
           "create");
}

static void replace_manager(struct manager *manager)
{
    tarn_manager_release(manager->instance); /* ends deferred cleanup */
    make_manager(manager);
}

static void defer(struct manager *manager)
{
    if (draw(2) && manager->depth < 5) {
        expect(TARN_OK, tarn_manager_defer_cleanup_begin(manager->instance), "begin");
        manager->depth++;
        return;
    }
    expect(manager->depth ? TARN_OK : TARN_INVALID_ARGUMENT,
           tarn_manager_defer_cleanup_end(manager->instance), "end");
    manager->depth -= manager->depth > 0;
}

static void change_limits(void)
{
    static const double ratios[] = {0, 0.000001, 0.2, 1};
    size_t count = (size_t)draw(30), seen;
    double ratio = ratios[draw(4)], seen_ratio;

    expect(TARN_INVALID_ARGUMENT, tarn_manager_set_pending_deallocs_limits(1, 1.5),
           "limits");
    expect(TARN_OK, tarn_manager_set_pending_deallocs_limits(count, ratio), "limits");
    tarn_manager_pending_deallocs_limits(&seen, &seen_ratio);
    if (seen != count || seen_ratio < ratio || seen_ratio > ratio)
        fail("the limits are %zu and %g, not %zu and %g", seen, seen_ratio, count, ratio);
}

static void change_resource(void)
{
    tarn_resource *resource = NULL;
    unsigned kind = (unsigned)draw(4);
    tarn_status status = kind == 0   ? tarn_cuda_create(0, &resource)
                         : kind == 1 ? tarn_async_create(0, NULL, &resource)
                         : kind == 2 ? tarn_pool_create(0, NULL, NULL, &resource)
                                     : TARN_OK;

    expect(TARN_OK, status, "a resource");
    expect(TARN_OK, tarn_device_set_resource(0, resource, NULL), "set_resource");
    expect(TARN_OK, tarn_resource_release(resource), "release");
}

/* --- pointers --- */

static void release_owner(void *owner)
{
    bool *is_owned = owner;

    if (!*is_owned)
        fail("an owner of pinned memory is released twice");
    *is_owned = false;
    model.owners_released++;
}

/* Pinned memory of the program: pages that no two live pins share. */
static tarn_status pin(const struct manager *manager, struct block *block,
                       tarn_pointer **out)
{
    static unsigned char *memory;
    unsigned index = (unsigned)(block - model.blocks);
    bool *owner = &model.is_owned[model.owners];

    /* An unpinning may be deferred, and memory cannot be pinned twice. */
    if (model.owners == OWNERS - 1 || tarn_pointer_deferred_count() > 0)
        return TARN_LIMIT_REACHED;
    if (!memory && !(memory = aligned_alloc(PAGE, (size_t)POINTERS * PAGE)))
        fail("no host memory");
    if (block->bytes > PAGE)
        block->bytes = PAGE;
    *owner = true;
    tarn_status status = tarn_manager_mempin(
        manager->instance, memory + (size_t)index * PAGE, block->bytes,
        draw(2) ? TARN_HOST_MAPPED : 0, owner, release_owner, out);
    if (status == TARN_OK)
        model.owners++;
    else
        *owner = false;
    return status;
}

static tarn_status allocate_kind(const struct manager *manager, struct block *block,
                                 tarn_pointer **out)
{
    static const unsigned flags[] = {0, TARN_HOST_MAPPED, TARN_HOST_PORTABLE,
                                     TARN_HOST_MAPPED | TARN_HOST_WRITE_COMBINED};
    tarn_manager *instance = manager->instance;

    switch (block->kind) {
    case DEVICE:
        return tarn_manager_memalloc(instance, block->bytes, model.streams[draw(STREAMS)],
                                     out);
    case HOST:
        return tarn_manager_memhostalloc(instance, block->bytes, flags[draw(4)], out);
    case MANAGED:
        return tarn_manager_memallocmanaged(instance, block->bytes, draw(2), out);
    default:
        return pin(manager, block, out);
    }
}

static struct block *unused_block(void)
{
    struct block *block = &model.blocks[draw(POINTERS)];

    while (block->pointer)
        block = block == &model.blocks[POINTERS - 1] ? model.blocks : block + 1;
    return block;
}

static void enter(struct block *block, tarn_pointer *pointer)
{
    block->pointer = pointer;
    block->references = 1;
    block->views = 0;
    model.count++;
}

static void allocate(const struct manager *manager)
{
    struct block *block = unused_block();
    tarn_pointer *out = (void *)8;

    block->kind = (enum kind)(draw(2) ? DEVICE : draw(KINDS));
    block->bytes = draw(20) == 0 ? 0 : 1 + (size_t)draw(draw(8) ? 5000 : 3 << 20);
    block->pattern = (unsigned char)draw(256);
    block->first = -1;
    tarn_status status = allocate_kind(manager, block, &out);
    if (status == TARN_LIMIT_REACHED && block->kind == PINNED)
        return;
    expect(TARN_OK, status, "an allocation");
    enter(block, out);
    check_apart(block);
    mark(block, false);
}

static void ask_too_much(const struct manager *manager)
{
    tarn_pointer *out = (void *)8;
    size_t bytes = draw(2) ? SIZE_MAX - draw(600) : (size_t)1 << 60;
    tarn_status status =
        draw(2) ? tarn_manager_memalloc(manager->instance, bytes, TARN_STREAM_NONE, &out)
                : tarn_manager_memallocmanaged(manager->instance, bytes, true, &out);

    expect(TARN_OUT_OF_MEMORY, status, "too much");
    if (out != (void *)8)
        fail("an allocation that failed has changed its output");
    model.refused++;
}

static struct block *live_block(void)
{
    struct block *block = &model.blocks[draw(POINTERS)];

    while (!block->pointer)
        block = block == &model.blocks[POINTERS - 1] ? model.blocks : block + 1;
    return block;
}

static void view(struct block *of)
{
    struct block *block = unused_block();
    size_t offset = (size_t)draw(of->bytes + 1),
           bytes = (size_t)draw(of->bytes - offset + 1);
    tarn_pointer *out = (void *)8;

    expect(TARN_INVALID_ARGUMENT,
           tarn_pointer_view(of->pointer, offset, of->bytes - offset + 1, &out),
           "a long view");
    expect(TARN_OK, tarn_pointer_view(of->pointer, offset, bytes, &out), "a view");
    *block = *of;
    block->bytes = bytes;
    block->first = of->first < 0 ? (int)(of - model.blocks) : of->first;
    model.blocks[block->first].views++;
    enter(block, out);
}

/* An owner whose last reference goes while it has views stays until they are gone. */
static void drop(struct block *block)
{
    struct block *first = block->first < 0 ? NULL : &model.blocks[block->first];

    if (block->references == 1 && block->views > 0)
        return; /* the program keeps it, to look at it */
    compare(block);
    tarn_pointer *pointer = block->pointer;
    if (--block->references == 0) {
        block->pointer = NULL;
        model.count--;
        if (first)
            first->views--;
    }
    if (draw(2))
        tarn_pointer_release(pointer);
    else
        expect(TARN_OK, tarn_pointer_release_checked(pointer), "a release");
}

static void set_stream(const struct block *block)
{
    if (block->bytes > 0 && block->kind == DEVICE)
        expect(TARN_OK,
               tarn_pointer_set_stream(block->pointer, model.streams[draw(STREAMS)]),
               "set_stream");
}

/* --- programs --- */

static void check_deferred(void)
{
    tarn_deferred_frees deferred = {.size = sizeof deferred};
    size_t count, bytes;

    expect(TARN_OK, tarn_pointer_deferred_frees(&deferred), "deferred_frees");
    expect(TARN_OK, tarn_manager_pending_deallocs(0, &count, &bytes), "pending_deallocs");
    if (deferred.failed_count != 0)
        fail("%zu frees failed", deferred.failed_count);
    if (count > deferred.waiting_count ||
        deferred.waiting_count != tarn_pointer_deferred_count())
        fail("%zu frees are pending, %zu wait, %zu are deferred", count,
             deferred.waiting_count, tarn_pointer_deferred_count());
}

static void step(void)
{
    struct manager *manager = &model.managers[draw(MANAGERS)];
    unsigned kind = (unsigned)draw(1000);
    size_t free_bytes, total_bytes;

    if (kind < 2)
        replace_manager(manager);
    else if (kind < 4)
        change_resource();
    else if (kind < 10)
        change_limits();
    else if (kind < 14)
        expect(TARN_OK, tarn_manager_reset(manager->instance), "reset");
    else if (kind < 18)
        expect(TARN_OK, tarn_pointer_reclaim_deferred(), "reclaim");
    else if (kind < 60)
        defer(manager);
    else if (kind < 70)
        ask_too_much(manager);
    else if (kind < 80)
        expect(TARN_OK,
               tarn_manager_get_memory_info(manager->instance, &free_bytes, &total_bytes),
               "memory_info");
    else if (kind < 90)
        check_deferred();
    else if (kind < 200 && model.count > 0 && model.count < POINTERS)
        view(live_block());
    else if (kind < 250 && model.count > 0)
        set_stream(live_block());
    else if (kind < 350 && model.count > 0) {
        struct block *block = live_block();
        tarn_pointer_retain(block->pointer);
        block->references++;
    } else if (model.count > 0 &&
               (model.count == POINTERS ||
                draw((uint64_t)2 * POINTERS) < model.count + POINTERS * 2 / 3))
        drop(live_block());
    else
        allocate(manager);
}

/* End views before owners, then the managers. */
static void end_program(void)
{
    while (model.count > 0)
        for (unsigned i = 0; i < POINTERS; i++)
            if (model.blocks[i].pointer)
                drop(&model.blocks[i]);
    for (unsigned i = 0; i < MANAGERS; i++) {
        tarn_manager_release(model.managers[i].instance);
        model.managers[i].instance = NULL;
    }
    expect(TARN_OK, tarn_pointer_reclaim_deferred(), "reclaim");
    if (tarn_pointer_deferred_count() != 0)
        fail("%zu frees are deferred", tarn_pointer_deferred_count());
    if (model.owners_released != model.owners)
        fail("%u owners of pinned memory were released, not %u", model.owners_released,
             model.owners);
    expect(TARN_OK, tarn_device_set_resource(0, NULL, NULL), "set_resource");
}

static unsigned long long live_bytes(void)
{
    static tarn_sim_live_bytes_fn *function;
    static bool is_known;

    if (!is_known) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        *(void **)&function = library ? dlsym(library, "tarn_sim_live_bytes") : NULL;
        is_known = true;
    }
    return function ? function() : 0;
}

static void run_program(uint64_t operations)
{
    tarn_runtime_counts before, after;
    unsigned long long bytes = live_bytes();

    run.random = run.seed;
    model.owners = model.owners_released = 0;
    tarn_pointer_counts(&before);
    change_resource();
    for (unsigned i = 0; i < MANAGERS; i++)
        make_manager(&model.managers[i]);
    for (uint64_t i = 0; i < operations; i++, run.operation++)
        step();
    end_program();
    tarn_pointer_counts(&after);
    if (after.created - before.created != after.destroyed - before.destroyed)
        fail("%" PRIu64 " pointers were created, %" PRIu64 " destroyed",
             after.created - before.created, after.destroyed - before.destroyed);
    if (live_bytes() != bytes)
        fail("%lld bytes of the device are lost", (long long)(live_bytes() - bytes));
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"operations", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {NULL, 0, NULL, 0}};
    uint64_t operations = 300000;
    int option;

    run.subject = "managers";
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?')
            return 2;
        *(option == 'n' ? &operations : &run.seed) = strtoull(optarg, NULL, 10);
    }
    model.streams[0] = TARN_STREAM_NONE;
    model.streams[1] = TARN_STREAM_DEFAULT;
    expect(TARN_OK, tarn_stream_create(0, true, &model.streams[2]), "stream");
    expect(TARN_OK, tarn_stream_create(0, false, &model.streams[3]), "stream");
    while (run.operation < operations) {
        run_program(PROGRAM);
        run.seed++;
    }
    printf("%" PRIu64 " operations, %" PRIu64 " refused; the next seed is %" PRIu64 "\n",
           run.operation, model.refused, run.seed);
    return 0;
}
