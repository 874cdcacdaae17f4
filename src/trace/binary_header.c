/* binary_header.c -- the header of a binary log: the process that writes it.
 *
 * A forked child cannot ask the driver. So it uses its parent's text, with its own process
 * ids, and counts time from its parent's time 0.
 */
#define _GNU_SOURCE
#include "trace/binary_header.h"
#include "driver/driver.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <tarn/version.h>
#include <time.h>
#include <unistd.h>

enum { COMMAND_BYTES = 2048 };

/* Append a pair of a key and a value, if there is space. */
static void add(struct tarn__binary_head *head, const char *key, const char *value)
{
    size_t at = head->header.text_bytes;
    size_t bytes = strlen(key) + 1 + strlen(value) + 1;

    if (bytes > sizeof head->text - at)
        return;
    memcpy(head->text + at, key, strlen(key) + 1);
    memcpy(head->text + at + strlen(key) + 1, value, strlen(value) + 1);
    head->header.text_bytes += (uint32_t)bytes;
}

static void add_host(struct tarn__binary_head *head)
{
    char name[256] = "";

    if (gethostname(name, sizeof name - 1) == 0)
        add(head, "host", name);
}

/* Append the command line, with blanks between its words. */
static void add_command(struct tarn__binary_head *head)
{
    char command[COMMAND_BYTES];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t count = file < 0 ? 0 : read(file, command, sizeof command - 1);

    if (file >= 0)
        close(file);
    if (count <= 0)
        return;
    command[count] = 0;
    for (ssize_t i = 0; i + 1 < count; i++)
        if (command[i] == 0)
            command[i] = ' ';
    add(head, "command", command);
}

/* Append the driver's version and the UUIDs, if the driver is open. */
static void add_devices(struct tarn__binary_head *head)
{
    int count = tarn__driver_device_count();
    tarn_driver_info info;
    char text[48], key[16];

    if (count == 0 || tarn__driver_gone())
        return;
    if (tarn_driver_get_info(&info) == TARN_OK) {
        snprintf(text, sizeof text, "%d.%d", info.version / 1000,
                 info.version % 1000 / 10);
        add(head, "driver", text);
    }
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof key, "gpu%d", i);
        if (tarn__device_info_uuid(i, text))
            add(head, key, text);
    }
}

void tarn__binary_header_describe(struct tarn__binary_head *head, uint64_t made_ns)
{
    struct timespec now;

    memset(head, 0, sizeof *head);
    memcpy(head->header.magic, TARN__BINARY_MAGIC, sizeof head->header.magic);
    head->header.major = TARN__BINARY_MAJOR;
    head->header.minor = TARN__BINARY_MINOR;
    head->header.chunk_bytes = TARN__BINARY_CHUNK_BYTES;
    head->header.start_monotonic_ns = made_ns;
    clock_gettime(CLOCK_REALTIME, &now);
    head->header.start_unix_ns =
        (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    add_host(head);
    add_command(head);
    add(head, "tarn", tarn_version());
    add_devices(head);
}

/* A number for the file. Where the kernel gives none, the time and the process do. */
static uint64_t draw_id(void)
{
    struct timespec now;
    uint64_t id = 0;

    if (getrandom(&id, sizeof id, GRND_NONBLOCK) != sizeof id) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        id = tarn__binary_seed((uint64_t)now.tv_nsec, (uint64_t)getpid());
    }
    return id;
}

void tarn__binary_header_begin(struct tarn__binary_head *head)
{
    struct tarn__binary_header *header = &head->header;

    header->id = draw_id();
    header->pid = (uint32_t)getpid();
    header->parent_pid = (uint32_t)getppid();
    header->crc = tarn__binary_crc(
        tarn__binary_crc(0, header, offsetof(struct tarn__binary_header, crc)),
        head->text, header->text_bytes);
}
