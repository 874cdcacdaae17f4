/* Test the Mersenne Twister: published numbers, NumPy's numbers for the same seed,
 * threads and forks. */
#include "test.h"
#include <pthread.h>
#include <sys/wait.h>
#include <tarn/aot.h>
#include <unistd.h>

/* Draw a word as compiled code does. */
static uint32_t next_word(tarn_aot_random *state)
{
    if (state->index == TARN_AOT_RANDOM_WORDS) {
        tarn_aot_rnd_shuffle(state);
        state->index = 0;
    }
    uint32_t word = state->words[state->index++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    return word ^ (word >> 18);
}

TEST(twister_gives_the_numbers_of_its_reference)
{
    static tarn_aot_random state;

    tarn_aot_rnd_init(&state, 5489);
    CHECK(next_word(&state) == 3499211612u);
    for (int i = 2; i < 10000; i++)
        next_word(&state);
    CHECK(next_word(&state) == 4123659995u); /* the value in the C++ standard */
}

/* np.random.RandomState(42).poisson(50.0) and RandomState(7).poisson(10.5) of NumPy. */
TEST(poisson_numbers_are_numpys)
{
    static const int fifty[] = {47, 55, 42, 52, 58, 43, 46, 49, 52, 45, 49, 43};
    static const int ten[] = {5, 10, 10, 8, 12, 9, 7, 16, 8, 16, 11, 12};
    static tarn_aot_random state;

    tarn_aot_rnd_init(&state, 42);
    for (int i = 0; i < 12; i++)
        CHECK_EQUAL(fifty[i], tarn_aot_poisson_ptrs(&state, 50.0));
    tarn_aot_rnd_init(&state, 7);
    for (int i = 0; i < 12; i++)
        CHECK_EQUAL(ten[i], tarn_aot_poisson_ptrs(&state, 10.5));
}

static void *state_of_thread(void *out)
{
    tarn_aot_random *state = tarn_aot_get_np_random_state();

    *(uint32_t *)out = next_word(state) ^ (uint32_t)(state->is_seeded == 0);
    return NULL;
}

TEST(states_are_seeded_apart_by_use_and_by_thread)
{
    tarn_aot_random *states[] = {tarn_aot_get_py_random_state(),
                                 tarn_aot_get_np_random_state(),
                                 tarn_aot_get_internal_random_state()};
    pthread_t thread;
    uint32_t other;

    for (int i = 0; i < 3; i++)
        CHECK(states[i]->is_seeded && states[i]->index == TARN_AOT_RANDOM_WORDS);
    CHECK(states[1] == tarn_aot_get_np_random_state());
    CHECK(memcmp(states[0]->words, states[1]->words, sizeof states[0]->words) != 0);
    CHECK(memcmp(states[1]->words, states[2]->words, sizeof states[0]->words) != 0);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, state_of_thread, &other));
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    CHECK(other != next_word(states[1])); /* equal once in 2^32 runs */
}

TEST(a_forked_child_has_other_numbers_than_its_parent)
{
    tarn_aot_random *state = tarn_aot_get_py_random_state();
    uint32_t word, of_child = 0;
    int ends[2], code;

    CHECK_EQUAL(0, pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        word = next_word(tarn_aot_get_py_random_state());
        _exit(write(ends[1], &word, sizeof word) != sizeof word);
    }
    CHECK(waitpid(child, &code, 0) == child && code == 0);
    CHECK(read(ends[0], &of_child, sizeof of_child) == sizeof of_child);
    CHECK(of_child != next_word(state)); /* equal once in 2^32 runs */
    close(ends[0]);
    close(ends[1]);
}
