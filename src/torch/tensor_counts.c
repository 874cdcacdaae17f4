/* tensor_counts.c -- counts of PyTorch's allocations on each device, for its
 * memory_stats().
 *
 * The pool may serve other libraries as well, so its statistics are not PyTorch's. One lock
 * for each device makes the peaks exact. PyTorch takes a lock of its own for each
 * allocation, so this one is rarely contended.
 */
#include "torch/tensor_counts.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include <string.h>

enum { SMALL_BYTES = 1 << 20, ROUNDED_TO = 512 };

TARN__STATIC_MUTEX(lock);
static tarn_torch_statistics counts[TARN__DEVICES_MAX];

/* --- one count --- */

static void add(tarn_torch_count *count, uint64_t amount)
{
    count->current += amount;
    count->allocated += amount;
    if (count->peak < count->current)
        count->peak = count->current;
}

static void subtract(tarn_torch_count *count, uint64_t amount)
{
    count->current -= amount;
    count->freed += amount;
}

typedef void count_change(tarn_torch_count *count, uint64_t amount);

/* Change the count of all sizes and that of this size. */
static void of_size(count_change *change, tarn_torch_count *sizes, size_t bytes,
                    uint64_t amount)
{
    change(&sizes[TARN_TORCH_ALL], amount);
    change(&sizes[bytes <= SMALL_BYTES ? TARN_TORCH_SMALL : TARN_TORCH_LARGE], amount);
}

static uint64_t rounded(size_t bytes)
{
    return ((uint64_t)bytes + ROUNDED_TO - 1) / ROUNDED_TO * ROUNDED_TO;
}

static void change_live(count_change *change, tarn_torch_statistics *all, size_t bytes)
{
    of_size(change, all->allocations, bytes, 1);
    of_size(change, all->allocated_bytes, bytes, rounded(bytes));
    of_size(change, all->requested_bytes, bytes, bytes);
}

static void change_active(count_change *change, tarn_torch_statistics *all, size_t bytes)
{
    of_size(change, all->active, bytes, 1);
    of_size(change, all->active_bytes, bytes, rounded(bytes));
}

/* --- counting --- */

void tarn__tensor_counts_allocation(int device, size_t bytes)
{
    tarn__mutex_lock(&lock);
    change_live(add, &counts[device], bytes);
    change_active(add, &counts[device], bytes);
    tarn__mutex_unlock(&lock);
}

void tarn__tensor_counts_free(int device, size_t bytes)
{
    tarn__mutex_lock(&lock);
    change_live(subtract, &counts[device], bytes);
    tarn__mutex_unlock(&lock);
}

void tarn__tensor_counts_return(int device, size_t bytes)
{
    tarn__mutex_lock(&lock);
    change_active(subtract, &counts[device], bytes);
    tarn__mutex_unlock(&lock);
}

void tarn__tensor_counts_retry(int device)
{
    tarn__mutex_lock(&lock);
    counts[device].retries++;
    tarn__mutex_unlock(&lock);
}

void tarn__tensor_counts_out_of_memory(int device)
{
    tarn__mutex_lock(&lock);
    counts[device].out_of_memory++;
    tarn__mutex_unlock(&lock);
}

/* --- reading and resetting --- */

void tarn__tensor_counts_get(int device, tarn_torch_statistics *out)
{
    tarn__mutex_lock(&lock);
    *out = counts[device];
    tarn__mutex_unlock(&lock);
}

typedef void count_reset(tarn_torch_count *count);

static void reset_peak(tarn_torch_count *count)
{
    count->peak = count->current;
}

static void reset_totals(tarn_torch_count *count)
{
    count->allocated = count->freed = 0;
}

static void reset_each(count_reset *reset, tarn_torch_statistics *all)
{
    tarn_torch_count *const kinds[] = {all->allocations, all->allocated_bytes,
                                       all->requested_bytes, all->active,
                                       all->active_bytes};

    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (int size = 0; size < TARN_TORCH_SIZES; size++)
            reset(&kinds[kind][size]);
}

void tarn__tensor_counts_reset_peaks(int device)
{
    tarn__mutex_lock(&lock);
    reset_each(reset_peak, &counts[device]);
    tarn__mutex_unlock(&lock);
}

void tarn__tensor_counts_reset_totals(int device)
{
    tarn__mutex_lock(&lock);
    reset_each(reset_totals, &counts[device]);
    counts[device].retries = counts[device].out_of_memory = 0;
    tarn__mutex_unlock(&lock);
}
