/* sites.c -- hold times of the pool's locks. */
#define _GNU_SOURCE
#include "sites.h"
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SITES_MAX = 4096, CHAIN = 4096, NAME = 160 };

/* One pair of an operation and a site. */
struct site {
    const char *operation;
    void *code;
    uint64_t *shortest; /* ns of each hold, the shortest of the rounds */
    size_t holds, capacity;
    size_t round_holds;     /* of this round so far */
    uint64_t round_longest; /* ns */
    uint64_t least_longest; /* the smallest `round_longest`; 0: no round has ended */
    bool is_uneven;         /* the rounds have different numbers of holds */
    uint64_t longest;       /* ns, of all rounds: see sum_up() */
    char lock[16], name[NAME];
};

static struct site sites[SITES_MAX];
static const char *now = "start";
static unsigned long long lost;
static unsigned rounds;
static atomic_flag busy = ATOMIC_FLAG_INIT;

static uint64_t cpu_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Find the entry, or the empty one for it; NULL: the table is full. */
static struct site *find(const char *operation, void *code)
{
    uint64_t key = ((uint64_t)(uintptr_t)code ^ (uint64_t)(uintptr_t)operation << 7) *
                   0x9e3779b97f4a7c15u;

    for (size_t i = 0; i < SITES_MAX; i++) {
        struct site *site = &sites[((key >> 40) + i) % SITES_MAX];
        if (!site->code || (site->code == code && site->operation == operation))
            return site;
    }
    return NULL;
}

void tarn__lock_taken(uint64_t *taken_ns, void **code)
{
    *code = __builtin_return_address(0);
    *taken_ns = cpu_ns();
}

/* Add the next hold of the round: it does the same work as that hold of other rounds. */
static void add(struct site *site, uint64_t held)
{
    size_t which = site->round_holds++;

    if (site->round_longest < held)
        site->round_longest = held;
    if (which < site->holds) {
        if (held < site->shortest[which])
            site->shortest[which] = held;
        return;
    }
    if (site->holds == site->capacity) {
        site->capacity = site->capacity ? 2 * site->capacity : 64;
        site->shortest = realloc(site->shortest, site->capacity * sizeof *site->shortest);
        if (!site->shortest)
            abort();
    }
    site->shortest[site->holds++] = held;
}

void tarn__lock_released(uint64_t taken_ns, void *code)
{
    uint64_t held = cpu_ns() - taken_ns;

    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        ;
    struct site *site = find(now, code);
    if (site) {
        site->code = code;
        site->operation = now;
        add(site, held);
    } else {
        lost++;
    }
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

void bench_sites_operation(const char *operation)
{
    now = operation;
}

static void end_round(void)
{
    for (size_t i = 0; i < SITES_MAX; i++) {
        struct site *site = &sites[i];
        if (rounds == 0 || !site->code)
            continue;
        site->is_uneven |=
            site->round_holds != site->holds || (rounds > 1 && !site->least_longest);
        if (site->round_holds > 0 &&
            (!site->least_longest || site->round_longest < site->least_longest))
            site->least_longest = site->round_longest;
        site->round_longest = site->round_holds = 0;
    }
    rounds++;
}

void bench_sites_begin(void)
{
    end_round();
}

/* Set the longest hold of a site. Where each round has the same holds, each hold counts
 * as in the round where it was the shortest. */
static void sum_up(struct site *site)
{
    site->longest = site->is_uneven ? site->least_longest : 0;
    for (size_t i = 0; !site->is_uneven && i < site->holds; i++)
        if (site->shortest[i] > site->longest)
            site->longest = site->shortest[i];
}

static unsigned long long over(const struct site *site, double aim_us)
{
    unsigned long long count = 0;

    for (size_t i = 0; i < site->holds; i++)
        count += (double)site->shortest[i] > aim_us * 1e3;
    return count;
}

/* --- names -------------------------------------------------------------------------- */

static int first_object(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(uintptr_t *)data = info->dlpi_addr;
    return 1; /* the program comes first */
}

/* Set the names of the lock and of the function from the functions that were inlined at
 * the site, the innermost first: "tarn__lock_take", "tarn__pool_lock", "allocate". */
static void set_names(struct site *site, FILE *chain)
{
    char line[NAME];
    int number = 0;

    strcpy(site->lock, "cache");
    while (fgets(line, sizeof line, chain)) {
        line[strcspn(line, "\n")] = '\0';
        if (number++ % 2 == 1) /* the file and the line */
            continue;
        bool wrapper = strcmp(line, "tarn__pool_lock") == 0 ||
                       strcmp(line, "tarn__pool_relock") == 0;
        if (wrapper || strcmp(line, "tarn__pool_lock_if_possible") == 0)
            strcpy(site->lock, "heap");
        if (!wrapper && strncmp(line, "tarn__lock_", strlen("tarn__lock_")) != 0 &&
            !site->name[0])
            snprintf(site->name, sizeof site->name, "%s", line);
    }
}

static void name(struct site *site)
{
    char command[CHAIN], self[CHAIN / 2];
    uintptr_t base = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    self[length > 0 ? length : 0] = '\0';
    dl_iterate_phdr(first_object, &base);
    snprintf(command, sizeof command, "addr2line -f -i -e '%s' %#zx", self,
             (size_t)((uintptr_t)site->code - 1 - base));
    FILE *chain = popen(command, "r");
    if (chain) {
        set_names(site, chain);
        pclose(chain);
    }
    if (!site->name[0])
        snprintf(site->name, sizeof site->name, "%p", site->code);
}

/* --- the table ---------------------------------------------------------------------- */

static int by_operation_and_time(const void *left, const void *right)
{
    const struct site *a = left, *b = right;
    int order =
        strcmp(a->operation ? a->operation : "~", b->operation ? b->operation : "~");

    if (order != 0)
        return order;
    return a->longest > b->longest ? -1 : a->longest < b->longest;
}

static double machine_us(void)
{
    uint64_t longest = 0;

    for (size_t i = 0; i < SITES_MAX; i++)
        if (sites[i].operation && strcmp(sites[i].operation, BENCH_SITES_NOTHING) == 0 &&
            sites[i].longest > longest)
            longest = sites[i].longest;
    return (double)longest / 1e3;
}

bool bench_sites_print(double least_us, double most_us)
{
    const char *last = NULL;
    bool good = true;

    double aim_us = most_us;

    end_round();
    for (size_t i = 0; i < SITES_MAX; i++)
        sum_up(&sites[i]);
    double part = machine_us();
    printf("the machine's part: %.1f us\n", part);
    most_us = most_us > 2 * part ? most_us : 2 * part;
    qsort(sites, SITES_MAX, sizeof *sites, by_operation_and_time);
    printf("%-26s %-6s %10s %10s %10s  %s\n", "operation", "lock", "longest us", "holds",
           "over aim", "site");
    for (size_t i = 0; i < SITES_MAX && sites[i].operation; i++) {
        struct site *site = &sites[i];
        double us = (double)site->longest / 1e3;
        bool first = last != site->operation;
        good = good && us <= most_us;
        last = site->operation;
        if (!first && us < least_us)
            continue;
        name(site);
        printf("%-26s %-6s %10.1f %10zu %10llu  %s%s\n", site->operation, site->lock, us,
               site->holds, over(site, aim_us), site->name,
               us > most_us ? "  <-- over" : "");
    }
    if (lost)
        printf("%llu holds were not recorded: the table is full\n", lost);
    return good;
}
