/* files.c -- descriptors that a forked child must not have.
 *
 * The lock is held while the driver creates a descriptor, and a driver may hold locks of
 * its own over a fork. Fork handlers run from the last to the first. Ours come after the
 * driver's, as no descriptor is created here before the driver is open. So both paths
 * take the locks in the same order: this lock, then the driver's.
 */
#define _GNU_SOURCE
#include "ipc/files.h"
#include "ipc/owner.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    bool *is_kept; /* by descriptor */
    size_t count, room;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void)
{
    tarn__owner_lock();
    pthread_mutex_lock(&kept.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&kept.lock);
    tarn__owner_unlock();
}

static void in_child(void)
{
    for (size_t file = 0; file < kept.room; file++) {
        if (kept.is_kept[file])
            close((int)file);
        kept.is_kept[file] = false;
    }
    kept.count = 0;
    tarn__server_forget();
    after_fork();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

void tarn__files_lock(void)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;

    pthread_once(&watched, watch_forks);
    pthread_mutex_lock(&kept.lock);
}

void tarn__files_unlock(void)
{
    pthread_mutex_unlock(&kept.lock);
}

static bool make_room(size_t file)
{
    size_t room = kept.room ? kept.room : 64;

    while (room <= file)
        room *= 2;
    if (room == kept.room)
        return true;
    bool *is_kept = realloc(kept.is_kept, room * sizeof *is_kept);
    if (!is_kept)
        return false;
    memset(is_kept + kept.room, 0, (room - kept.room) * sizeof *is_kept);
    kept.is_kept = is_kept;
    kept.room = room;
    return true;
}

int tarn__file_keep(int file)
{
    if (file < 0)
        return -1;
    if (!make_room((size_t)file)) {
        close(file);
        errno = ENOMEM;
        return -1;
    }
    kept.is_kept[file] = true;
    kept.count++;
    return file;
}

CUresult_ tarn__file_exported(CUresult_ result, int file, int *out)
{
    if (result == CUDA_SUCCESS_) {
        fcntl(file, F_SETFD, FD_CLOEXEC);
        file = tarn__file_keep(file);
    }
    tarn__files_unlock();
    if (result == CUDA_SUCCESS_ && file < 0)
        return CUDA_ERROR_OUT_OF_MEMORY_;
    if (result == CUDA_SUCCESS_)
        *out = file;
    return result;
}

void tarn__file_close(int file)
{
    if (file < 0)
        return;
    tarn__files_lock();
    if ((size_t)file < kept.room && kept.is_kept[file]) {
        kept.is_kept[file] = false;
        kept.count--;
        close(file);
    }
    tarn__files_unlock();
}

/* Installs no fork handler, as this may be called before the driver is open. */
size_t tarn__file_count(void)
{
    pthread_mutex_lock(&kept.lock);
    size_t count = kept.count;
    tarn__files_unlock();
    return count;
}
