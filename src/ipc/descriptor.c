/* descriptor.c -- descriptors that a forked child must not have.
 *
 * The lock is held while the driver creates a descriptor, and a driver may hold locks of
 * its own over a fork. Fork handlers run from the last to the first. Ours come after the
 * driver's, as no descriptor is created here before the driver is open. So both paths
 * take the locks in the same order: this lock, then the driver's.
 */
#define _GNU_SOURCE
#include "ipc/descriptor.h"
#include "base/mutex_assert.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    bool *is_recorded; /* by descriptor */
    atomic_size_t count;
    size_t capacity;
} recorded = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void)
{
    pthread_mutex_lock(&recorded.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&recorded.lock);
}

static void in_child(void)
{
    for (size_t file = 0; file < recorded.capacity; file++) {
        if (recorded.is_recorded[file])
            close((int)file);
        recorded.is_recorded[file] = false;
    }
    recorded.count = 0;
    after_fork();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

void tarn__descriptor_lock(void)
{
    static pthread_once_t fork_handlers_once = PTHREAD_ONCE_INIT;

    pthread_once(&fork_handlers_once, watch_forks);
    pthread_mutex_lock(&recorded.lock);
}

void tarn__descriptor_unlock(void)
{
    pthread_mutex_unlock(&recorded.lock);
}

static bool reserve(size_t file)
{
    size_t capacity = recorded.capacity ? recorded.capacity : 64;

    while (capacity <= file)
        capacity *= 2;
    if (capacity == recorded.capacity)
        return true;
    bool *is_recorded = realloc(recorded.is_recorded, capacity * sizeof *is_recorded);
    if (!is_recorded)
        return false;
    memset(is_recorded + recorded.capacity, 0,
           (capacity - recorded.capacity) * sizeof *is_recorded);
    recorded.is_recorded = is_recorded;
    recorded.capacity = capacity;
    return true;
}

int tarn__descriptor_record(int file)
{
    tarn__assert_mutex_held(&recorded.lock);

    if (file < 0)
        return -1;
    if (!reserve((size_t)file)) {
        close(file);
        errno = ENOMEM;
        return -1;
    }
    recorded.is_recorded[file] = true;
    recorded.count++;
    return file;
}

CUresult_ tarn__descriptor_record_exported(CUresult_ result, int file, int *out)
{
    tarn__assert_mutex_held(&recorded.lock);

    if (result == CUDA_SUCCESS_) {
        fcntl(file, F_SETFD, FD_CLOEXEC);
        file = tarn__descriptor_record(file);
    }
    tarn__descriptor_unlock();
    if (result == CUDA_SUCCESS_ && file < 0)
        return CUDA_ERROR_OUT_OF_MEMORY_;
    if (result == CUDA_SUCCESS_)
        *out = file;
    return result;
}

void tarn__descriptor_close(int file)
{
    if (file < 0)
        return;
    tarn__descriptor_lock();
    if ((size_t)file < recorded.capacity && recorded.is_recorded[file]) {
        recorded.is_recorded[file] = false;
        recorded.count--;
        close(file);
    }
    tarn__descriptor_unlock();
}

/* Takes no lock: this may be called before the driver is open, when no fork handler is
 * installed yet. */
size_t tarn__descriptor_count(void)
{
    return atomic_load(&recorded.count);
}
