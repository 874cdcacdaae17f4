/* The memory beneath a pool. */
#include "driver/driver.h"
#include "test.h"

TEST(internals_of_the_pool_can_be_called)
{
    const struct tarn__calls *calls;

    CHECK_OK(tarn__driver(&calls));
    CHECK(calls->mem_map != NULL);
}
