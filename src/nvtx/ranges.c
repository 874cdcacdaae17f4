/* ranges.c -- ranges in the timeline of a tool, in NVTX's domain `tarn`. */
#include "nvtx/ranges.h"
#include "nvtx/tool.h"

bool tarn__ranges_begin(const char *name, uint64_t bytes)
{
    const struct tarn__tool *tool = tarn__tool_get();
    struct tarn__nvtx_event event = {.version = TARN__NVTX_VERSION,
                                     .size = sizeof event,
                                     .message_type = TARN__NVTX_ASCII,
                                     .message = {.ascii = name}};

    if (!tool || !tool->range_push)
        return false;
    if (bytes > 0) {
        event.payload_type = TARN__NVTX_PAYLOAD_U64;
        event.payload.u64 = bytes;
    }
    tool->range_push(tool->domain, &event);
    return true;
}

void tarn__ranges_end(bool has_begun)
{
    const struct tarn__tool *tool = tarn__tool_get();

    if (has_begun)
        tool->range_pop(tool->domain);
}
