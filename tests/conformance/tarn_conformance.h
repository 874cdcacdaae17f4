/* tarn_conformance.h -- does a resource keep what tarn/resource.h promises?
 *
 * For people who write a resource or an adaptor: compile tarn_conformance.c into a test,
 * say how your resource is made, and run it.
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
 * It needs a driver: a GPU, or the stand-in (TARN_DRIVER=sim). Only public headers are
 * used. To look at contexts and streams itself, it opens the driver that Tarn has open.
 */
#ifndef TARN_CONFORMANCE_H
#define TARN_CONFORMANCE_H

#include <tarn/tarn.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What is to be tested. Zeros are the defaults. */
typedef struct tarn_conformance_subject {
    size_t size;      /**< sizeof(tarn_conformance_subject) */
    const char *name; /**< for messages */

    /** Make one, or hand out another reference to it if it is shared. */
    tarn_status (*create)(void *data, int device, tarn_resource **out);
    void *data;

    /** The device to make it on; 0. A resource that says it belongs to TARN_DEVICE_NONE
     * is tested with host memory. */
    int device;

    /** It cannot tell foreign pointers, second frees and wrong bytes, so these are not
     * tried: they would be undefined. */
    bool trusts_its_caller;

    /** Others in this process hold references to it, so no release here is the last. */
    bool is_held_elsewhere;

    /** The largest alignment that it can do; 0: 2 MiB is tried. */
    size_t largest_alignment;
} tarn_conformance_subject;

/** Told of each check once with NULL where it passed, or one or more times with what was
 * wrong, in one line. */
typedef void (*tarn_conformance_report)(void *data, const char *check, const char *what);

/** Run all checks; returns how many failed. */
int tarn_conformance_run(const tarn_conformance_subject *subject,
                         tarn_conformance_report report, void *data);

#ifdef __cplusplus
}
#endif
#endif
