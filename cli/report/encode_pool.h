/* encode_pool.h -- the sections of a data block about pools: MARK, FAIL, MAPS. */
#ifndef TARN_CLI_REPORT_ENCODE_POOL_H
#define TARN_CLI_REPORT_ENCODE_POOL_H

#include "data_block.h"
#include "view.h"

void encode_pool_sections(const struct view *view, struct data_block *block);

#endif
