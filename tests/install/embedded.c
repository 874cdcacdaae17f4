/* embedded.c -- a C program that links Tarn and embeds a Python with a stock Numba.
 *
 * Numba's extension exports three names of its runtime by accident. If libtarn exported
 * the same, one of the two would get the other's calls, and free the other's memory. The
 * program uses Tarn's under Numba's names, before, while and after Numba uses its own.
 *
 *     embedded PYTHON SCRIPT      the interpreter whose packages are used
 */
#include <Python.h>
#include <tarn/nrt.h>

static int use_tarn(void)
{
    for (int i = 0; i < 1000; i++) {
        NRT_MemInfo *mi = NRT_MemInfo_alloc_external(100, NULL);
        NRT_MemInfo *other = NRT_MemInfo_alloc_safe_aligned_external(100, 64, NULL);
        if (!mi || !other)
            return 1;
        NRT_MemInfo_release(mi);
        NRT_dealloc(other);
    }
    return 0;
}

static int start(const char *python)
{
    PyConfig config;

    PyConfig_InitPythonConfig(&config);
    PyConfig_SetBytesString(&config, &config.program_name, python);
    PyStatus status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return PyStatus_Exception(status);
}

int main(int count, char **arguments)
{
    tarn_runtime_stats stats = {.size = sizeof stats};

    if (count != 3 || use_tarn() || start(arguments[1]))
        return 2;
    int failed = PyRun_SimpleString(arguments[2]);
    failed |= use_tarn();
    failed |= PyRun_SimpleString(arguments[2]);
    tarn_runtime_stats_read(tarn_runtime_default(), &stats);
    printf("%llu %llu %llu %llu %llu\n", (unsigned long long)stats.alloc,
           (unsigned long long)stats.free, (unsigned long long)stats.mi_alloc,
           (unsigned long long)stats.mi_free, (unsigned long long)stats.misuses);
    fflush(stdout);
    failed |= Py_FinalizeEx();
    return failed ? 1 : 0;
}
