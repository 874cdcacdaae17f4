/* damage.h -- finding changed bytes, and reports. */
#ifndef TARN_GUARD_DAMAGE_H
#define TARN_GUARD_DAMAGE_H

#include "guard/guard.h"

/* Compare `count` bytes with the fill. They are a copy of the bytes from `offset` of the
 * block on. Returns false if all are equal. Otherwise it fills the part of the report that
 * tells what was found. */
bool tarn__damage_find(const unsigned char *bytes, size_t count, unsigned char fill,
                       int64_t offset, tarn_guard_report *report);

/* Join a find behind another one of the same block. */
void tarn__damage_join(tarn_guard_report *report, const tarn_guard_report *behind);

/* Complete a report with the facts of a block, count it and pass it to the handler. No
 * lock is held. */
void tarn__damage_report(struct tarn__guard *guard, const struct tarn__guard_site *site,
                         tarn_guard_report *report);

#endif
