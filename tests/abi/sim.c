/* Compare the simulator's constants, calls and structures with NVIDIA's headers. */
#include "test.h"
#include <cuda.h>
#include <cudaTypedefs.h>
#include "sim/core/attributes.h"
#include "sim/core/calls.h"
#include "sim/core/constants.h"
#include "sim/core/errors.h"
#include "sim/core/unsupported.h"
#include "sim_layout.h"

#define SAME(name, number, ...) _Static_assert((int)(name) == (number), #name);
SIM_ERRORS(SAME)
SIM_CONSTANTS(SAME)

#define SAME_ATTRIBUTE(name, number, answer) \
    _Static_assert(CU_DEVICE_ATTRIBUTE_##name == (number), #name);
SIM_ATTRIBUTES(SAME_ATTRIBUTE)

/* Every call exists in that version. The profiler's calls are in a header of their own,
 * and two old ones are declared only for the driver itself. */
#define PFN_cuProfilerStart_v4000 void *
#define PFN_cuProfilerStop_v4000 void *
#define PFN_cuIpcOpenMemHandle_v4010 void *
#define PFN_cuStreamBeginCapture_v10000 void *
#define HAS(name, version, ...) sizeof(PFN_##name##_v##version),
__attribute__((unused)) static const size_t calls[] = {SIM_CALLS(HAS, HAS)
                                                           SIM_UNSUPPORTED(HAS)};

extern const size_t sim_ours[];

TEST(sim_structures_are_laid_out_as_the_drivers)
{
    static const size_t theirs[] = {SIM_LAYOUT(SIM_MEASURE_SIZE, SIM_MEASURE_FIELD)};

    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        CHECK_EQUAL(theirs[i], sim_ours[i]);
}

TEST(sim_calls_are_those_of_the_driver)
{
    CHECK(sizeof calls / sizeof *calls > 200);
}
