/* threads.cpp -- numba-cuda's nrt.cu on threads of the host: 16 threads release one block.
 *
 * It prints how often the block's destructor was called, and whether the destructor of the
 * elements of a varsize block was.
 */
#define __device__
#define __global__
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

static void keep(void *)
{
    /* A freed block stays readable: the program counts the ends of a block. */
}

#include <cuda/atomic>
#define free keep
#include "nrt.cu"
#undef free

pthread_barrier_t step;
bool in_step;

static std::atomic<int> ends{0}, elements{0};

static void end(void *, size_t, void *)
{
    ends++;
}

static void end_elements(void *, size_t, void *)
{
    elements++;
}

int main()
{
    enum { THREADS = 16 };
    std::vector<std::thread> threads;
    NRT_MemInfo *mi = NRT_MemInfo_new(nullptr, 0, end, nullptr);

    mi->refct = THREADS;
    pthread_barrier_init(&step, nullptr, THREADS);
    in_step = true;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back([mi] { NRT_decref(mi); });
    for (auto &thread : threads)
        thread.join();
    in_step = false;
    NRT_decref(NRT_MemInfo_new_varsize_dtor(8, end_elements));
    std::printf("%d %d\n", ends.load(), elements.load());
    return 0;
}
