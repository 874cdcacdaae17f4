/* tarn_conformance.h -- check that a resource keeps the promises of tarn/resource.h.
 *
 * For authors of a resource or an adaptor: compile tarn_conformance.c into a test,
 * specify how your resource is created, and run it.
 *
 *     static void report(void *data, const char *check, const char *what)
 *     {
 *         if (what)
 *             printf("%s: %s\n", check, what);
 *     }
 *
 *     tarn_conformance_subject subject = {sizeof subject, "mine", make_mine};
 *     return tarn_conformance_run(&subject, report, NULL) != 0;
 *
 * It needs a driver: a GPU, or the driver simulator (TARN_DRIVER=sim). Only public
 * headers are used. To check contexts and streams, it opens the driver that Tarn has
 * open.
 */
#ifndef TARN_CONFORMANCE_H
#define TARN_CONFORMANCE_H

#include <tarn/tarn.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The resource to test. Zeros are the defaults. */
typedef struct tarn_conformance_subject {
    size_t size;      /**< sizeof(tarn_conformance_subject) */
    const char *name; /**< for messages */

    /** Create a resource, or return another reference to it if it is shared. */
    tarn_status (*create)(void *data, int device, tarn_resource **out);
    void *data;

    /** The device to create it on; 0. A resource that reports TARN_DEVICE_NONE is tested
     * with host memory. */
    int device;

    /** It cannot detect foreign pointers, second frees and wrong sizes, so these are not
     * tried: they would be undefined. */
    bool trusts_its_caller;

    /** Others in this process hold references to it, so no release here is the last. */
    bool is_held_elsewhere;

    /** The largest alignment that it supports; 0: 2 MiB is tried. */
    size_t largest_alignment;

    /** A free without a stream may wait for all work of the device, although
     * tarn_resource_deallocate_synchronizes() is false. The checks with work that does not
     * end then take 20 ms instead of 20 s. */
    bool waits_without_a_stream;
} tarn_conformance_subject;

/** Report of the checks: once with NULL for a check that passed, or one line for each
 * failure of it. */
typedef void (*tarn_conformance_report)(void *data, const char *check, const char *what);

/** Run all checks; return the number of failed ones. */
int tarn_conformance_run(const tarn_conformance_subject *subject,
                         tarn_conformance_report report, void *data);

#ifdef __cplusplus
}
#endif
#endif
