/* cmd_prune.h -- declarations shared by the two files of `tarn prune`. */
#ifndef TARN_CLI_CMD_PRUNE_H
#define TARN_CLI_CMD_PRUNE_H

#include "tool.h"
#include <tarn/prune.h>

/* The work: the bytes to prune, and the options. */
struct prune_task {
    const char *name; /* of the file, for messages */
    char *input;
    size_t input_bytes;
    tarn_prune_options options;
    unsigned llvm; /* major version of the LLVM to use; 0: that of libtarn_prune.so */
    bool old;      /* the text pass of old Numbas */
    bool explain;  /* record the reasons */
};

/* The result. */
struct prune_result {
    tarn_prune_report report;
    uint64_t old_removed;
    char *output, *reasons; /* owned; each ends with a zero byte */
    size_t output_bytes, reasons_bytes;
};

/* Prune in a child process: on some bytes that are no IR, LLVM's reader ends or crashes
 * its process. Return 0, or FAILED after a line with the reason. */
int prune_in_child(const struct prune_task *task, struct prune_result *out);

void prune_result_free(struct prune_result *result);

#endif
