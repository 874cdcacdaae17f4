/* list.c -- Numba's typed list: items of one size in one array. */
#include "aot/containers.h"
#include <string.h>
#include <tarn/nrt.h>

_Static_assert(sizeof(struct tarn__list_iterator) == 3 * sizeof(void *),
               "compiled code has three words for an iterator");

static char *item_at(const struct tarn__list *list, int64_t index)
{
    return list->items + index * list->item_bytes;
}

static bool has_index(const struct tarn__list *list, int64_t index)
{
    return index >= 0 && index < list->length;
}

/* Take or drop a reference of an item. */
static void count(void (*method)(const void *), const void *item)
{
    if (method)
        method(item);
}

/* --- memory --- */

/* Give the list memory for `capacity` items; false without memory. */
static bool set_capacity(struct tarn__list *list, int64_t capacity)
{
    size_t bytes;

    if (__builtin_mul_overflow((size_t)capacity, (size_t)list->item_bytes, &bytes))
        return false;
    char *items = tarn_nrt_Reallocate(list->items, bytes ? bytes : 1);
    if (!items)
        return false;
    list->items = items;
    list->capacity = capacity;
    return true;
}

int32_t numba_list_new(struct tarn__list **out, int64_t item_bytes, int64_t capacity)
{
    struct tarn__list *list = tarn_nrt_Allocate(sizeof *list);

    if (!list)
        return TARN__LIST_NO_MEMORY;
    *list = (struct tarn__list){.item_bytes = item_bytes, .is_mutable = 1};
    if (capacity > 0 && !set_capacity(list, capacity)) {
        tarn_nrt_Free(list);
        return TARN__LIST_NO_MEMORY;
    }
    *out = list;
    return TARN__LIST_OK;
}

void numba_list_free(struct tarn__list *list)
{
    for (int64_t i = 0; i < list->length; i++)
        count(list->methods.item_decref, item_at(list, i));
    tarn_nrt_Free(list->items);
    tarn_nrt_Free(list);
}

/* Return memory of a list that has become much shorter. Its failure changes nothing. */
static void shrink(struct tarn__list *list)
{
    if (list->length < list->capacity / 4)
        set_capacity(list, 2 * list->length);
}

/* --- queries --- */

void numba_list_set_method_table(struct tarn__list *list,
                                 const struct tarn__list_methods *methods)
{
    list->methods = *methods;
}

char *numba_list_base_ptr(const struct tarn__list *list)
{
    return list->items;
}

int64_t numba_list_size_address(const struct tarn__list *list)
{
    return (int64_t)(intptr_t)&list->length;
}

int64_t numba_list_length(const struct tarn__list *list)
{
    return list->length;
}

int64_t numba_list_allocated(const struct tarn__list *list)
{
    return list->capacity;
}

int32_t numba_list_is_mutable(const struct tarn__list *list)
{
    return list->is_mutable;
}

void numba_list_set_is_mutable(struct tarn__list *list, int32_t is_mutable)
{
    list->is_mutable = is_mutable;
}

/* --- items --- */

int32_t numba_list_getitem(const struct tarn__list *list, int64_t index, void *item)
{
    if (!has_index(list, index))
        return TARN__LIST_BAD_INDEX;
    memcpy(item, item_at(list, index), (size_t)list->item_bytes);
    return TARN__LIST_OK;
}

/* The new item is counted first: it may be the old one. */
int32_t numba_list_setitem(struct tarn__list *list, int64_t index, const void *item)
{
    if (!list->is_mutable)
        return TARN__LIST_IMMUTABLE;
    if (!has_index(list, index))
        return TARN__LIST_BAD_INDEX;
    count(list->methods.item_incref, item);
    count(list->methods.item_decref, item_at(list, index));
    memcpy(item_at(list, index), item, (size_t)list->item_bytes);
    return TARN__LIST_OK;
}

int32_t numba_list_append(struct tarn__list *list, const void *item)
{
    if (!list->is_mutable)
        return TARN__LIST_IMMUTABLE;
    if (list->length == list->capacity &&
        !set_capacity(list, list->capacity + list->capacity / 2 + 4))
        return TARN__LIST_NO_MEMORY;
    memcpy(item_at(list, list->length++), item, (size_t)list->item_bytes);
    count(list->methods.item_incref, item);
    return TARN__LIST_OK;
}

/* --- removal --- */

int32_t numba_list_delitem(struct tarn__list *list, int64_t index)
{
    if (!list->is_mutable)
        return TARN__LIST_IMMUTABLE;
    if (!has_index(list, index))
        return TARN__LIST_BAD_INDEX;
    count(list->methods.item_decref, item_at(list, index));
    memmove(item_at(list, index), item_at(list, index + 1),
            (size_t)((list->length - index - 1) * list->item_bytes));
    list->length--;
    shrink(list);
    return TARN__LIST_OK;
}

/* Swap the bytes of two items. */
static void swap(struct tarn__list *list, int64_t index, int64_t other)
{
    char *a = item_at(list, index), *b = item_at(list, other);

    for (int64_t i = 0; i < list->item_bytes; i++) {
        char byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

int32_t numba_list_delete_slice(struct tarn__list *list, int64_t start, int64_t stop,
                                int64_t step)
{
    if (!list->is_mutable)
        return TARN__LIST_IMMUTABLE;
    if (step < 0) { /* the same items from the lowest index up */
        int64_t count = start > stop ? (start - stop - 1) / -step + 1 : 0;
        stop = start + 1;
        start += (count - 1) * step;
        step = -step;
        if (count == 0)
            return TARN__LIST_OK;
    }
    if (start >= stop)
        return TARN__LIST_OK;
    /* Items that stay move to the front, the others gather behind them. */
    int64_t kept = start, length = list->length;
    for (int64_t i = start; i < length; i++)
        if (i >= stop || (i - start) % step != 0)
            swap(list, kept++, i);
    list->length = kept;
    for (int64_t i = kept; i < length; i++)
        count(list->methods.item_decref, item_at(list, i));
    shrink(list);
    return TARN__LIST_OK;
}

/* --- iteration --- */

size_t numba_list_iter_sizeof(void)
{
    return sizeof(struct tarn__list_iterator);
}

void numba_list_iter(struct tarn__list_iterator *iterator, const struct tarn__list *list)
{
    *iterator = (struct tarn__list_iterator){.list = list, .length = list->length};
}

int32_t numba_list_iter_next(struct tarn__list_iterator *iterator, const char **item)
{
    const struct tarn__list *list = iterator->list;

    if (list->length != iterator->length)
        return TARN__LIST_MUTATED;
    if (iterator->next >= list->length)
        return TARN__LIST_EXHAUSTED;
    *item = item_at(list, iterator->next++);
    return TARN__LIST_OK;
}
