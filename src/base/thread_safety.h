/* thread_safety.h -- annotations that tell Clang's thread-safety analysis which lock
 * guards a field, and which lock a function requires, takes or releases.
 *
 * `clang -Wthread-safety` checks them. Other compilers, and the program, ignore them.
 *
 * An annotation names a kind of lock, not one lock: the analysis of C relates neither a
 * field to a lock in the same structure, nor `pool->lock` to `caller->pool->lock`. So a
 * thread may hold one lock of a kind at a time. A kind is a declaration without a
 * definition:
 *
 *     TARN__LOCK_KIND(pool_lock);
 *     int count TARN__GUARDED_BY(pool_lock);
 *     void work(struct tarn__pool *pool) TARN__REQUIRES(pool_lock);
 */
#ifndef TARN_BASE_THREAD_SAFETY_H
#define TARN_BASE_THREAD_SAFETY_H

#ifdef __clang__
#define TARN__THREAD_SAFETY(...) __attribute__((__VA_ARGS__))
struct TARN__THREAD_SAFETY(capability("lock")) tarn__lock_kind {
    int unused;
};
#define TARN__LOCK_KIND(kind) extern const struct tarn__lock_kind tarn__kind_of_##kind
#else
#define TARN__THREAD_SAFETY(...)
#define TARN__LOCK_KIND(kind) struct tarn__lock_kind
#endif

/* The field is read and written under the lock. */
#define TARN__GUARDED_BY(kind) TARN__THREAD_SAFETY(guarded_by(tarn__kind_of_##kind))
/* The caller holds the lock. */
#define TARN__REQUIRES(kind) \
    TARN__THREAD_SAFETY(requires_capability(tarn__kind_of_##kind))
/* The function takes the lock; takes it if it returns `success`; releases it. */
#define TARN__ACQUIRE(kind) TARN__THREAD_SAFETY(acquire_capability(tarn__kind_of_##kind))
#define TARN__TRY_ACQUIRE(success, kind) \
    TARN__THREAD_SAFETY(try_acquire_capability(success, tarn__kind_of_##kind))
#define TARN__RELEASE(kind) TARN__THREAD_SAFETY(release_capability(tarn__kind_of_##kind))
/* The function asserts that the caller holds the lock: the analysis relies on it. */
#define TARN__ASSERTS(kind) TARN__THREAD_SAFETY(assert_capability(tarn__kind_of_##kind))
/* The analysis skips the body of the function; a comment beside it says why. */
#define TARN__NO_THREAD_SAFETY_ANALYSIS TARN__THREAD_SAFETY(no_thread_safety_analysis)

#endif
