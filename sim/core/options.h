/* options.h -- the options of TARN_SIM and tarn_sim_configure(). One table defines the
 * parser, the error message and (a test compares them) docs/sim.md. */
#ifndef TARN_SIM_OPTIONS_H
#define TARN_SIM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_DEVICES_MAX = 16, SIM_CALL_NAME_MAX = 64 };

enum sim_fabric { SIM_FABRIC_OFF, SIM_FABRIC_ON, SIM_FABRIC_NO_CHANNEL };
enum sim_dma_buf { SIM_DMA_BUF_OFF, SIM_DMA_BUF_ON, SIM_DMA_BUF_PCIE };

struct sim_options {
    uint64_t devices;
    uint64_t memory_bytes; /* per device */
    bool is_seeded;
    uint64_t seed;
    uint64_t latency_min_ns, latency_max_ns; /* of simulated time */
    uint64_t patience_ms;                    /* of real time */
    uint64_t fail_nth;                       /* 0: none, as in all fields below */
    char fail_call[SIM_CALL_NAME_MAX];       /* "": none; without the version */
    uint64_t fail_call_nth;                  /* 0: all of them */
    uint64_t fail_one_in;                    /* calls */
    /* the first call that finds the device lost */
    uint64_t lost_at;
    uint64_t lost_code;                /* a CUresult */
    char slow_call[SIM_CALL_NAME_MAX]; /* "*": all */
    uint64_t slow_ns;
    uint64_t host_memory_nth;
    bool dead_is_error; /* otherwise it aborts */
    bool finds_races;
    bool ignores_launches;  /* of kernels; otherwise they fail */
    bool has_no_peers;      /* no device can access another device's memory */
    enum sim_fabric fabric; /* fabric handles */
    uint64_t node;          /* the node of this process among those of the fabric */
    enum sim_dma_buf dma_buf;
    uint64_t attribute;       /* a device attribute with another value; 0: none */
    uint64_t attribute_value; /* that value */
};

/* The current options. Read them under the lock. */
extern struct sim_options sim_options;

/* X(name, value syntax, parser, default, meaning) */
/* clang-format off */
#define SIM_OPTIONS(X) \
    X(devices, "1..16", parse_devices, "2", \
      "number of devices; can change only before cuInit") \
    X(memory, "BYTES with KiB, MiB, GiB, TiB", parse_memory, "8GiB", \
      "memory of each device, from 2MiB to 8TiB in steps of 2MiB") \
    X(mode, "eager or seeded", parse_mode, "eager", \
      "eager: threads do queued work in real time; seeded: one scheduler, the same run for the same seed and calls") \
    X(seed, "N", parse_seed, "0", \
      "seed of the seeded mode and of fail=one-in") \
    X(latency, "MIN-MAX", parse_latency, "1000-100000", \
      "simulated ns that an operation takes in the seeded mode") \
    X(patience, "MS", parse_patience, "200", \
      "real ms after which the seeded mode continues without a host function that has not returned") \
    X(fail, "nth:N or one-in:K or call:NAME or call:NAME:N", parse_fail, "", \
      "the N-th call from now on fails, or one in K, or (the N-th of) all calls of one name, without any effect; can be repeated") \
    X(lost, "N", parse_lost, "0", \
      "the device is lost at the N-th call from now on, which fails with all later calls; 0: never") \
    X(lost-code, "NUMBER", parse_lost_code, "700", \
      "the CUresult of calls to a lost device") \
    X(slow, "NAME:NS or *:NS", parse_slow, "", \
      "calls of that name take so many ns longer, simulated ns in the seeded mode") \
    X(host-memory, "fail:N", parse_host_memory, "", \
      "the N-th host allocation of the simulator from now on fails") \
    X(dead, "abort or error", parse_dead, "abort", \
      "a call with a destroyed or unknown stream aborts, like the real driver, or returns CUDA_ERROR_INVALID_HANDLE and is counted") \
    X(launches, "fail or ignore", parse_launches, "fail", \
      "a launch of a kernel fails, or does nothing and makes the memory in its arguments unknown") \
    X(races, "on or off", parse_races, "off", \
      "report unordered operations on the same bytes") \
    X(peers, "on or off", parse_peers, "on", \
      "whether a device can access the memory of another one") \
    X(fabric, "off, on or no-channel", parse_fabric, "off", \
      "fabric handles: the device has none, they work, or the process has no IMEX channel for them") \
    X(node, "0..9", parse_node, "0", \
      "the node of this process: the devices of each node have other UUIDs; can change only before cuInit") \
    X(dma-buf, "off, on or pcie", parse_dma_buf, "on", \
      "whether cuMemGetHandleForAddressRange works, and with pcie also for mappings over PCIe") \
    X(attribute, "NUMBER:VALUE", parse_attribute, "", \
      "the value that cuDeviceGetAttribute returns for that attribute; nothing else changes")
/* clang-format on */

/* Parse `text` (NULL is "") over the defaults. False: `message` has the error message
 * with the allowed values, and `out` is unchanged. */
bool sim_options_parse(const char *text, struct sim_options *out, char *message,
                       size_t message_bytes);

/* Return true if `call`, a symbol such as cuMemAlloc_v2, is a version of the call
 * `name`, which an option has. */
bool sim_options_is_call(const char *call, const char *name);

#endif
