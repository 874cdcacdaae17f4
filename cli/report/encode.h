/* encode.h -- the data block of one log (docs/design/report-data.md). */
#ifndef TARN_CLI_REPORT_ENCODE_H
#define TARN_CLI_REPORT_ENCODE_H

#include "data_block.h"
#include "finding.h"

/* Add all sections of a view but the findings. `program` names the log. */
void encode_view(const struct view *view, const char *program, struct data_block *block);
void encode_findings(const struct findings *findings, struct data_block *block);

#endif
