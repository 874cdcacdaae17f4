/* binary_process.c -- the header of a binary log, and the process that wrote it. */
#include "trace/binary_process.h"

enum { GPUS_MAX = 64 };

static tarn_status damaged(const struct tarn__input *input)
{
    return tarn_error_set(TARN_BAD_FORMAT,
                          "%.200s: the header of the binary log is damaged", input->name);
}

static tarn_status check(const struct tarn__input *input,
                         const struct tarn__binary_header *header, const char *text)
{
    if (header->major != TARN__BINARY_MAJOR)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: a binary log of version %u.%u; this Tarn reads "
                              "version %u",
                              input->name, header->major, header->minor,
                              (unsigned)TARN__BINARY_MAJOR);
    if (header->text_bytes > TARN__BINARY_HEADER_BYTES - sizeof *header)
        return damaged(input);
    uint32_t crc = tarn__binary_crc(0, header, offsetof(struct tarn__binary_header, crc));
    if (header->crc != tarn__binary_crc(crc, text, header->text_bytes))
        return damaged(input);
    if (header->chunk_bytes > TARN__BINARY_CHUNK_BYTES_MAX ||
        header->chunk_bytes % sizeof(uint64_t) != 0 ||
        header->chunk_bytes <
            sizeof(struct tarn__binary_chunk) + sizeof(struct tarn__binary_row))
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: a binary log with chunks of %u bytes", input->name,
                              header->chunk_bytes);
    return TARN_OK;
}

/* The number behind "gpu" in a key; GPUS_MAX: it is no key of a GPU. */
static unsigned gpu_of(const char *key)
{
    unsigned number = 0;

    if (strncmp(key, "gpu", 3) != 0 || !key[3])
        return GPUS_MAX;
    for (key += 3; *key >= '0' && *key <= '9' && number < GPUS_MAX; key++)
        number = 10 * number + (unsigned)(*key - '0');
    return *key ? GPUS_MAX : number;
}

/* Enter a pair of the text into the process. */
static void take_pair(tarn_trace_process *process, const char **gpus, const char *key,
                      const char *value)
{
    const struct {
        const char *key, **member;
    } members[] = {{"host", &process->host},
                   {"command", &process->command},
                   {"tarn", &process->tarn},
                   {"driver", &process->driver}};
    unsigned gpu = gpu_of(key);

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (strcmp(key, members[i].key) == 0)
            *members[i].member = value;
    if (gpu >= GPUS_MAX)
        return;
    gpus[gpu] = value;
    if (gpu >= process->gpu_count)
        process->gpu_count = gpu + 1;
}

/* Pass on the process of a header; `text` has a NUL behind it. */
static tarn_status deliver(const struct tarn__delivery *delivery,
                           const struct tarn__binary_header *header, const char *text)
{
    const char *gpus[GPUS_MAX], *end = text + header->text_bytes;
    tarn_trace_process process = {
        .size = sizeof process,
        .pid = header->pid,
        .parent_pid = header->parent_pid,
        .start_unix_ns = header->start_unix_ns,
        .stack_depth = header->stack_depth,
        .is_ring = header->ring_chunks != 0,
        .host = "",
        .command = "",
        .tarn = "",
        .driver = "",
        .gpus = gpus,
    };

    for (unsigned i = 0; i < GPUS_MAX; i++)
        gpus[i] = "";
    while (text < end) {
        const char *value = text + strlen(text) + 1;
        if (value >= end)
            break;
        take_pair(&process, gpus, text, value);
        text = value + strlen(value) + 1;
    }
    return tarn__delivery_process(delivery, &process);
}

tarn_status tarn__binary_process_read(struct tarn__input *input,
                                      const struct tarn__delivery *delivery,
                                      struct tarn__binary_header *out)
{
    char bytes[TARN__BINARY_HEADER_BYTES + 1];
    size_t got;
    tarn_status status = tarn__input_take(input, bytes, sizeof bytes - 1, &got);

    if (status != TARN_OK)
        return status;
    if (got < sizeof bytes - 1)
        return tarn_error_set(TARN_BAD_FORMAT,
                              "%.200s: a binary log that ends inside its header, after "
                              "%zu bytes",
                              input->name, got);
    bytes[sizeof bytes - 1] = 0;
    memcpy(out, bytes, sizeof *out);
    status = check(input, out, bytes + sizeof *out);
    if (status != TARN_OK)
        return status;
    bytes[sizeof *out + out->text_bytes] = 0;
    return deliver(delivery, out, bytes + sizeof *out);
}
