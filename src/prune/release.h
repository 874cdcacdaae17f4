/* release.h -- releasing calls: which calls may release a reference that the function
 * does not name?
 *
 * A call releases, unless it is proved that it does not:
 *
 *   - LLVM says that it writes no memory: memory(none), memory(read);
 *   - it is an intrinsic that LLVM declares as nofree;
 *   - the callee is outside of the module and in the list of numba_helpers.h;
 *   - the callee's body is in the module and has no releasing call and no decref.
 *
 * Bodies are summarized from the bottom up. All are taken for harmless at first, and a
 * function that is not makes its callers releasing until nothing changes, so recursion
 * needs no rule of its own. A body counts if the linker cannot replace it by another:
 * linkonce_odr and weak_odr count, weak and linkonce do not.
 *
 * Counts that are lowered by anything but calls are not seen.
 */
#ifndef TARN_PRUNE_RELEASE_H
#define TARN_PRUNE_RELEASE_H

#include "prune/arena.h"
#include <llvm-c/Core.h>

/* A function with a body that counts. */
struct tarn__release_body {
    LLVMValueRef function;
    bool releases;
    uint32_t first_caller; /* its callers begin here; 0: there is none */
};

/* A call of one body by another. */
struct tarn__release_caller {
    uint32_t body, next; /* index of the caller; next entry, or 0 */
};

struct tarn__release {
    LLVMModuleRef module; /* NULL: bodies do not count */
    bool calls_keep;      /* no call releases anything, by assumption */
    unsigned memory, readonly, readnone, nofree; /* kinds of attributes; 0: unknown */
    struct tarn__arena arena;

    /* The summaries, made when first needed. */
    bool summarized;
    uint32_t body_count, caller_count, caller_capacity;
    struct tarn__release_body *bodies;
    uint32_t *slots; /* by function: index of its body + 1, or 0 */
    size_t slot_mask;
    struct tarn__release_caller *callers; /* 0 is unused */
};

/* With `calls_keep` no call releases. Close it at the end. */
void tarn__release_open(struct tarn__release *release, LLVMModuleRef module,
                        bool calls_keep);
void tarn__release_close(struct tarn__release *release);

/* May this instruction, which is no refop, release a reference? After a failed allocation
 * (`arena.failed`) the answer is yes for every call. */
bool tarn__release_by(struct tarn__release *release, LLVMValueRef instruction);
/* Does this instruction, which is no refop, release its argument: an invoked decref, or
 * NRT_MemInfo_release? */
bool tarn__release_of_argument(LLVMValueRef instruction);

#endif
