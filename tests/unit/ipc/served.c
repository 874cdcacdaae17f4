/* Test served handles: a lease keeps a freed block, however the lease ends, and freed
 * memory is never found again. */
#define _GNU_SOURCE
#include "child.h"
#include "pair.h"

/* Test, owner and importers communicate over connections of the test, which sends each
 * its commands. */
enum step { OPEN, CHECK_BYTES, CLOSE };

struct step_order {
    enum step step;
    unsigned seed;
    int place;
    tarn_ipc_handle handle;
    char message[64]; /* of a rejected request */
};

struct step_answer {
    tarn_status status;
    size_t wrong;
    bool says; /* the message contains that of the command */
    bool untouched;
};

static void follow(tarn_pointer *places[8], const struct step_order *order,
                   struct step_answer *answer)
{
    tarn_pointer *untouched = (tarn_pointer *)(uintptr_t)77, *out = untouched;

    if (order->step == OPEN) {
        answer->status = tarn_ipc_open(&order->handle, NULL, &out);
        answer->untouched = out == untouched;
        answer->says = strstr(tarn_error_last()->message, order->message) != NULL;
        if (!answer->says)
            fprintf(stderr, "not \"%s\": %s\n", order->message,
                    tarn_error_last()->message);
        places[order->place] = answer->untouched ? NULL : out;
    } else if (order->step == CHECK_BYTES)
        answer->wrong = wrong_bytes(places[order->place], order->seed);
    else if (order->step == CLOSE) {
        tarn_pointer_release(places[order->place]);
        places[order->place] = NULL;
    }
}

static void import(int line)
{
    tarn_pointer *places[8] = {NULL};
    struct step_order order;

    while (receive_message(line, &order, sizeof order)) {
        struct step_answer answer = {.status = TARN_OK};
        follow(places, &order, &answer);
        if (!send_message(line, &answer, sizeof answer))
            break;
    }
    for (int i = 0; i < 8; i++)
        tarn_pointer_release(places[i]);
    check_nothing_open();
}

static struct step_answer step(const struct process *importer, struct step_order order)
{
    struct step_answer answer;

    must_send(importer->line, &order, sizeof order);
    must_receive(importer->line, &answer, sizeof answer);
    return answer;
}

static void open_at(const struct process *importer, int place,
                    const tarn_ipc_handle *handle)
{
    struct step_answer answer = step(
        importer, (struct step_order){.step = OPEN, .place = place, .handle = *handle});

    CHECK_EQUAL(TARN_OK, answer.status);
}

static void cannot_open(const struct process *importer, const tarn_ipc_handle *handle,
                        const char *message)
{
    struct step_order order = {.step = OPEN, .place = 7, .handle = *handle};

    snprintf(order.message, sizeof order.message, "%s", message);
    struct step_answer answer = step(importer, order);
    CHECK_EQUAL(TARN_NOT_FOUND, answer.status);
    CHECK(answer.says);
    CHECK(answer.untouched);
}

static size_t wrong_there(const struct process *importer, int place, unsigned seed)
{
    return step(importer,
                (struct step_order){.step = CHECK_BYTES, .place = place, .seed = seed})
        .wrong;
}

static void close_at(const struct process *importer, int place)
{
    step(importer, (struct step_order){.step = CLOSE, .place = place});
}

/* The owner's thread notices an end a little later. */
static void wait_for_leases(const struct process *owner, size_t wanted)
{
    while (counts_of(owner->line).leases != wanted)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* --- the tests, for each kind of memory --- */

static void for_each_source(void (*body)(struct process *owner))
{
    for (int source = 0; source < SOURCES; source++) {
        socket_directory_begin();
        struct process owner = process_start(owners[source]);
        body(&owner);
        process_end(&owner);
        socket_directory_end();
    }
}

static void free_while_leased(struct process *owner)
{
    struct process importer = process_start(import), late = process_start(import);

    allocate(owner->line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner->line, 0, 0, MIB, TARN_IPC_SERVED);
    open_at(&importer, 0, &handle);
    CHECK_EQUAL(1, counts_of(owner->line).leases);
    free_block(owner->line, 0);
    for (int i = 1; i < 20; i++) /* were it free, one of these would lie there */
        allocate(owner->line, i, MIB, 100);
    CHECK_EQUAL(0, wrong_there(&importer, 0, 1));
    CHECK_EQUAL(0, counts_of(owner->line).rejected);
    cannot_open(&late, &handle, "freed");
    CHECK_EQUAL(1, counts_of(owner->line).rejected);
    open_at(&importer, 1, &handle); /* the process with a lease may continue as before */
    close_at(&importer, 0);
    CHECK_EQUAL(0, wrong_there(&importer, 1, 1));
    close_at(&importer, 1);
    wait_for_leases(owner, 0);
    cannot_open(&importer, &handle, "freed");
    for (int i = 20; i < 24; i++)
        allocate(owner->line, i, MIB, 100);
    cannot_open(&importer, &handle, "freed");
    process_end(&importer);
    process_end(&late);
}

TEST(a_block_that_was_freed_stays_while_it_is_leased_and_is_not_leased_again)
{
    for_each_source(free_while_leased);
}

static void kill_the_importer(struct process *owner)
{
    struct process importer = process_start(import);

    allocate(owner->line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner->line, 0, 0, MIB, TARN_IPC_SERVED);
    open_at(&importer, 0, &handle);
    free_block(owner->line, 0);
    process_kill(&importer);
    wait_for_leases(owner, 0);
    CHECK_EQUAL(0, counts_of(owner->line).served);
    CHECK_EQUAL(0, counts_of(owner->line).connections);
    allocate(owner->line, 1, MIB, 2);
    CHECK_EQUAL(0, verify(owner->line, 1, 2));
}

TEST(a_lease_ends_with_the_process_that_has_it)
{
    for_each_source(kill_the_importer);
}

static void keep_without_a_lease(struct process *owner)
{
    struct process importer = process_start(import);

    allocate(owner->line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner->line, 0, 256, 1000, TARN_IPC_SERVED);
    CHECK_EQUAL(1, counts_of(owner->line).served);
    open_at(&importer, 0, &handle);
    CHECK_EQUAL(0, wrong_there(&importer, 0, letter(256, 1)));
    close_at(&importer, 0);
    wait_for_leases(owner, 0);
    CHECK_EQUAL(0, verify(owner->line, 0, 1));
    open_at(&importer, 1, &handle); /* the owner still has it: any number of times */
    close_at(&importer, 1);
    free_block(owner->line, 0);
    wait_for_leases(owner, 0);
    CHECK_EQUAL(0, counts_of(owner->line).served); /* the handle alone keeps no memory */
    cannot_open(&importer, &handle, "freed");
    process_end(&importer);
}

TEST(a_served_handle_alone_keeps_nothing)
{
    for_each_source(keep_without_a_lease);
}

static void two_importers(struct process *owner)
{
    struct process one = process_start(import), other = process_start(import);

    allocate(owner->line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner->line, 0, 0, MIB, TARN_IPC_SERVED);
    tarn_ipc_handle again = export_block(owner->line, 0, 10, 10, TARN_IPC_SERVED);
    CHECK(memcmp(handle.reserved, again.reserved, sizeof handle.reserved) == 0);
    open_at(&one, 0, &handle);
    open_at(&one, 1, &handle); /* the same lease */
    open_at(&one, 2, &again);
    CHECK_EQUAL(1, counts_of(owner->line).leases);
    open_at(&other, 0, &handle);
    struct answer answer = tell(owner->line, (struct order){.verb = COUNTS});
    CHECK_EQUAL(2, answer.leases);
    CHECK_EQUAL(MIB, answer.lease.bytes);
    CHECK(answer.lease.address != 0);
    CHECK(answer.lease.process == one.pid || answer.lease.process == other.pid);
    free_block(owner->line, 0);
    process_kill(&one);
    wait_for_leases(owner, 1);
    CHECK_EQUAL(0, wrong_there(&other, 0, 1));
    process_end(&other);
    wait_for_leases(owner, 0);
}

TEST(each_process_has_a_lease_of_its_own)
{
    for_each_source(two_importers);
}

static void kill_the_owner(enum source source)
{
    socket_directory_begin();
    struct process owner = process_start(owners[source]);
    struct process importer = process_start(import);
    allocate(owner.line, 0, MIB, 1);
    tarn_ipc_handle served = export_block(owner.line, 0, 0, MIB, TARN_IPC_SERVED);
    tarn_ipc_handle plain = export_block(owner.line, 0, 0, MIB, TARN_IPC_PLAIN);
    open_at(&importer, 0, &served);
    process_kill(&owner);
    CHECK_EQUAL(0, wrong_there(&importer, 0, 1)); /* open memory stays */
    cannot_open(&importer, &served, "has ended");
    close_at(&importer, 0);
    cannot_open(&importer, &served, "has ended");
    cannot_open(&importer, &plain, "ended");
    /* A process that starts a server now removes the dead one's socket. */
    struct process next = process_start(own_exportable);
    allocate(next.line, 0, MIB, 1);
    export_block(next.line, 0, 0, MIB, TARN_IPC_SERVED);
    process_end(&next);
    process_end(&importer);
    socket_directory_end();
}

TEST(an_open_block_outlives_its_owner_and_is_not_opened_again)
{
    kill_the_owner(FROM_EXPORTABLE);
    kill_the_owner(FROM_CUDA);
    kill_the_owner(FROM_ASYNC);
}

/* Under a limit of 0, as sandboxes set it, poll() fails. */
static void open_without_descriptors(struct process *owner)
{
    const struct rlimit none = {0, 1024}, some = {1024, 1024};
    struct process importer = process_start(import);

    allocate(owner->line, 0, MIB, 1);
    tarn_ipc_handle handle = export_block(owner->line, 0, 0, MIB, TARN_IPC_SERVED);
    open_at(&importer, 0, &handle);
    CHECK_EQUAL(0, prlimit(importer.pid, RLIMIT_NOFILE, &none, NULL));
    open_at(&importer, 1, &handle);
    CHECK_EQUAL(0, wrong_there(&importer, 1, 1));
    CHECK_EQUAL(0, prlimit(importer.pid, RLIMIT_NOFILE, &some, NULL)); /* for LSan */
    process_end(&importer);
}

TEST(an_importer_that_may_open_no_descriptor_opens_a_leased_block_again)
{
    if (!has_sim()) /* a real driver needs descriptors itself */
        skip();
    for_each_source(open_without_descriptors);
}
