/* fabric_encoding.h -- the encoding of fabric handles and of the messages about leases. */
#ifndef TARN_IPC_FABRIC_ENCODING_H
#define TARN_IPC_FABRIC_ENCODING_H

#include <tarn/fabric.h>

enum { TARN__IDENTITY_BYTES = 16, TARN__FABRIC_BYTES = 64 };

/* Native byte order, which all nodes of a fabric share. */
struct tarn__fabric_encoding {
    unsigned char magic[8];
    unsigned char owner[TARN__IDENTITY_BYTES];
    unsigned char fabric[TARN__FABRIC_BYTES]; /* a CUmemFabricHandle */
    unsigned char uuid[16];                   /* of the device */
    uint64_t generation;                      /* of the entry in the export table */
    uint64_t segment_bytes;
    uint64_t offset; /* of the block in the segment */
    uint64_t bytes;  /* of the block */
    uint32_t slot;   /* of that entry */
    int32_t device;  /* the owner's number of the device */
    int32_t process; /* the owner's process id, for messages only */
    uint32_t zero;
    uint64_t check; /* checksum of all fields before it */
};
_Static_assert(sizeof(struct tarn__fabric_encoding) == sizeof(tarn_fabric_handle),
               "the encoding fills a handle");

enum tarn__fabric_step { /* requests, and replies to them */
                         TARN__FABRIC_BEGIN = 1,
                         TARN__FABRIC_RENEW = 2,
                         TARN__FABRIC_END = 3,
                         TARN__FABRIC_REPLY = 4
};

struct tarn__fabric_message {
    unsigned char magic[8];
    uint32_t step;   /* a tarn__fabric_step */
    uint32_t status; /* of a reply: a tarn_status; else 0 */
    unsigned char owner[TARN__IDENTITY_BYTES];
    unsigned char importer[TARN__IDENTITY_BYTES];
    uint64_t generation; /* of the entry in the owner's export table */
    uint64_t number;     /* of the lease, unique in the importer */
    uint64_t secret; /* of the lease: the owner's random number; 0 in a first request */
    uint32_t slot;
    int32_t process;       /* the importer's process id, for reports only */
    uint32_t milliseconds; /* the time of the lease; 0: it has ended */
    uint32_t zero;
    uint64_t check;
};
_Static_assert(sizeof(struct tarn__fabric_message) == sizeof(tarn_fabric_message),
               "the encoding fills a message");

/* Fill in magic and check. */
void tarn__fabric_encoding_seal(struct tarn__fabric_encoding *encoding,
                                tarn_fabric_handle *out);
void tarn__fabric_encoding_seal_message(struct tarn__fabric_message *message,
                                        tarn_fabric_message *out);

/* Decode bytes that came from outside; TARN_INVALID_ARGUMENT for wrong ones. */
tarn_status tarn__fabric_encoding_decode(const tarn_fabric_handle *handle,
                                         struct tarn__fabric_encoding *out);
tarn_status tarn__fabric_encoding_decode_message(const tarn_fabric_message *message,
                                                 struct tarn__fabric_message *out);

/* Return the identity of this process, which other processes know it by. */
tarn_status tarn__fabric_encoding_identity(unsigned char out[TARN__IDENTITY_BYTES]);

#endif
