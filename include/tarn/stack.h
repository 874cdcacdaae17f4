/* stack.h -- call stacks: each is stored once in a process and has a small number.
 *
 * A tracker (adaptor.h) keeps the number of a stack for each live block. The frames of a
 * stack are those of a language runtime, such as Python's functions with file and line.
 * Where no runtime knows the thread, they are native: a module and an offset in it.
 *
 * The table of stacks only grows, so that a number means the same stack until the process
 * ends. It has a bound. Stacks that find no space have the number TARN_STACK_UNKNOWN, and
 * are counted.
 */
#ifndef TARN_STACK_H
#define TARN_STACK_H

#include <stdio.h>
#include <tarn/status.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_stack
 * @{ */

/** Number of a call stack in this process. A forked child keeps its parent's numbers. */
typedef uint32_t tarn_stack;

/** The number of a stack that was not captured, or for which there was no space. */
#define TARN_STACK_UNKNOWN 0
/** Most frames of a stack; a capture drops the outermost frames beyond. */
#define TARN_STACK_DEPTH_MAX 128

/** One frame of a call stack. */
typedef struct tarn_stack_frame {
    const char *function; /**< Name of the function; "" if unknown. */
    /** Source file; the path of the module in a native frame. */
    const char *file;
    int line; /**< Line in the source file, from 1; 0 if unknown or native. */
    /** Native frame: address of the call in the module, as addr2line takes it; else 0. */
    uint64_t offset;
    /** Native frame: build-id of the module in hexadecimal digits, "" if it has none.
     *
     * NULL in a frame of a language runtime. */
    const char *build_id;
} tarn_stack_frame;

/** Capture the stack of the calling thread.
 *
 * The finder supplies the frames. If there is no finder, or it returns
 * TARN_STACK_UNKNOWN, the frames are native. Innermost frames of libtarn are left out of
 * native stacks. Native frames need unwind tables, which compilers emit by default.
 *
 * Thread-safety: any thread.
 *
 * @param depth most frames to capture, from the innermost on; at most
 *              TARN_STACK_DEPTH_MAX. 0 captures nothing.
 * @return the number of the stack; TARN_STACK_UNKNOWN if it has no frames, or if there is
 *         no space for it.
 * @since 0.2
 */
TARN_API tarn_stack tarn_stack_capture(unsigned depth);

/** Copy the frames of a stack, the innermost first.
 *
 * The strings stay valid until the process ends. The names of native functions come from
 * the dynamic symbols of modules that are still loaded.
 *
 * Thread-safety: any thread.
 *
 * @param stack       the number of the stack.
 * @param capacity    most frames to copy.
 * @param[out] frames array of `capacity` frames; may be NULL if `capacity` is 0.
 * @return the number of all frames, which may exceed `capacity`; 0 if `stack` is not the
 *         number of a stack.
 * @since 0.2
 */
TARN_API size_t tarn_stack_frames(tarn_stack stack, size_t capacity,
                                  tarn_stack_frame *frames);

/** Print a line for each frame of a stack, the innermost last.
 *
 * The lines are like those of Python's tracebacks. A native line has the offset and the
 * build-id, for `addr2line -e FILE OFFSET`. An unknown stack is one line.
 *
 * Thread-safety: any thread.
 *
 * @param stack the number of the stack.
 * @param out   the stream to print to; not NULL.
 * @since 0.2
 */
TARN_API void tarn_stack_print(tarn_stack stack, FILE *out);

/** The table of stacks. */
typedef struct tarn_stack_counts {
    size_t size;      /**< sizeof(tarn_stack_counts). */
    uint64_t stacks;  /**< Stacks in the table. */
    uint64_t entries; /**< Stacks, frames and strings; at most 1,048,576. */
    uint64_t bytes;   /**< Bytes of the entries; at most 64 MiB and one entry. */
    uint64_t lost;    /**< Captures for which there was no space or no host memory. */
} tarn_stack_counts;

/** Count the entries of the table of stacks.
 *
 * Thread-safety: any thread.
 *
 * @param[out] out the counts; the caller sets `out->size` first.
 * @return
 * - TARN_OK: `*out` is filled.
 * - TARN_INVALID_ARGUMENT: `out` is NULL, or `out->size` is too small.
 * @since 0.2
 */
TARN_API tarn_status tarn_stack_get_counts(tarn_stack_counts *out);

/* --- for language runtimes ---------------------------------------------------------- */

/** Finds the stack of the calling thread in a language runtime.
 *
 * It returns the number of a stack of at most `depth` frames, or TARN_STACK_UNKNOWN if
 * the runtime does not know the thread.
 *
 * The thread may hold locks of resources above the one that captures. So the finder may
 * not wait for anything that needs those locks. */
typedef tarn_stack (*tarn_stack_finder)(unsigned depth);

/** Set the process-wide function that finds stacks. The one that was set last counts.
 *
 * Thread-safety: any thread.
 *
 * @param find the finder; NULL removes the present one.
 * @since 0.2
 */
TARN_API void tarn_stack_set_finder(tarn_stack_finder find);

/** Add a frame to the table, unless an equal one is there.
 *
 * The strings of `frame` are replaced by the table's equal ones, which stay valid until
 * the process ends. The table cuts strings after 4,096 bytes.
 *
 * Thread-safety: any thread.
 *
 * @param[in,out] frame the frame; not NULL. NULL stands for "" in `function` and `file`.
 * @return the number of the frame, for tarn_stack_add(); 0 if there is no space, and then
 *         `frame` is unchanged.
 * @since 0.2
 */
TARN_API uint32_t tarn_stack_add_frame(tarn_stack_frame *frame);

/** Add a stack to the table, unless an equal one is there.
 *
 * Thread-safety: any thread.
 *
 * @param frames numbers of its frames from tarn_stack_add_frame(), the innermost first.
 * @param count  number of frames; those after TARN_STACK_DEPTH_MAX are dropped.
 * @return the number of the stack; TARN_STACK_UNKNOWN if `count` is 0, if a number is not
 *         that of a frame, or if there is no space.
 * @since 0.2
 */
TARN_API tarn_stack tarn_stack_add(const uint32_t *frames, size_t count);

/** @} */

TARN_END_DECLS
#endif
