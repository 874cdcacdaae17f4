/* assemble.h -- cross-stream assembly: handles in pieces of several streams become one
 * stream's. */
#ifndef TARN_POOL_ASSEMBLE_H
#define TARN_POOL_ASSEMBLE_H

#include "pool/order/caller.h"

/* Assemble memory of several streams where too little of the free whole handles can move
 * for the request (tarn__placement_find()). It makes handles that lie in pieces of
 * several streams the caller's, after a wait for each stream. Returns true if there are
 * some, in the open epoch of the caller's stream state. `growth` held. */
bool tarn__assemble(struct tarn__caller *caller, const struct tarn__request *request)
    TARN__REQUIRES(growth);

#endif
