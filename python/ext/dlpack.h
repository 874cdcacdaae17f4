/* dlpack.h -- the types of DLPack 1.0, with which libraries exchange arrays.
 *
 * Two versions of the managed tensor are in use. The older has no version number. A
 * consumer requests the newer with `max_version`.
 */
#ifndef TARN_PYTHON_DLPACK_H
#define TARN_PYTHON_DLPACK_H

#include "state.h"

#include <stdint.h>

enum tarn__dlpack_device_type {
    TARN__DLPACK_CUDA = 2,
    TARN__DLPACK_CUDA_HOST = 3,
    TARN__DLPACK_CUDA_MANAGED = 13
};

struct tarn__dlpack_device {
    int32_t type;
    int32_t id;
};

enum { TARN__DLPACK_UINT = 1 }; /* code of an unsigned integer */

struct tarn__dlpack_dtype {
    uint8_t code;
    uint8_t bits;   /* of one lane */
    uint16_t lanes; /* 1: no vector */
};

struct tarn__dlpack_tensor {
    void *data;
    struct tarn__dlpack_device device;
    int32_t ndim;
    struct tarn__dlpack_dtype dtype;
    int64_t *shape;   /* `ndim` numbers */
    int64_t *strides; /* in elements; NULL: rows are contiguous */
    uint64_t byte_offset;
};

#define TARN__DLPACK_NAME "dltensor"
#define TARN__DLPACK_USED_NAME "used_dltensor"

struct tarn__dlpack_managed {
    struct tarn__dlpack_tensor tensor;
    void *context; /* the producer's */
    void (*deleter)(struct tarn__dlpack_managed *self);
};

#define TARN__DLPACK_VERSIONED_NAME "dltensor_versioned"
#define TARN__DLPACK_USED_VERSIONED_NAME "used_dltensor_versioned"

enum { TARN__DLPACK_MAJOR = 1, TARN__DLPACK_MINOR = 0 };
enum tarn__dlpack_flag { TARN__DLPACK_READ_ONLY = 1, TARN__DLPACK_COPIED = 2 };

struct tarn__dlpack_versioned {
    struct {
        uint32_t major; /* another number: only this and `deleter` are where they are */
        uint32_t minor;
    } version;
    void *context;
    void (*deleter)(struct tarn__dlpack_versioned *self);
    uint64_t flags;
    struct tarn__dlpack_tensor tensor;
};

#endif
