/* Test fabric handles and the leases on their blocks: two processes, of which one is on
 * another node of the simulator. The test carries their messages.
 */
#define _GNU_SOURCE
#include "child.h"
#include "processes.h"
#include "test.h"
#include "ipc/fabric_encoding.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, BYTES = 3 * MIB };

enum verb { EXPORT, ANSWER, WRITE, VERIFY, FREE, LEASES, LIVE };

struct order {
    enum verb verb;
    unsigned char mark;
    tarn_fabric_message message;
};

struct answer {
    tarn_status status;
    tarn_fabric_handle handle;
    tarn_fabric_message message;
    tarn_ipc_lease lease;
    size_t count; /* of leases; or bytes */
};

/* --- the owner --- */

static const char *owner_options = "fabric=on";
static bool owner_has_pool;
static bool owner_has_another; /* block, exported before `memory` */
static tarn_pointer *memory;

static void make_memory(tarn_resource **out)
{
    tarn_resource *exportable;

    CHILD_STATUS(TARN_OK, tarn_exportable_create(0, NULL, &exportable));
    *out = exportable;
    if (!owner_has_pool)
        return;
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, exportable, NULL, out));
    CHILD_STATUS(TARN_OK, tarn_resource_release(exportable));
}

static size_t wrong_bytes(const tarn_pointer *pointer, unsigned char mark)
{
    static unsigned char host[BYTES];
    size_t wrong = 0;

    CHILD_STATUS(TARN_OK,
                 tarn_memcpy_async(tarn_pointer_device(pointer), (uintptr_t)host,
                                   tarn_pointer_address(pointer),
                                   tarn_pointer_bytes(pointer), TARN_STREAM_NONE));
    for (size_t i = 0; i < tarn_pointer_bytes(pointer); i++)
        wrong += host[i] != mark;
    return wrong;
}

static void fill(const tarn_pointer *pointer, unsigned char mark)
{
    CHILD_STATUS(TARN_OK, tarn_memset_async(
                              tarn_pointer_device(pointer), tarn_pointer_address(pointer),
                              mark, tarn_pointer_bytes(pointer), TARN_STREAM_NONE));
    CHILD_STATUS(TARN_OK, tarn_driver_synchronize(tarn_pointer_device(pointer)));
}

static struct answer carry_out(const struct order *order)
{
    struct answer answer = {.status = TARN_OK};

    switch (order->verb) {
    case EXPORT:
        answer.status = tarn_fabric_export(memory, &answer.handle);
        break;
    case ANSWER:
        answer.status = tarn_fabric_answer(&order->message, &answer.message);
        break;
    case WRITE:
        fill(memory, order->mark);
        break;
    case VERIFY:
        answer.count = wrong_bytes(memory, order->mark);
        break;
    case FREE:
        tarn_pointer_release(memory);
        memory = NULL;
        break;
    case LEASES:
        CHILD_STATUS(TARN_OK, tarn_ipc_leases(&answer.lease, 1, &answer.count));
        break;
    case LIVE:
        answer.count = sim_live_bytes();
        break;
    }
    return answer;
}

static tarn_pointer *export_another(tarn_resource *resource)
{
    tarn_fabric_handle handle;
    tarn_pointer *another;

    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, BYTES, TARN_STREAM_NONE, &another));
    CHILD_STATUS(TARN_OK, tarn_fabric_export(another, &handle));
    return another;
}

static void own(int line)
{
    tarn_resource *resource;
    tarn_pointer *another = NULL;
    struct order order;

    setenv("TARN_SIM", owner_options, 1);
    make_memory(&resource);
    if (owner_has_another)
        another = export_another(resource);
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, BYTES, TARN_STREAM_NONE, &memory));
    while (receive_message(line, &order, sizeof order)) {
        struct answer answer = carry_out(&order);
        must_send(line, &answer, sizeof answer);
    }
    tarn_pointer_release(memory);
    tarn_pointer_release(another);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
}

static struct answer ask(struct process *owner, struct order order)
{
    struct answer answer;

    must_send(owner->line, &order, sizeof order);
    must_receive(owner->line, &answer, sizeof answer);
    return answer;
}

static struct answer ask_answer(struct process *owner, const tarn_fabric_message *request)
{
    struct order order = {.verb = ANSWER, .message = *request};

    return ask(owner, order);
}

/* --- the importer --- */

static const char *importer_options = "fabric=on,node=1";

static void start_importer(void)
{
    setenv("TARN_SIM", importer_options, 1);
}

static tarn_fabric_handle exported(struct process *owner)
{
    struct answer answer = ask(owner, (struct order){.verb = EXPORT});

    CHILD_STATUS(TARN_OK, answer.status);
    return answer.handle;
}

/* Begin a lease; return the reply. */
static tarn_fabric_message granted(struct process *owner,
                                   const tarn_fabric_handle *handle,
                                   unsigned milliseconds)
{
    tarn_fabric_message request;

    CHILD_STATUS(TARN_OK, tarn_fabric_begin(handle, milliseconds, &request));
    struct answer answer = ask_answer(owner, &request);
    CHILD_STATUS(TARN_OK, answer.status);
    return answer.message;
}

static void end_lease(struct process *owner, const tarn_fabric_message *grant)
{
    tarn_fabric_message request;
    unsigned milliseconds = 77;

    CHILD_STATUS(TARN_OK, tarn_fabric_end(grant, &request));
    struct answer answer = ask_answer(owner, &request);
    CHILD_STATUS(TARN_OK, answer.status);
    CHILD_STATUS(TARN_OK, tarn_fabric_check(&answer.message, &milliseconds));
    CHILD_CHECK(milliseconds == 0);
}

static size_t leases_of(struct process *owner)
{
    return ask(owner, (struct order){.verb = LEASES}).count;
}

static size_t live_bytes_of(struct process *owner)
{
    return ask(owner, (struct order){.verb = LIVE}).count;
}

/* Both processes are children: no function of Tarn may run in the test itself. */
static void (*scenario)(struct process *owner);
static struct process scenario_owner;

static void run_scenario(void)
{
    start_importer();
    scenario(&scenario_owner);
}

static void with_two_processes(void (*function)(struct process *owner))
{
    if (!has_sim())
        skip();
    scenario = function;
    scenario_owner = process_start(own);
    in_child(run_scenario);
    process_end(&scenario_owner);
    owner_options = "fabric=on";
    importer_options = "fabric=on,node=1";
    owner_has_pool = owner_has_another = false;
}

/* --- two nodes --- */

static void use_memory(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message grant = granted(owner, &handle, 0);
    tarn_pointer *opened, *again;

    ask(owner, (struct order){.verb = WRITE, .mark = 7});
    CHILD_STATUS(TARN_OK, tarn_fabric_open(&handle, &grant, 1, &opened));
    CHILD_CHECK(tarn_pointer_bytes(opened) == BYTES);
    CHILD_CHECK(tarn_pointer_device(opened) == 1);
    CHILD_CHECK(wrong_bytes(opened, 7) == 0);
    fill(opened, 8);
    CHILD_CHECK(ask(owner, (struct order){.verb = VERIFY, .mark = 8}).count == 0);
    CHILD_STATUS(TARN_OK, tarn_fabric_open(&handle, NULL, 1, &again));
    CHILD_CHECK(tarn_pointer_address(again) == tarn_pointer_address(opened));
    tarn_pointer_release(again);
    tarn_pointer_release(opened);
    end_lease(owner, &grant);
    CHILD_CHECK(leases_of(owner) == 0);
    CHILD_CHECK(sim_live_bytes() == 0);
}

TEST(another_node_reads_and_writes_the_block)
{
    with_two_processes(use_memory);
}

TEST(another_node_reads_and_writes_a_block_of_a_pool)
{
    owner_has_pool = true;
    with_two_processes(use_memory);
}

TEST(another_process_of_the_node_opens_the_block)
{
    importer_options = "fabric=on";
    with_two_processes(use_memory);
}

static void export_twice(struct process *owner)
{
    tarn_fabric_handle one = exported(owner), two = exported(owner);

    CHILD_CHECK(memcmp(&one, &two, sizeof one) == 0);
}

TEST(a_block_has_one_handle)
{
    with_two_processes(export_twice);
}

/* --- leases --- */

static void keep_by_lease(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message grant = granted(owner, &handle, 0), request;
    unsigned milliseconds;

    CHILD_STATUS(TARN_OK, tarn_fabric_check(&grant, &milliseconds));
    CHILD_CHECK(milliseconds == 60000);
    struct answer answer = ask(owner, (struct order){.verb = LEASES});
    CHILD_CHECK(answer.count == 1 && answer.lease.bytes == BYTES);
    CHILD_CHECK(answer.lease.process == getpid());
    ask(owner, (struct order){.verb = FREE});
    CHILD_CHECK(live_bytes_of(owner) > 0);
    CHILD_STATUS(TARN_OK, tarn_fabric_renew(&grant, 5000, &request));
    answer = ask_answer(owner, &request);
    CHILD_STATUS(TARN_OK, tarn_fabric_check(&answer.message, &milliseconds));
    CHILD_CHECK(milliseconds == 5000);
    end_lease(owner, &answer.message); /* a renewal grants as well */
    CHILD_CHECK(live_bytes_of(owner) == 0);
    end_lease(owner, &grant); /* it has ended already */
    CHILD_STATUS(TARN_OK, tarn_fabric_begin(&handle, 0, &request));
    answer = ask_answer(owner, &request);
    CHILD_STATUS(TARN_NOT_FOUND, tarn_fabric_check(&answer.message, NULL));
    CHILD_MESSAGE("the block was freed");
}

TEST(lease_keeps_a_freed_block_until_its_end)
{
    with_two_processes(keep_by_lease);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void expire(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message grant = granted(owner, &handle, 30), request;
    double began = seconds();

    granted(owner, &handle, 500);
    ask(owner, (struct order){.verb = FREE});
    while (leases_of(owner) == 2 && seconds() - began < 20)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    size_t left = leases_of(owner);
    CHILD_CHECK(left == 1 || seconds() - began >= 0.5);
    CHILD_CHECK(live_bytes_of(owner) > 0 || seconds() - began >= 0.5);
    while (leases_of(owner) > 0 && seconds() - began < 20)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHILD_CHECK(leases_of(owner) == 0);
    CHILD_CHECK(live_bytes_of(owner) == 0);
    CHILD_STATUS(TARN_OK, tarn_fabric_renew(&grant, 0, &request));
    struct answer answer = ask_answer(owner, &request);
    CHILD_STATUS(TARN_NOT_FOUND, tarn_fabric_check(&answer.message, NULL));
}

TEST(each_lease_of_an_importer_that_died_expires_in_its_turn)
{
    with_two_processes(expire);
}

static void expire_after_a_renewal(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message grant = granted(owner, &handle, 0), request;
    double began = seconds();

    CHILD_STATUS(TARN_OK, tarn_fabric_renew(&grant, 30, &request));
    struct answer answer = ask_answer(owner, &request);
    CHILD_STATUS(TARN_OK, tarn_fabric_check(&answer.message, NULL));
    while (leases_of(owner) > 0 && seconds() - began < 20)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CHILD_CHECK(leases_of(owner) == 0);
}

TEST(renewal_sets_the_end_of_a_lease)
{
    with_two_processes(expire_after_a_renewal);
}

/* A transport may deliver a message twice, and in any order. */
static void repeat(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message request, end;

    CHILD_STATUS(TARN_OK, tarn_fabric_begin(&handle, 0, &request));
    struct answer one = ask_answer(owner, &request), two = ask_answer(owner, &request);
    CHILD_CHECK(memcmp(&one.message, &two.message, sizeof one.message) == 0);
    CHILD_CHECK(leases_of(owner) == 1);
    tarn_fabric_message other = granted(owner, &handle, 0);
    CHILD_CHECK(leases_of(owner) == 2);
    CHILD_STATUS(TARN_OK, tarn_fabric_end(&one.message, &end));
    ask_answer(owner, &end);
    ask_answer(owner, &end);
    CHILD_CHECK(leases_of(owner) == 1);
    end_lease(owner, &other);
    CHILD_CHECK(leases_of(owner) == 0);
}

TEST(repeated_requests_do_the_same_once)
{
    with_two_processes(repeat);
    owner_has_another = true;
    with_two_processes(repeat);
}

/* --- what may be missing --- */

static void find_no_handle(struct process *owner)
{
    struct answer answer = ask(owner, (struct order){.verb = EXPORT});

    CHILD_STATUS(TARN_NOT_SUPPORTED, answer.status);
}

TEST(owner_without_a_channel_has_no_handle)
{
    owner_options = "fabric=no-channel";
    with_two_processes(find_no_handle);
    owner_options = "fabric=off";
    with_two_processes(find_no_handle);
}

static void lack_the_channel(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_pointer *opened = NULL;

    CHILD_STATUS(TARN_NOT_SUPPORTED, tarn_fabric_open(&handle, NULL, 0, &opened));
    CHILD_MESSAGE("IMEX channel");
    CHILD_CHECK(!opened);
}

TEST(importer_without_a_channel_is_told_so)
{
    importer_options = "fabric=no-channel";
    with_two_processes(lack_the_channel);
}

static void open_stale(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_pointer *opened = NULL;

    ask(owner, (struct order){.verb = FREE});
    CHILD_STATUS(TARN_NOT_FOUND, tarn_fabric_open(&handle, NULL, 0, &opened));
    CHILD_MESSAGE("released");
    CHILD_CHECK(!opened);
}

TEST(stale_handle_opens_nothing)
{
    with_two_processes(open_stale);
}

static void survive_the_owner(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message grant = granted(owner, &handle, 0);
    tarn_pointer *opened, *view, *again = NULL;

    ask(owner, (struct order){.verb = WRITE, .mark = 9});
    CHILD_STATUS(TARN_OK, tarn_fabric_open(&handle, &grant, 0, &opened));
    CHILD_CHECK(kill(owner->pid, SIGKILL) == 0);
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000000}, NULL);
    CHILD_CHECK(wrong_bytes(opened, 9) == 0);
    CHILD_STATUS(TARN_OK, tarn_pointer_view(opened, 100, 100, &view));
    tarn_pointer_release(opened);
    CHILD_CHECK(wrong_bytes(view, 9) == 0);
    tarn_pointer_release(view);
    CHILD_STATUS(TARN_NOT_FOUND, tarn_fabric_open(&handle, &grant, 0, &again));
    CHILD_CHECK(!again);
}

TEST(open_memory_outlives_its_owner)
{
    if (!has_sim())
        skip();
    scenario = survive_the_owner;
    scenario_owner = process_start(own);
    in_child(run_scenario);
    process_kill(&scenario_owner);
}

/* A driver that does nothing, without one of the calls. */
static void lack_a_call(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_pointer *opened = NULL;
    char path[512];

    snprintf(path, sizeof path, "%s/tests/fake/libcuda.so.1", getenv("TARN_BUILD"));
    CHILD_STATUS(TARN_OK, tarn_driver_open(path));
    CHILD_STATUS(TARN_NOT_SUPPORTED, tarn_fabric_open(&handle, NULL, 0, &opened));
    CHILD_MESSAGE("the driver cannot import memory");
    CHILD_CHECK(!opened);
}

TEST(driver_without_a_call_that_importing_needs_imports_nothing)
{
    static const char *const calls[] = {"cuMemImportFromShareableHandle",
                                        "cuMemRelease",
                                        "cuMemAddressReserve",
                                        "cuMemAddressFree",
                                        "cuMemMap",
                                        "cuMemUnmap",
                                        "cuMemSetAccess"};

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CHECK_EQUAL(0, setenv("FAKE_CUDA_LACKS", calls[i], 1));
        with_two_processes(lack_a_call);
    }
    CHECK_EQUAL(0, unsetenv("FAKE_CUDA_LACKS"));
}

/* The driver is the simulator without one of the calls. */
static void make_exportable_memory(void)
{
    tarn_resource *resource = NULL;
    char path[512];

    snprintf(path, sizeof path, "%s/tests/fake/libcuda.so.1", getenv("TARN_BUILD"));
    CHILD_STATUS(TARN_OK, tarn_driver_open(path));
    CHILD_STATUS(TARN_NOT_SUPPORTED, tarn_exportable_create(0, NULL, &resource));
    CHILD_MESSAGE("device 0 cannot export memory");
    CHILD_CHECK(!resource);
}

TEST(driver_without_a_call_that_exporting_needs_has_no_exportable_memory)
{
    static const char *const calls[] = {"cuMemAddressReserve",
                                        "cuMemAddressFree",
                                        "cuMemCreate",
                                        "cuMemRelease",
                                        "cuMemMap",
                                        "cuMemUnmap",
                                        "cuMemSetAccess",
                                        "cuMemExportToShareableHandle",
                                        "cuMemGetAllocationGranularity"};

    if (!has_sim())
        skip();
    CHECK_EQUAL(0, setenv("FAKE_CUDA_BASE", getenv("TARN_DRIVER"), 1));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CHECK_EQUAL(0, setenv("FAKE_CUDA_LACKS", calls[i], 1));
        in_child(make_exportable_memory);
    }
    CHECK_EQUAL(0, unsetenv("FAKE_CUDA_LACKS"));
    CHECK_EQUAL(0, unsetenv("FAKE_CUDA_BASE"));
}

/* --- wrong bytes --- */

/* Each bit of a handle and of a message decides. */
static void reject_damage(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message grant = granted(owner, &handle, 0), out;
    tarn_pointer *opened = NULL;

    for (size_t i = 0; i < sizeof handle.bytes * 8; i++) {
        tarn_fabric_handle damaged = handle;
        damaged.bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_begin(&damaged, 0, &out));
        CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_open(&damaged, NULL, 0, &opened));
    }
    for (size_t i = 0; i < sizeof grant.bytes * 8; i++) {
        tarn_fabric_message damaged = grant;
        damaged.bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_check(&damaged, NULL));
        CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_end(&damaged, &out));
        CHILD_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_fabric_open(&handle, &damaged, 0, &opened));
        if (i % 16 == 0)
            CHILD_STATUS(TARN_INVALID_ARGUMENT, ask_answer(owner, &damaged).status);
    }
    CHILD_CHECK(!opened);
    CHILD_CHECK(leases_of(owner) == 1);
    CHILD_STATUS(TARN_INVALID_ARGUMENT, ask_answer(owner, &grant).status);
    end_lease(owner, &grant);
}

TEST(damaged_bytes_change_nothing)
{
    with_two_processes(reject_damage);
}

/* A handle with other places of the block in its allocation, and a valid checksum. */
static tarn_status begin_at(const tarn_fabric_handle *handle, uint64_t offset,
                            uint64_t bytes, uint64_t segment_bytes)
{
    struct tarn__fabric_encoding content;
    tarn_fabric_handle other;
    tarn_fabric_message request;

    CHILD_STATUS(TARN_OK, tarn__fabric_encoding_decode(handle, &content));
    content.offset = offset;
    content.bytes = bytes;
    content.segment_bytes = segment_bytes;
    tarn__fabric_encoding_seal(&content, &other);
    return tarn_fabric_begin(&other, 0, &request);
}

static void reject_out_of_bounds(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);

    CHILD_STATUS(TARN_OK, begin_at(&handle, 0, MIB, MIB));
    CHILD_STATUS(TARN_OK, begin_at(&handle, MIB - 1, 1, MIB));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, begin_at(&handle, 0, MIB + 1, MIB));
    CHILD_MESSAGE("1048577 bytes at offset 0 exceed the allocation of 1048576 bytes");
    CHILD_STATUS(TARN_INVALID_ARGUMENT, begin_at(&handle, 1, MIB, MIB));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, begin_at(&handle, MIB, 1, MIB));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, begin_at(&handle, UINT64_MAX, 1, MIB));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, begin_at(&handle, 2, UINT64_MAX - 1, MIB));
}

TEST(a_block_lies_within_its_allocation)
{
    with_two_processes(reject_out_of_bounds);
}

static void reject_misuse(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message request, out;
    tarn_pointer *opened = NULL;

    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_begin(&handle, 3600001, &request));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_begin(NULL, 0, &request));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_begin(&handle, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_fabric_begin(&handle, 0, &request));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_answer(&request, &out));
    CHILD_MESSAGE("no request to this process");
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_check(&request, NULL));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_open(&handle, &request, 0, &opened));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_open(&handle, NULL, 99, &opened));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_open(NULL, NULL, 0, &opened));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_open(&handle, NULL, 0, NULL));
    CHILD_CHECK(!opened);
}

TEST(misuse_has_clear_errors)
{
    with_two_processes(reject_misuse);
}

/* Another process knows the block and the number of the lease, but not its secret. */
static void reject_forgery(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message grant = granted(owner, &handle, 0), forged;
    struct tarn__fabric_message content;

    for (uint32_t step = TARN__FABRIC_RENEW; step <= TARN__FABRIC_END; step++) {
        CHILD_STATUS(TARN_OK, tarn__fabric_encoding_decode_message(&grant, &content));
        content.step = step;
        content.secret ^= 2;
        content.milliseconds = step == TARN__FABRIC_RENEW ? 1 : 0;
        tarn__fabric_encoding_seal_message(&content, &forged);
        struct answer answer = ask_answer(owner, &forged);
        CHILD_STATUS(TARN_OK, answer.status);
        if (step == TARN__FABRIC_RENEW)
            CHILD_STATUS(TARN_NOT_FOUND, tarn_fabric_check(&answer.message, NULL));
    }
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000000}, NULL);
    CHILD_CHECK(leases_of(owner) == 1);
    end_lease(owner, &grant);
    CHILD_CHECK(leases_of(owner) == 0);
}

TEST(forged_messages_do_not_end_a_lease)
{
    with_two_processes(reject_forgery);
}

/* Two blocks may have the owner, the slot or the generation in common, but not all three. */
static void reject_lease_on_another_block(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message grant = granted(owner, &handle, 0), other;
    tarn_pointer *opened = NULL;

    for (int which = 0; which < 3; which++) {
        struct tarn__fabric_message content;
        CHILD_STATUS(TARN_OK, tarn__fabric_encoding_decode_message(&grant, &content));
        content.slot += which == 0;
        content.generation += which == 1;
        content.owner[0] ^= which == 2;
        tarn__fabric_encoding_seal_message(&content, &other);
        CHILD_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_fabric_open(&handle, &other, 0, &opened));
        CHILD_MESSAGE("the lease is on another block");
    }
    CHILD_CHECK(!opened);
    end_lease(owner, &grant);
}

TEST(lease_on_another_block_opens_nothing)
{
    with_two_processes(reject_lease_on_another_block);
}

/* An owner without host memory sends such a reply. */
static void reject_by_any_status(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);
    tarn_fabric_message grant = granted(owner, &handle, 0), rejection, request;
    struct tarn__fabric_message content;

    CHILD_STATUS(TARN_OK, tarn__fabric_encoding_decode_message(&grant, &content));
    content.status = TARN_OUT_OF_MEMORY;
    tarn__fabric_encoding_seal_message(&content, &rejection);
    CHILD_STATUS(TARN_OUT_OF_MEMORY, tarn_fabric_check(&rejection, NULL));
    CHILD_MESSAGE("the owner rejects the lease");
    CHILD_STATUS(TARN_OUT_OF_MEMORY, tarn_fabric_renew(&rejection, 0, &request));
    end_lease(owner, &grant);
}

TEST(rejection_has_the_status_of_the_owner)
{
    with_two_processes(reject_by_any_status);
}

static void reject_own_memory(struct process *owner)
{
    const tarn_exportable_options options = {.size = sizeof options};
    tarn_fabric_handle handle;
    tarn_fabric_message request;
    tarn_resource *resource, *cuda;
    tarn_pointer *pointer, *opened = NULL;

    (void)owner;
    CHILD_STATUS(TARN_OK, tarn_exportable_create(0, &options, &resource));
    CHILD_STATUS(TARN_OK,
                 tarn_pointer_allocate(resource, 100, TARN_STREAM_NONE, &pointer));
    CHILD_STATUS(TARN_OK, tarn_fabric_export(pointer, &handle));
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_begin(&handle, 0, &request));
    CHILD_MESSAGE("use the pointer");
    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_fabric_open(&handle, NULL, 0, &opened));
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(resource));
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    CHILD_STATUS(TARN_OK, tarn_pointer_allocate(cuda, 100, TARN_STREAM_NONE, &pointer));
    CHILD_STATUS(TARN_NOT_SUPPORTED, tarn_fabric_export(pointer, &handle));
    CHILD_MESSAGE("exportable memory");
    tarn_pointer_release(pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
}

TEST(a_process_does_not_open_its_own_handle)
{
    with_two_processes(reject_own_memory);
}

/* --- faults --- */

static void survive_faults(struct process *owner)
{
    tarn_fabric_handle handle = exported(owner);

    ask(owner, (struct order){.verb = WRITE, .mark = 5});
    for (unsigned nth = 1;; nth++) {
        char options[80];
        tarn_pointer *opened = NULL;
        snprintf(options, sizeof options, "fabric=on,node=1,fail=nth:%u", nth);
        sim_configure(options);
        tarn_status status = tarn_fabric_open(&handle, NULL, 0, &opened);
        CHILD_CHECK((status == TARN_OK) == (opened != NULL));
        if (opened)
            tarn_pointer_release(opened);
        unsigned long long faults = sim_faults();
        sim_configure("fabric=on,node=1");
        tarn_pointer_reclaim_deferred();
        CHILD_CHECK(sim_live_bytes() == 0);
        if (faults == 0)
            break;
    }
    tarn_pointer *opened;
    CHILD_STATUS(TARN_OK, tarn_fabric_open(&handle, NULL, 0, &opened));
    CHILD_CHECK(wrong_bytes(opened, 5) == 0);
    tarn_pointer_release(opened);
}

TEST(opening_survives_any_driver_call_failing)
{
    with_two_processes(survive_faults);
}
