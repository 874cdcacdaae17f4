/* cmd_info.c -- `tarn info`: the loaded driver, and the features that work with it. */
#include "tool.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIAL_BYTES = 1 << 20 };

/* A trial of a resource: whether it works here. */
struct trial {
    bool works;
    bool streams, memory_info, deallocate_synchronizes;
    char message[sizeof tarn_error_last()->message]; /* why it does not work */
};

static tarn_status free_block(tarn_resource *resource, tarn_device_ptr block)
{
    return tarn_resource_deallocate(resource, block, TRIAL_BYTES, 0, TARN_STREAM_DEFAULT);
}

/* Allocate and free once. A free that fails is retried; otherwise the resource could not
 * be released.
 */
static tarn_status use(tarn_resource *resource)
{
    tarn_device_ptr block;
    tarn_status status =
        tarn_resource_allocate(resource, TRIAL_BYTES, 0, TARN_STREAM_DEFAULT, &block);

    if (status != TARN_OK)
        return status;
    status = free_block(resource, block);
    if (status != TARN_OK)
        free_block(resource, block);
    return status;
}

static struct trial try_resource(const struct resource_kind *kind, int device)
{
    struct trial trial = {.works = false};
    tarn_resource *resource = NULL;

    if (kind->create(device, &resource) == TARN_OK && use(resource) == TARN_OK) {
        trial.works = true;
        trial.streams = tarn_resource_supports_streams(resource);
        trial.memory_info = tarn_resource_supports_memory_info(resource);
        trial.deallocate_synchronizes = tarn_resource_deallocate_synchronizes(resource);
    } else {
        snprintf(trial.message, sizeof trial.message, "%s", tarn_error_last()->message);
    }
    tarn_resource_release(resource);
    return trial;
}

static void print_resources(int device)
{
    printf("  %-9s %-6s %-8s %-12s %s\n", "resource", "works", "streams", "memory info",
           "free synchronizes");
    for (const struct resource_kind *kind = resource_kinds; kind->name; kind++) {
        struct trial trial = try_resource(kind, device);
        if (trial.works) {
            printf("  %-9s %-6s %-8s %-12s %s\n", kind->name, "yes",
                   trial.streams ? "yes" : "no", trial.memory_info ? "yes" : "no",
                   trial.deallocate_synchronizes ? "yes" : "no");
            continue;
        }
        printf("  %-9s %-6s ", kind->name, "no");
        print_text(stdout, trial.message);
        putchar('\n');
    }
}

static void print_device(int number, const tarn_device_info *device)
{
    printf("\ndevice %d: ", number);
    print_text(stdout, device->name);
    printf(", compute %d.%d, %s\n", device->compute_major, device->compute_minor,
           device->uuid);
    printf("  memory %s, %s free\n", bytes_text(device->total_bytes).text,
           bytes_text(device->free_bytes).text);
    printf(
        "  memory pools %s, virtual memory %s, managed %s, host mapping %s, legacy IPC "
        "%s\n",
        device->has_memory_pools ? "yes" : "no", device->has_vmm ? "yes" : "no",
        device->has_managed ? "yes" : "no", device->has_host_mapping ? "yes" : "no",
        device->has_legacy_ipc ? "yes" : "no");
    printf("  exportable memory: RDMA %s, dma-buf %s, fabric handles %s\n",
           device->has_rdma ? "yes" : "no", device->has_dma_buf ? "yes" : "no",
           device->has_fabric ? "yes" : "no");
    print_resources(number);
}

/* Find the metadata of another project's Python distribution `tarn`, which installs into
 * the folder of this one (python/tarn/_clash.py has the details). "": there is none, or
 * libtarn does not lie in a Python package. */
static void find_other_distribution(char name[PATH_BYTES])
{
    char path[PATH_BYTES];
    struct dirent *entry;
    DIR *directory = NULL;

    name[0] = '\0';
    if (beside_libtarn("../__init__.py", path) && access(path, F_OK) == 0 &&
        beside_libtarn("../..", path))
        directory = opendir(path);
    while (directory && !name[0] && (entry = readdir(directory)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        if (strncmp(entry->d_name, "tarn-", 5) == 0 && end &&
            (strcmp(end, ".dist-info") == 0 || strcmp(end, ".egg-info") == 0))
            snprintf(name, PATH_BYTES, "%s", entry->d_name);
    }
    if (directory)
        closedir(directory);
}

static void warn_of_other_distribution(void)
{
    char name[PATH_BYTES];

    find_other_distribution(name);
    if (name[0])
        failed(
            &verb_info,
            "warning: %s is another Python distribution that installs into the folder of "
            "tarn-gpu; run `pip uninstall tarn tarn-gpu`, then `pip install tarn-gpu`",
            name);
}

static int print_all(const tarn_driver_info *driver, const tarn_device_info *devices)
{
    printf("tarn %s\ndriver ", tarn_version());
    print_text(stdout, driver->path);
    printf(", for CUDA %d.%d%s\n", driver->version / 1000, driver->version % 1000 / 10,
           driver->is_simulator ? ", the driver simulator: kernels do not run" : "");
    for (int i = 0; i < driver->device_count; i++)
        print_device(i, &devices[i]);
    return 0;
}

static void write_resources(struct json *out, int device)
{
    json_open(out, "resources", '{');
    for (const struct resource_kind *kind = resource_kinds; kind->name; kind++) {
        struct trial trial = try_resource(kind, device);
        json_open(out, kind->name, '{');
        json_bool(out, "works", trial.works);
        if (trial.works) {
            json_bool(out, "streams", trial.streams);
            json_bool(out, "memory_info", trial.memory_info);
            json_bool(out, "deallocate_synchronizes", trial.deallocate_synchronizes);
        } else {
            json_text(out, "message", trial.message);
        }
        json_close(out, '}');
    }
    json_close(out, '}');
}

static void write_device(struct json *out, int number, const tarn_device_info *device)
{
    json_open(out, NULL, '{');
    json_number(out, "number", (uint64_t)number);
    json_text(out, "name", device->name);
    json_text(out, "uuid", device->uuid);
    json_number(out, "compute_major", (uint64_t)device->compute_major);
    json_number(out, "compute_minor", (uint64_t)device->compute_minor);
    json_number(out, "total_bytes", device->total_bytes);
    json_number(out, "free_bytes", device->free_bytes);
    json_bool(out, "memory_pools", device->has_memory_pools);
    json_bool(out, "vmm", device->has_vmm);
    json_bool(out, "managed", device->has_managed);
    json_bool(out, "host_mapping", device->has_host_mapping);
    json_bool(out, "legacy_ipc", device->has_legacy_ipc);
    json_bool(out, "concurrent_managed", device->has_concurrent_managed);
    json_bool(out, "rdma", device->has_rdma);
    json_bool(out, "dma_buf", device->has_dma_buf);
    json_bool(out, "fabric", device->has_fabric);
    write_resources(out, number);
    json_close(out, '}');
}

static int write_all(const tarn_driver_info *driver, const tarn_device_info *devices)
{
    struct json out = {.file = stdout};

    json_open(&out, NULL, '{');
    json_text(&out, "tarn", tarn_version());
    json_text(&out, "driver", driver->path);
    json_number(&out, "driver_version", (uint64_t)driver->version);
    json_bool(&out, "is_simulator", driver->is_simulator);
    json_open(&out, "devices", '[');
    for (int i = 0; i < driver->device_count; i++)
        write_device(&out, i, &devices[i]);
    json_close(&out, ']');
    json_close(&out, '}');
    return 0;
}

/* Without a driver Numba fails with `CUDA driver library cannot be found`. */
static void advise_simulator(void)
{
    fputs("Without a GPU a program runs on the driver simulator, except for kernels:\n"
          "    tarn sim -- COMMAND\n",
          stderr);
}

/* Query first and print then, so that a failure prints nothing else. */
static int print_info(const char *path, bool json)
{
    tarn_driver_info driver;
    tarn_status status = tarn_driver_open(path);

    if (status == TARN_OK)
        status = tarn_driver_get_info(&driver);
    if (status != TARN_OK) {
        failed_with_last_error(&verb_info);
        if (status == TARN_NO_DRIVER && !path)
            advise_simulator();
        return FAILED;
    }
    tarn_device_info *devices = calloc((size_t)driver.device_count, sizeof *devices);
    if (!devices)
        return failed(&verb_info, "no host memory for %d devices", driver.device_count);
    for (int i = 0; i < driver.device_count && status == TARN_OK; i++)
        status = tarn_driver_device_info(i, &devices[i]);
    int code;
    if (status != TARN_OK)
        code = failed_with_last_error(&verb_info);
    else
        code = json ? write_all(&driver, devices) : print_all(&driver, devices);
    free(devices);
    return code;
}

struct job {
    const char *driver; /* NULL: as the environment specifies */
    bool json;
};

static int take_option(void *data, int option)
{
    struct job *job = data;

    if (option == 'd')
        job->driver = optarg;
    else
        job->json = true;
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"driver", required_argument, NULL, 'd'},
                                            {"json", no_argument, NULL, 'j'},
                                            HELP_OPTION,
                                            LAST_OPTION};
    struct job job = {.driver = NULL};
    int code = take_options(&verb_info, argc, argv, options, false, take_option, &job);

    if (code != GO_ON)
        return code;
    if (optind != argc)
        return wrong_use(&verb_info, "unexpected argument %s", argv[optind]);
    warn_of_other_distribution();
    return print_info(job.driver, job.json);
}

const struct verb verb_info = {
    "info", "prints the driver, the devices and the resources that work",
    "info [--driver sim|PATH] [--json]",
    "Prints the driver that Tarn finds, its devices with their memory, and for each\n"
    "resource whether it works on this device, tested with one allocation.\n"
    "\n"
    "  --driver WHICH  path of the driver library, or sim for the driver simulator\n"
    "  --json          print the same as JSON\n",
    run};
