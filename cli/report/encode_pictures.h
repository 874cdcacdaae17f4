/* encode_pictures.h -- the section PLAN of a data block: a plan, and the run beside it. */
#ifndef TARN_CLI_REPORT_ENCODE_PICTURES_H
#define TARN_CLI_REPORT_ENCODE_PICTURES_H

#include "data_block.h"
#include "view.h"

/* Add the section, if the page has pictures. */
void encode_pictures(const struct view *view, struct data_block *block);

#endif
