/* binary_folder.c -- the thread that folds the rows of a ring into checkpoints.
 *
 * Without a thread, the one that needs a chunk folds.
 */
#include "trace/binary_folder.h"
#include "base/cancellation.h"
#include "base/mutex_assert.h"
#include "base/thread.h"
#include <errno.h>

static void *run_folder(void *data)
{
    struct tarn__binary_writer *writer = data;
    uint32_t enough = writer->chunks.ring_chunks / 4;

    if (!tarn__binary_ring_fold(&writer->ring, &writer->chunks, enough))
        tarn__binary_output_break(writer, errno);
    pthread_mutex_lock(&writer->chunks.lock);
    writer->folder_runs = false;
    pthread_mutex_unlock(&writer->chunks.lock);
    return NULL;
}

void tarn__binary_folder_start(struct tarn__binary_writer *writer)
{
    struct tarn__binary_chunks *chunks = &writer->chunks;
    TARN__NOT_CANCELLED;

    tarn__assert_mutex_held(&chunks->lock);

    if (!writer->is_ring || writer->folder_runs ||
        tarn__binary_chunks_has_free(chunks, chunks->ring_chunks / 4))
        return;
    if (writer->has_folder) /* it has let go of the lock, and ends */
        pthread_join(writer->folder, NULL);
    writer->folder_runs = writer->has_folder =
        tarn__thread_start(&writer->folder, run_folder, writer) == 0;
}

void tarn__binary_folder_stop(struct tarn__binary_writer *writer)
{
    pthread_mutex_lock(&writer->chunks.lock);
    bool has_folder = writer->has_folder;
    writer->has_folder = false;
    pthread_mutex_unlock(&writer->chunks.lock);
    if (has_folder)
        pthread_join(writer->folder, NULL);
}
