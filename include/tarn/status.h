/* status.h -- the one way in which Tarn's calls report success and failure.
 *
 * A call that can fail returns a `tarn_status`, leaves its outputs untouched when it
 * does, and keeps one line of words for the thread that made it: `tarn_error_last()`.
 */
#ifndef TARN_STATUS_H
#define TARN_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TARN_BEGIN_DECLS extern "C" {
#define TARN_END_DECLS }
#else
#define TARN_BEGIN_DECLS
#define TARN_END_DECLS
#endif

#if defined(__GNUC__)
#define TARN_API __attribute__((visibility("default")))
#define TARN_PRINTF(words, first) __attribute__((format(printf, words, first)))
#else
#define TARN_API
#define TARN_PRINTF(words, first)
#endif

TARN_BEGIN_DECLS

/** Every outcome a Tarn call can report: name, value, meaning. Values never change. */
#define TARN_STATUS_MAP(X)                                           \
    X(OK, 0, "success")                                              \
    X(OUT_OF_MEMORY, 1, "not enough memory")                         \
    X(INVALID_ARGUMENT, 2, "an argument is out of range")            \
    X(NOT_SUPPORTED, 3, "this object does not offer that operation") \
    X(NO_DRIVER, 4, "no GPU driver could be loaded")                 \
    X(DRIVER_FAILURE, 5, "the GPU driver reported an error")         \
    X(STILL_IN_USE, 6, "memory or handles are still out")            \
    X(PLUGIN_FAILURE, 7, "user-supplied code failed")                \
    X(SYSTEM_FAILURE, 8, "the operating system reported an error")   \
    X(BAD_FORMAT, 9, "a file does not say what it should")           \
    X(NOT_FOUND, 10, "there is no such thing")

typedef enum tarn_status {
#define X(name, value, meaning) TARN_##name = value,
    TARN_STATUS_MAP(X)
#undef X
} tarn_status;

/** How many statuses there are; grows with later versions. */
#define X(name, value, meaning) +1
enum { TARN_STATUS_COUNT = 0 TARN_STATUS_MAP(X) };
#undef X

/** What the most recent failing call on this thread had to say. */
typedef struct tarn_error {
    tarn_status status; /**< what that call returned */
    int native;         /**< the driver's own code (a CUresult) or errno; 0 if none */
    char message[480];  /**< one line, `who: what, numbers`, no full stop, terminated */
} tarn_error;

/** The detail behind the last failure on this thread; a success leaves it alone. Never
 * NULL; valid until the thread's next failure. Any thread. */
TARN_API const tarn_error *tarn_error_last(void);

/** Record a failure for this thread and return `status`, so that a plugin can write
 *  `return tarn_error_set(TARN_NOT_SUPPORTED, "arena: %zu bytes ...", bytes);`. The words
 *  are formatted first, so they may quote the message that they replace. `native` is 0.
 */
TARN_API tarn_status tarn_error_set(tarn_status status, const char *format, ...)
    TARN_PRINTF(2, 3);

/** As tarn_error_set(), and keeps the driver's or the system's own code beside the words.
 */
TARN_API tarn_status tarn_error_set_native(tarn_status status, int native,
                                           const char *format, ...) TARN_PRINTF(3, 4);

/** Receives one line about something that no call returns: a setting that is ignored, or a
 * failure where no status can be returned, as in tarn_pointer_release(). It is called on
 * the thread that found it, on several at once, too, with no lock held. It may not call
 * Tarn, and has to return: to leave it by longjmp() or an exception is forbidden. */
typedef void (*tarn_warning_handler)(void *data, const char *message);

/** Who hears warnings; NULL: nobody. Before the first call it is stderr, one line each
 * after `tarn: warning: `, and nobody where the environment says TARN_WARNINGS=off. Waits until
 * no other thread runs the handler before, so that its data may be freed afterwards; meanwhile
 * nobody hears a warning. Any thread. */
TARN_API void tarn_set_warning_handler(tarn_warning_handler handler, void *data);

/** The last warning of the calling thread, whoever heard it; "" if there was none. Valid
 * until the thread's next warning. */
TARN_API const char *tarn_warning_last(void);

/** For languages with one lock around their interpreter. A thread that holds it may call
 * tarn_pointer_allocate(), tarn_pointer_release(), tarn_manager_memalloc(),
 * tarn_resource_allocate() and tarn_resource_deallocate() without letting it go, and lets it
 * go where that turns out to be needed: `call` is called on the calling thread, with no lock
 * of Tarn's held, before the first thing that may take long (the driver's work, another
 * thread's, or anybody's own code), and at most once until it is set again. To hold such a
 * lock over a wait can be for ever: the device may wait for a host function that needs it.
 * What a pool has at hand it gives without, so the lock's two changes of hands, which cost
 * more than the block, are saved. All other calls have to be taken for long ones. */
typedef struct tarn_blocking_hook {
    void (*call)(struct tarn_blocking_hook *self);
} tarn_blocking_hook;

/** Set who is told on this thread; NULL: nobody. Returns who was before, NULL too if he has
 * been told since. `next` stays yours and has to be there until another one is set. */
TARN_API tarn_blocking_hook *tarn_set_blocking_hook(tarn_blocking_hook *next);

/** The name of a status, e.g. "TARN_OUT_OF_MEMORY"; "TARN_?" for a number that is none.
 */
TARN_API const char *tarn_status_name(tarn_status status);

/** The meaning of a status in a few words; static storage. */
TARN_API const char *tarn_status_string(tarn_status status);

TARN_END_DECLS
#endif
