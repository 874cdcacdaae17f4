/* cmd_prune.h -- what the two files of `tarn prune` share. */
#ifndef TARN_CLI_CMD_PRUNE_H
#define TARN_CLI_CMD_PRUNE_H

#include "tool.h"
#include <tarn/prune.h>

/* What to do with which bytes. */
struct prune_task {
    const char *name; /* of the file, for messages */
    char *input;
    size_t input_bytes;
    tarn_prune_options options;
    unsigned llvm; /* major version of the LLVM to use; 0: that of libtarn_prune.so */
    bool old;      /* the text pass of old */
    bool explain;  /* write the reasons down */
};

/* What came of it. */
struct prune_result {
    tarn_prune_report report;
    uint64_t old_removed;
    char *output, *reasons; /* owned; a zero behind each */
    size_t output_bytes, reasons_bytes;
};

/* Prune in a child process: LLVM's reader ends or crashes the process it runs in on some
 * bytes that are no IR. Returns 0, or FAILED after a line that says why. */
int prune_in_child(const struct prune_task *task, struct prune_result *out);

void prune_result_free(struct prune_result *result);

#endif
