/* binary_folder.h -- the thread that folds the rows of a ring into checkpoints. */
#ifndef TARN_TRACE_BINARY_FOLDER_H
#define TARN_TRACE_BINARY_FOLDER_H

#include "trace/binary_output.h"

/* Start a thread that folds, if few chunks are free and none runs. `lock` of the chunks
 * held. */
void tarn__binary_folder_start(struct tarn__binary_writer *writer);
/* Wait until the thread has ended, if there is one. */
void tarn__binary_folder_stop(struct tarn__binary_writer *writer);

#endif
