/* vmm_peer.h -- access of other devices to the memory of a range. */
#ifndef TARN_POOL_VMM_PEER_H
#define TARN_POOL_VMM_PEER_H

#include "pool/backing/backing.h"

/* Do tarn__pages_set_peer() for VMM. */
tarn_status tarn__vmm_peer_set(struct tarn__pages *pages, int peer, bool access);

#endif
