/* visible.c -- reads CUDA_VISIBLE_DEVICES as the real driver does.
 *
 * The value is a list of numbers or of `GPU-` UUIDs. It ends at the first entry that
 * names no device. A device named twice makes the whole list void.
 */
#include "sim/core/visible.h"
#include "sim/core/options.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void sim_visible_uuid(int number, CUuuid *out)
{
    memcpy(out->bytes, "tarn-sim-device", 15);
    out->bytes[15] = (char)('a' + number);
    if (sim_options.node > 0)
        out->bytes[14] = (char)('0' + sim_options.node);
}

/* Return true if `text`, of `length` characters, is a prefix of the UUID of device
 * `number`. */
static bool is_identity(const char *text, size_t length, int number)
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;
    CUuuid uuid;

    sim_visible_uuid(number, &uuid);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)uuid.bytes[at / 2];
        if (text[i] == '-')
            continue;
        if (at == 32 ||
            tolower((unsigned char)text[i]) != digits[at % 2 ? byte & 15 : byte >> 4])
            return false;
        at++;
    }
    return at > 0;
}

/* The device that an entry of `length` characters names, or -1. */
static int named_device(const char *text, size_t length, int count)
{
    char *end;
    long number;

    if (length > 4 && strncmp(text, "GPU-", 4) == 0) {
        for (int i = 0; i < count; i++)
            if (is_identity(text + 4, length - 4, i))
                return i;
        return -1;
    }
    number = strtol(text, &end, 10);
    return end > text && end <= text + length && number >= 0 && number < count
               ? (int)number
               : -1;
}

int sim_visible_devices(const char *text, int count, int *numbers)
{
    int visible = 0;

    for (int i = 0; !text && i < count; i++)
        numbers[visible++] = i;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        int number = named_device(text, length, count);
        if (number < 0)
            return visible;
        for (int i = 0; i < visible; i++)
            if (numbers[i] == number)
                return 0;
        numbers[visible++] = number;
        text += length + (text[length] == ',');
    }
    return visible;
}
