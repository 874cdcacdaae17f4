/* cmd_sim.c -- `tarn sim`: run any program on the driver simulator. */
#define _GNU_SOURCE
#include "launch.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The options of the simulator: all of its table, sim/core/options.h. */
static const char *const names[] = {
    "attribute", "dead",     "devices", "dma-buf",   "fabric", "fail", "host-memory",
    "latency",   "launches", "lost",    "lost-code", "memory", "mode", "node",
    "patience",  "peers",    "races",   "seed",      "slow",
};
enum { NAMES = sizeof names / sizeof *names, FIRST_NAME = 256 };

/* TARN_SIM with the options so far; NULL: none were given. */
struct options {
    char *text;
};

static bool has_more(const char *text)
{
    return strpbrk(text, ",=") != NULL;
}

/* Put an option behind the others: the last one counts. */
static int take_option(void *data, int option)
{
    struct options *options = data;
    const char *name = names[option - FIRST_NAME];
    const char *before = options->text ? options->text : getenv("TARN_SIM");
    bool has_before = before && *before;
    char *text;

    if (!*optarg || has_more(optarg))
        return wrong_use(&verb_sim, "--%s %s is not one value", name, optarg);
    if (asprintf(&text, "%s%s%s=%s", has_before ? before : "", has_before ? "," : "",
                 name, optarg) < 0)
        return failed(&verb_sim, "no host memory for TARN_SIM");
    free(options->text);
    options->text = text;
    return 0;
}

static int set_options(struct options *options)
{
    int code = options->text ? launch_set(&verb_sim, "TARN_SIM", options->text) : 0;

    free(options->text);
    return code;
}

static int run(int argc, char **argv)
{
    struct option table[NAMES + 2] = {{0}};
    struct options options = {NULL};

    for (int i = 0; i < NAMES; i++)
        table[i] = (struct option){names[i], required_argument, NULL, FIRST_NAME + i};
    table[NAMES] = (struct option)HELP_OPTION;
    int code = take_options(&verb_sim, argc, argv, table, true, take_option, &options);
    if (code == GO_ON && optind == argc)
        code = wrong_use(&verb_sim, "a program is required");
    if (code != GO_ON) {
        free(options.text);
        return code;
    }
    code = launch_check(&verb_sim, argv + optind);
    if (code == 0)
        code = launch_driver(&verb_sim, "sim");
    int set = set_options(&options);
    code = code ? code : set;
    unsetenv("CUDA_VISIBLE_DEVICES"); /* it names devices of a GPU machine */
    return code ? code : launch_exec(&verb_sim, argv + optind);
}

const struct verb verb_sim = {
    "sim", "runs a program on the driver simulator, without a GPU",
    "sim [OPTIONS] [--] COMMAND [ARGS...]",
    "Runs COMMAND unchanged, with Tarn's driver simulator in place of libcuda.so.1.\n"
    "COMMAND may use Numba, cuda.core, cuda.bindings or any other client of\n"
    "libcuda.so.1. Kernels do not run: a launch fails.\n"
    "\n"
    "COMMAND is a file *.py, -m MODULE or -c CODE for the Python of Tarn's\n"
    "installation, or any program. Its frameworks keep their own allocators; with\n"
    "`tarn sim tarn run ...` they allocate from Tarn.\n"
    "\n"
    "  --devices N       number of devices, 1 to 16; 2 by default\n"
    "  --memory SIZE     memory of each device, such as 512MiB; 8GiB by default\n"
    "  --launches ignore a launch of a kernel does nothing, instead of failing\n"
    "  --races on        report operations on the same bytes that nothing orders\n"
    "  --fail WHICH      nth:N, one-in:K, call:NAME or call:NAME:N fails\n"
    "  --mode seeded     one scheduler runs the work, in an order that --seed N chooses\n"
    "\n"
    "More options: --attribute, --dead, --dma-buf, --fabric, --host-memory, --latency,\n"
    "--lost, --lost-code, --node, --patience, --peers, --slow. They have the names and "
    "values of TARN_SIM\n"
    "(docs/sim.md), and come behind it.\n",
    run};
