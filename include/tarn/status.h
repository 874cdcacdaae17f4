/* status.h -- statuses, error messages and warnings.
 *
 * A function that can fail returns a `tarn_status`. On failure it leaves its outputs
 * unchanged and records one line for the calling thread: `tarn_error_last()`.
 */
#ifndef TARN_STATUS_H
#define TARN_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Opens and closes a block of C declarations in a C++ program. */
#ifdef __cplusplus
#define TARN_BEGIN_DECLS extern "C" {
#define TARN_END_DECLS }
#else
#define TARN_BEGIN_DECLS
#define TARN_END_DECLS
#endif

/** Marks a function that the library exports. */
#if defined(__GNUC__)
#define TARN_API __attribute__((visibility("default")))
/** Has the compiler check the arguments of a printf() format. */
#define TARN_PRINTF(format_index, first) \
    __attribute__((format(printf, format_index, first)))
#else
#define TARN_API
#define TARN_PRINTF(format_index, first)
#endif

TARN_BEGIN_DECLS

/** @addtogroup tarn_status
 * @{ */

/** Every status: name, value, description. Values never change; new ones are appended. */
#define TARN_STATUS_MAP(X)                                               \
    X(OK, 0, "success")                                                  \
    X(OUT_OF_MEMORY, 1, "not enough memory")                             \
    X(INVALID_ARGUMENT, 2, "an argument is invalid")                     \
    X(NOT_SUPPORTED, 3, "the object does not support the operation")     \
    X(NO_DRIVER, 4, "no GPU driver could be loaded")                     \
    X(DRIVER_FAILURE, 5, "the GPU driver reported an error")             \
    X(STILL_IN_USE, 6, "allocations, references or handles are live")    \
    X(PLUGIN_FAILURE, 7, "user-supplied code failed")                    \
    X(SYSTEM_FAILURE, 8, "the operating system reported an error")       \
    X(BAD_FORMAT, 9, "the input has an invalid format")                  \
    X(NOT_FOUND, 10, "not found")                                        \
    X(REENTRANT_CALL, 11, "a callback called the object that called it") \
    X(SUSPENDED, 12, "the pool is suspended")                            \
    X(ALREADY_SET, 13, "the process has set or used another one before") \
    X(STREAM_CAPTURING, 14, "the stream is capturing a graph")           \
    X(LIMIT_REACHED, 15, "the number of entries is limited")             \
    X(BUSY, 16, "a thread that no longer exists was in a call")

/** The result of a function that can fail. */
typedef enum tarn_status {
#define X(name, value, meaning) TARN_##name = value,
    TARN_STATUS_MAP(X)
#undef X
} tarn_status;

#define X(name, value, meaning) +1
/** Holds the number of statuses. */
enum {
    TARN_STATUS_COUNT = 0 TARN_STATUS_MAP(X) /**< the number; later versions have more */
};
#undef X

/** The last failure of a thread. */
typedef struct tarn_error {
    tarn_status status; /**< the status that the function returned */
    int native;         /**< the driver's CUresult, or errno; 0: none */
    char message[480];  /**< one line, `module: problem, numbers`, without a full stop */
} tarn_error;

/**
 * Returns the last failure of the calling thread.
 *
 * A successful call leaves it unchanged. Thread-safety: any thread; each has its own.
 *
 * @return the failure, never NULL, valid until the thread's next failure; before the first
 *         one `status` is TARN_OK and `message` is empty
 * @since 0.1
 */
TARN_API const tarn_error *tarn_error_last(void);

/**
 * Records a failure for the calling thread and returns its status.
 *
 * A plugin can write `return tarn_error_set(TARN_NOT_SUPPORTED, "arena: %zu bytes", bytes);`.
 * The message is formatted first, so an argument may be the message that it replaces.
 * `native` becomes 0. Thread-safety: any thread.
 *
 * @param status the status to record
 * @param format a printf() format; the message is cut after 479 bytes
 * @return `status`
 * @since 0.1
 */
TARN_API tarn_status tarn_error_set(tarn_status status, const char *format, ...)
    TARN_PRINTF(2, 3);

/**
 * Records a failure together with the error code of the driver or the system.
 *
 * Otherwise as tarn_error_set(). Thread-safety: any thread.
 *
 * @param status the status to record
 * @param native a CUresult or an errno
 * @param format a printf() format; the message is cut after 479 bytes
 * @return `status`
 * @since 0.1
 */
TARN_API tarn_status tarn_error_set_native(tarn_status status, int native,
                                           const char *format, ...) TARN_PRINTF(3, 4);

/**
 * Receives one warning: a problem that no function returns.
 *
 * Examples are a setting that is ignored, and a free that fails in tarn_pointer_release().
 * Tarn calls the handler on the thread that found the problem, possibly on several threads
 * at once, with no lock held. `data` is the argument of tarn_set_warning_handler(). The
 * handler must not call Tarn. It must return: no longjmp(), no C++ exception.
 */
typedef void (*tarn_warning_handler)(void *data, const char *message);

/**
 * Sets the process-wide warning handler.
 *
 * Before the first call warnings go to stderr, one line each after `tarn: warning: `, unless
 * the environment has TARN_WARNINGS=off. The call waits until no other thread runs the
 * previous handler, so its data may be freed afterwards. Warnings during the wait are
 * discarded. Thread-safety: any thread.
 *
 * @param handler the handler; NULL discards warnings
 * @param data    passed to each call of the handler; not owned
 * @since 0.1
 */
TARN_API void tarn_set_warning_handler(tarn_warning_handler handler, void *data);

/**
 * Returns the last warning of the calling thread, even if no handler received it.
 *
 * Thread-safety: any thread; each has its own.
 *
 * @return the message, valid until the thread's next warning; "" before the first one
 * @since 0.1
 */
TARN_API const char *tarn_warning_last(void);

/**
 * Emits a warning: passes it to the warning handler and keeps it for the calling thread.
 *
 * It is for code that finds a problem in a function that cannot fail, such as a destructor.
 * The caller holds no lock that the handler may take. Thread-safety: any thread.
 *
 * @param format a printf() format of one line, `module: problem, numbers`; the message is
 *               cut after 479 bytes
 * @since 0.2
 */
TARN_API void tarn_warn(const char *format, ...) TARN_PRINTF(1, 2);

/**
 * A hook that Tarn calls before a call may block.
 *
 * It serves languages with one interpreter lock, such as Python's GIL. A thread that holds
 * the lock may call these functions without releasing it first:
 *
 * - tarn_pointer_allocate(), tarn_pointer_release()
 * - tarn_manager_memalloc()
 * - tarn_resource_allocate(), tarn_resource_deallocate()
 *
 * The hook releases the lock. Tarn calls it on the calling thread, with no lock of Tarn's
 * held, before the first step that may take long: a driver call, a wait for another thread,
 * or a callback. It is called at most once until it is set again. Holding the interpreter
 * lock across a blocking call can deadlock: the device may wait for a host function that
 * needs the lock. A cache hit in a pool makes no call of the hook. Treat every other
 * function as one that may block.
 */
typedef struct tarn_blocking_hook {
    void (*call)(struct tarn_blocking_hook *self); /**< called before a blocking step */
} tarn_blocking_hook;

/**
 * Sets the blocking-call hook of the calling thread.
 *
 * Thread-safety: any thread; each has its own hook.
 *
 * @param next the hook; NULL: none. The caller owns it and keeps it until another is set
 * @return the previous hook; NULL if there was none, or if it has been called since
 * @since 0.2
 */
TARN_API tarn_blocking_hook *tarn_set_blocking_hook(tarn_blocking_hook *next);

/**
 * Returns the name of a status.
 *
 * Thread-safety: any thread.
 *
 * @param status a status, or any other number
 * @return for example "TARN_OUT_OF_MEMORY"; "TARN_?" for a number that is no status. Static
 *         storage
 * @since 0.1
 */
TARN_API const char *tarn_status_name(tarn_status status);

/**
 * Returns a short description of a status.
 *
 * Thread-safety: any thread.
 *
 * @param status a status, or any other number
 * @return the description; static storage
 * @since 0.2
 */
TARN_API const char *tarn_status_string(tarn_status status);

/** @} */

TARN_END_DECLS
#endif
