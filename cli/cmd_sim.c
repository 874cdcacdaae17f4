/* cmd_sim.c -- `tarn sim`: run any program on the driver simulator. */
#define _GNU_SOURCE
#include "launch.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The options of the simulator, in the order in which it reads them: TARN_SIM. */
struct options {
    const char *memory, *devices; /* NULL: as TARN_SIM specifies, or the default */
};

static bool has_more(const char *text)
{
    return strpbrk(text, ",=") != NULL;
}

/* Put the options behind those of TARN_SIM: the last one counts. */
static int set_options(const struct options *options)
{
    const char *before = getenv("TARN_SIM");
    const char *memory = options->memory, *devices = options->devices;
    bool has_before = before && *before;
    char *value;

    if (!memory && !devices)
        return 0;
    if (asprintf(&value, "%s%s%s%s%s%s%s", has_before ? before : "",
                 has_before ? "," : "", devices ? "devices=" : "", devices ? devices : "",
                 devices && memory ? "," : "", memory ? "memory=" : "",
                 memory ? memory : "") < 0)
        return failed(&verb_sim, "no host memory for TARN_SIM");
    int code = launch_set(&verb_sim, "TARN_SIM", value);
    free(value);
    return code;
}

static int take_option(struct options *options, int option)
{
    const char **place = option == 'm' ? &options->memory : &options->devices;

    if (!*optarg || has_more(optarg))
        return wrong_use(&verb_sim, "--%s %s is not one value",
                         option == 'm' ? "memory" : "devices", optarg);
    *place = optarg;
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct option table[] = {{"memory", required_argument, NULL, 'm'},
                                          {"devices", required_argument, NULL, 'd'},
                                          HELP_OPTION,
                                          LAST_OPTION};
    struct options options = {NULL, NULL};
    int option, code;

    while ((option = next_option(&verb_sim, argc, argv, table, true, &code)) !=
           OPTIONS_END)
        if (option == OPTIONS_STOP || (code = take_option(&options, option)) != 0)
            return code;
    if (optind == argc)
        return wrong_use(&verb_sim, "a program is required");
    code = launch_check(&verb_sim, argv + optind);
    if (code == 0)
        code = launch_driver(&verb_sim, "sim");
    if (code == 0)
        code = set_options(&options);
    unsetenv("CUDA_VISIBLE_DEVICES"); /* it names devices of a GPU machine */
    return code ? code : launch_exec(&verb_sim, argv + optind);
}

const struct verb verb_sim = {
    "sim", "runs a program on the driver simulator, without a GPU",
    "sim [--memory SIZE] [--devices N] [--] COMMAND [ARGS...]",
    "Runs COMMAND unchanged, with Tarn's driver simulator in place of libcuda.so.1.\n"
    "COMMAND may use Numba, cuda.core, cuda.bindings or any other client of\n"
    "libcuda.so.1. Kernels do not run.\n"
    "\n"
    "COMMAND is a file *.py, -m MODULE or -c CODE for the Python of Tarn's\n"
    "installation, or any program. Its frameworks keep their own allocators; with\n"
    "`tarn sim tarn run ...` they allocate from Tarn.\n"
    "\n"
    "  --memory SIZE  memory of each device, such as 512MiB; 8GiB by default\n"
    "  --devices N    number of devices, 1 to 16; 2 by default\n"
    "\n"
    "TARN_SIM has more options (docs/sim.md).\n",
    run};
