/* Test typed dicts, lists and sets: beside a model, with counted items, without memory. */
#include "aot/containers.h"
#include "test.h"
#include <stdlib.h>
#include <tarn/nrt.h>

enum { KEYS = 200, ROUNDS = 20000 };

/* --- a deterministic sequence of numbers --- */

static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* --- references: the item is the index of its count --- */

static int counts[KEYS], ended; /* `ended`: how often a count reached 0 */

static void count_up(const void *item)
{
    counts[*(const int64_t *)item]++;
}

static void count_down(const void *item)
{
    int left = --counts[*(const int64_t *)item];

    CHECK(left >= 0);
    ended += left == 0;
}

static int32_t same_key(const void *key, const void *other)
{
    return *(const int64_t *)key == *(const int64_t *)other;
}

/* Many keys share a hash. */
static int64_t hash_of(int64_t key)
{
    return key % 5 == 0 ? 5 : key;
}

/* --- dict --- */

static const struct tarn__hash_methods counted = {same_key, count_up, count_down,
                                                  count_up, count_down};

/* The keys of a model dict in the order of their insertion, and their values. */
struct model {
    int64_t keys[KEYS], values[KEYS];
    size_t count;
};

static int model_find(const struct model *model, int64_t key)
{
    for (size_t i = 0; i < model->count; i++)
        if (model->keys[i] == key)
            return (int)i;
    return -1;
}

static void model_remove(struct model *model, size_t index)
{
    model->count--;
    memmove(model->keys + index, model->keys + index + 1,
            (model->count - index) * sizeof *model->keys);
    memmove(model->values + index, model->values + index + 1,
            (model->count - index) * sizeof *model->values);
}

static void check_same(const struct tarn__hash_table *dict, const struct model *model)
{
    struct tarn__hash_iterator iterator;
    const char *key, *value;
    int expected[KEYS] = {0};

    CHECK(numba_dict_length(dict) == (int64_t)model->count);
    numba_dict_iter(&iterator, dict);
    for (size_t i = 0; i < model->count; i++) {
        CHECK(numba_dict_iter_next(&iterator, &key, &value) == TARN__DICT_OK);
        CHECK(*(const int64_t *)key == model->keys[i]);
        CHECK(*(const int64_t *)value == model->values[i]);
        expected[model->keys[i]]++;
        expected[model->values[i]]++;
    }
    CHECK(numba_dict_iter_next(&iterator, &key, &value) == TARN__DICT_EXHAUSTED);
    CHECK(memcmp(expected, counts, sizeof counts) == 0);
}

static void insert(struct tarn__hash_table *dict, struct model *model)
{
    int64_t key = draw(KEYS), value = draw(KEYS), old = -1;
    int found = model_find(model, key);
    int32_t status = draw(2) ? numba_dict_insert(dict, &key, hash_of(key), &value, &old)
                             : numba_dict_insert_ez(dict, &key, hash_of(key), &value);

    CHECK(status == (found < 0 ? TARN__DICT_OK : TARN__DICT_REPLACED));
    if (found < 0)
        model->keys[found = (int)model->count++] = key;
    model->values[found] = value;
}

static void delete_key(struct tarn__hash_table *dict, struct model *model)
{
    int64_t key = draw(KEYS), value;
    int found = model_find(model, key);
    int64_t entry = numba_dict_lookup(dict, &key, hash_of(key), &value);

    CHECK((entry >= 0) == (found >= 0));
    if (found < 0) {
        CHECK(entry == TARN__NOT_FOUND && value == 0);
        return;
    }
    CHECK(value == model->values[found]);
    CHECK(numba_dict_delitem(dict, hash_of(key), entry) == TARN__DICT_OK);
    model_remove(model, (size_t)found);
}

static void pop_last(struct tarn__hash_table *dict, struct model *model)
{
    int64_t key, value;
    int32_t status = numba_dict_popitem(dict, &key, &value);

    CHECK(status == (model->count ? TARN__DICT_OK : TARN__DICT_EMPTY));
    if (!model->count)
        return;
    model->count--;
    CHECK(key == model->keys[model->count] && value == model->values[model->count]);
    count_down(&key); /* the references are the caller's */
    count_down(&value);
}

TEST(a_dict_is_what_a_model_of_it_is)
{
    struct tarn__hash_table *dict;
    struct model model = {.count = 0};

    CHECK(numba_dict_new_sized(&dict, 0, 8, 8) == TARN__DICT_OK);
    numba_dict_set_method_table(dict, &counted);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t what = draw(100), growing = i / 4000 % 2 == 0 ? 55 : 25;
        if (what < growing)
            insert(dict, &model);
        else if (what < 80)
            delete_key(dict, &model);
        else
            pop_last(dict, &model);
        if (i % 50 == 0)
            check_same(dict, &model);
    }
    numba_dict_free(dict);
    for (int i = 0; i < KEYS; i++)
        CHECK(counts[i] == 0);
}

TEST(a_value_that_replaces_itself_lives_on)
{
    struct tarn__hash_table *dict;
    int64_t key = 1, value = 2, old;

    CHECK(numba_dict_new_sized(&dict, 3, 8, 8) == TARN__DICT_OK);
    numba_dict_set_method_table(dict, &counted);
    CHECK(numba_dict_insert_ez(dict, &key, 1, &value) == TARN__DICT_OK);
    ended = 0;
    CHECK(numba_dict_insert(dict, &key, 1, &value, &old) == TARN__DICT_REPLACED);
    CHECK(old == 2 && counts[2] == 1 && counts[1] == 1 && ended == 0);
    numba_dict_free(dict);
}

TEST(an_alternation_of_insertion_and_popitem_goes_on_forever)
{
    struct tarn__hash_table *dict;

    CHECK(numba_dict_new_sized(&dict, 3, 8, 8) == TARN__DICT_OK);
    for (int64_t i = 0; i < 10000; i++) {
        int64_t key = i, value = -i;
        CHECK(numba_dict_insert_ez(dict, &key, i, &value) == TARN__DICT_OK);
        CHECK(numba_dict_popitem(dict, &key, &value) == TARN__DICT_OK);
        CHECK(key == i && value == -i && numba_dict_length(dict) == 0);
    }
    numba_dict_free(dict);
}

TEST(an_iterator_notices_a_change)
{
    struct tarn__hash_table *dict;
    struct tarn__hash_iterator iterator;
    const char *key, *value;
    int64_t one = 1, two = 2;

    CHECK(numba_dict_new_sized(&dict, 8, 8, 8) == TARN__DICT_OK);
    CHECK(numba_dict_insert_ez(dict, &one, 1, &one) == TARN__DICT_OK);
    numba_dict_iter(&iterator, dict);
    CHECK(numba_dict_insert_ez(dict, &two, 2, &two) == TARN__DICT_OK);
    CHECK(numba_dict_iter_next(&iterator, &key, &value) == TARN__DICT_MUTATED);
    numba_dict_free(dict);
}

static int32_t raise(const void *key, const void *other)
{
    (void)key, (void)other;
    return -1;
}

TEST(a_comparison_that_raises_changes_nothing)
{
    struct tarn__hash_table *dict;
    struct tarn__hash_methods methods = {.key_equal = raise};
    int64_t one = 1, value = 7;

    CHECK(numba_dict_new_sized(&dict, 8, 8, 8) == TARN__DICT_OK);
    CHECK(numba_dict_insert_ez(dict, &one, 1, &one) == TARN__DICT_OK);
    numba_dict_set_method_table(dict, &methods);
    CHECK(numba_dict_insert_ez(dict, &one, 1, &one) == TARN__DICT_NOT_COMPARED);
    CHECK(numba_dict_lookup(dict, &one, 1, &value) == TARN__KEYS_NOT_COMPARED);
    CHECK(value == 0 && numba_dict_length(dict) == 1);
    numba_dict_free(dict);
}

/* --- set --- */

TEST(a_set_has_each_key_once)
{
    struct tarn__hash_table *set;
    struct tarn__set_methods methods = {same_key, count_up, count_down};
    bool has[KEYS] = {false};
    size_t length = 0;

    CHECK(numba_set_new_sized(&set, 8, 8) == TARN__SET_OK);
    numba_set_set_method_table(set, &methods);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t key = draw(KEYS);
        CHECK(numba_set_contains(set, &key, hash_of(key)) == has[key]);
        if (draw(2)) {
            CHECK(numba_set_add(set, &key, hash_of(key)) ==
                  (has[key] ? TARN__SET_PRESENT : TARN__SET_OK));
            length += !has[key];
            has[key] = true;
        } else {
            CHECK(numba_set_discard(set, &key, hash_of(key)) == TARN__SET_OK);
            length -= has[key];
            has[key] = false;
        }
        CHECK(numba_set_length(set) == (int64_t)length && counts[key] == has[key]);
    }
    numba_set_free(set);
    for (int i = 0; i < KEYS; i++)
        CHECK(counts[i] == 0);
}

/* --- list --- */

static struct tarn__list *list_of(int64_t count)
{
    struct tarn__list *list;
    struct tarn__list_methods methods = {count_up, count_down};

    CHECK(numba_list_new(&list, 8, 0) == TARN__LIST_OK);
    numba_list_set_method_table(list, &methods);
    for (int64_t i = 0; i < count; i++)
        CHECK(numba_list_append(list, &i) == TARN__LIST_OK);
    return list;
}

static int64_t item(const struct tarn__list *list, int64_t index)
{
    int64_t value = -1;

    CHECK(numba_list_getitem(list, index, &value) == TARN__LIST_OK);
    CHECK(value == ((const int64_t *)(const void *)numba_list_base_ptr(list))[index]);
    return value;
}

TEST(a_list_appends_replaces_and_deletes)
{
    struct tarn__list *list = list_of(20);
    int64_t value = 3;

    ended = 0;
    CHECK(numba_list_setitem(list, 3, &value) == TARN__LIST_OK); /* the same item */
    CHECK(item(list, 3) == 3 && counts[3] == 1 && ended == 0);
    CHECK(numba_list_setitem(list, 0, &value) == TARN__LIST_OK);
    CHECK(item(list, 0) == 3 && counts[3] == 2 && counts[0] == 0);
    CHECK(numba_list_delitem(list, 3) == TARN__LIST_OK);
    CHECK(item(list, 3) == 4 && counts[3] == 1 && numba_list_length(list) == 19);
    CHECK(*(const int64_t *)numba_list_size_address(list) == 19);
    CHECK(numba_list_setitem(list, 19, &value) == TARN__LIST_BAD_INDEX);
    CHECK(numba_list_delitem(list, -1) == TARN__LIST_BAD_INDEX);
    CHECK(numba_list_getitem(list, 19, &value) == TARN__LIST_BAD_INDEX);
    numba_list_free(list);
    for (int i = 0; i < KEYS; i++)
        CHECK(counts[i] == 0);
}

/* Delete a slice of 0, 1, 2 ... and check which items are left, in their order. */
static void check_slice(int64_t length, int64_t start, int64_t stop, int64_t step)
{
    struct tarn__list *list = list_of(length);
    int64_t left = 0;

    CHECK(numba_list_delete_slice(list, start, stop, step) == TARN__LIST_OK);
    for (int64_t i = 0; i < length; i++) {
        int64_t steps = (i - start) / step;
        bool is_deleted =
            (i - start) % step == 0 && steps >= 0 && (step > 0 ? i < stop : i > stop);
        CHECK(counts[i] == !is_deleted);
        if (!is_deleted)
            CHECK(item(list, left++) == i);
    }
    CHECK(numba_list_length(list) == left);
    numba_list_free(list);
}

TEST(any_slice_of_a_list_can_be_deleted)
{
    for (int64_t length = 0; length < 9; length++)
        for (int64_t start = 0; start <= length; start++)
            for (int64_t stop = 0; stop <= length; stop++)
                for (int64_t step = 1; step < 5; step++) {
                    check_slice(length, start, stop, step);
                    if (start < length)
                        check_slice(length, start, stop - 1, -step);
                }
}

TEST(an_immutable_list_does_not_change)
{
    struct tarn__list *list = list_of(5);
    int64_t value = 1;

    numba_list_set_is_mutable(list, 0);
    CHECK(!numba_list_is_mutable(list));
    CHECK(numba_list_append(list, &value) == TARN__LIST_IMMUTABLE);
    CHECK(numba_list_setitem(list, 0, &value) == TARN__LIST_IMMUTABLE);
    CHECK(numba_list_delitem(list, 0) == TARN__LIST_IMMUTABLE);
    CHECK(numba_list_delete_slice(list, 0, 5, 1) == TARN__LIST_IMMUTABLE);
    CHECK(numba_list_length(list) == 5 && item(list, 4) == 4);
    numba_list_free(list);
}

TEST(a_list_returns_memory_and_its_iterator_notices_a_change)
{
    struct tarn__list *list = list_of(100);
    struct tarn__list_iterator iterator;
    const char *at;

    CHECK(numba_list_allocated(list) >= 100);
    numba_list_iter(&iterator, list);
    CHECK(numba_list_iter_next(&iterator, &at) == TARN__LIST_OK);
    CHECK(numba_list_delete_slice(list, 5, 100, 1) == TARN__LIST_OK);
    CHECK(numba_list_iter_next(&iterator, &at) == TARN__LIST_MUTATED);
    CHECK(numba_list_allocated(list) < 50);
    numba_list_iter(&iterator, list);
    for (int64_t i = 0; i < 5; i++) {
        CHECK(numba_list_iter_next(&iterator, &at) == TARN__LIST_OK);
        CHECK(*(const int64_t *)(const void *)at == i);
    }
    CHECK(numba_list_iter_next(&iterator, &at) == TARN__LIST_EXHAUSTED);
    numba_list_free(list);
}

/* --- without memory --- */

static int allocations_left; /* below 0: as many as wanted */

static void *limited(size_t bytes)
{
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    return malloc(bytes);
}

static void *limited_again(void *memory, size_t bytes)
{
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    return realloc(memory, bytes);
}

/* Make a dict and a list of 20 items; returns whether all allocations succeeded. */
static bool fill_both(void)
{
    struct tarn__hash_table *dict;
    struct tarn__list *list;
    bool complete = true;

    if (numba_dict_new_sized(&dict, 0, 8, 8) != TARN__DICT_OK)
        return false;
    numba_dict_set_method_table(dict, &counted);
    for (int64_t i = 0; i < 20; i++) {
        int64_t length = numba_dict_length(dict);
        int32_t status = numba_dict_insert_ez(dict, &i, i, &i);
        CHECK(status == TARN__DICT_OK || status == TARN__DICT_NO_MEMORY);
        CHECK(numba_dict_length(dict) == length + (status == TARN__DICT_OK));
        complete = complete && status == TARN__DICT_OK;
    }
    numba_dict_free(dict);
    if (numba_list_new(&list, 8, 2) != TARN__LIST_OK)
        return false;
    for (int64_t i = 0; i < 20; i++) {
        int32_t status = numba_list_append(list, &i);
        CHECK(status == TARN__LIST_OK || status == TARN__LIST_NO_MEMORY);
        complete = complete && status == TARN__LIST_OK;
    }
    numba_list_free(list);
    return complete;
}

TEST(without_memory_a_container_stays_as_it_is)
{
    bool complete = false;

    tarn_runtime_set_modes(tarn_runtime_default(), TARN_NRT_UNPOOLED);
    NRT_MemSys_set_allocator(limited, limited_again, free);
    for (int allowed = 0; allowed < 100 && !complete; allowed++) {
        allocations_left = allowed;
        complete = fill_both();
        for (int i = 0; i < KEYS; i++)
            CHECK(counts[i] == 0);
        if (allowed == 0)
            CHECK(!complete);
    }
    CHECK(complete);
    NRT_MemSys_set_allocator(malloc, realloc, free);
    tarn_runtime_set_modes(tarn_runtime_default(), 0);
}

TEST(a_size_that_is_too_large_is_no_memory)
{
    struct tarn__hash_table *dict;
    struct tarn__list *list;

    CHECK(numba_dict_new_sized(&dict, INT64_MAX, 8, 8) == TARN__DICT_NO_MEMORY);
    CHECK(numba_list_new(&list, 1 << 20, INT64_MAX / 4) == TARN__LIST_NO_MEMORY);
}
