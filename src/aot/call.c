/* call.c -- support around a call of compiled code: arrays for it, error messages from
 * it.
 *
 * The bytes of an exception are a pickle of a tuple: the exception's class, its arguments,
 * and the place where it was raised. If values of the run are among the arguments, an
 * object stands in the pickle for each of them, and compiled code has a function that makes
 * the values (argument.c).
 */
#include "aot/alias.h"
#include "aot/argument.h"
#include "aot/pickle.h"
#include <stdio.h>
#include <tarn/aot.h>
#include <tarn/nrt.h>

/* Return the values of the run, NULL without any. The first call makes them: compiled code
 * frees what it makes them of. */
static const struct tarn__value *values_of_run(const tarn_aot_error *error)
{
    tarn_aot_error *own = (tarn_aot_error *)error; /* allocated where it was raised */

    if (error->is_dynamic <= 0)
        return NULL;
    if (own->unwrap) {
        own->arguments = own->unwrap(own->arguments);
        own->unwrap = NULL;
    }
    return own->arguments;
}

/* Write class and arguments; false if the pickle cannot be read. */
static bool write_exception(struct tarn__value_writer *writer,
                            const tarn_aot_error *error)
{
    struct tarn__pickle pickle;
    const struct tarn__value *all =
        tarn__pickle_read(&pickle, error->pickle, (size_t)error->pickle_bytes);

    if (!all || all->kind != TARN__VALUE_TUPLE || all->tuple.count < 2)
        return false;
    const struct tarn__value *class = all->tuple.items[0];
    const struct tarn__value *arguments = all->tuple.items[1];
    if (class->kind != TARN__VALUE_SHOWN || arguments->kind != TARN__VALUE_TUPLE)
        return false;
    tarn__value_put(writer, class->text.at, class->text.bytes);
    tarn__value_show_arguments(writer, class->text.at, class->text.bytes, arguments,
                               values_of_run(error));
    return true;
}

const char *tarn_aot_error_message(const tarn_aot_error *error, char *out, size_t bytes)
{
    struct tarn__value_writer writer = {.out = out, .bytes = bytes};
    int32_t count = error && error->pickle_bytes > 0 ? error->pickle_bytes : 0;

    if (bytes == 0)
        return out;
    out[0] = '\0';
    if (count == 0 || !write_exception(&writer, error))
        snprintf(out, bytes, "an exception of %d bytes", count);
    return out;
}

void tarn_aot_error_release(const tarn_aot_error *error)
{
    if (!error || error->is_dynamic <= 0)
        return;
    tarn__argument_free((struct tarn__value *)values_of_run(error));
    tarn_nrt_Free((tarn_aot_error *)error);
}

tarn_aot_array1 tarn_aot_array1_of(NRT_MemInfo *meminfo, double *data, int64_t items)
{
    return (tarn_aot_array1){.meminfo = meminfo,
                             .items = items,
                             .item_bytes = sizeof *data,
                             .data = data,
                             .shape = {items},
                             .strides = {sizeof *data}};
}

void tarn_aot_gdb_breakpoint(void)
{
}

TARN__ALIAS(gdb_breakpoint);
