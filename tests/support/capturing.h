/* capturing.h -- check that a capture survives concurrent calls of Tarn. */
#ifndef TARN_TEST_CAPTURING_H
#define TARN_TEST_CAPTURING_H

#include <tarn/tarn.h>

/* Call `work` on device 0 while a stream captures: blocking and non-blocking streams,
 * each of the three modes, the capturing thread and another one. The test fails if work
 * is not TARN_OK, the capture is lost, or the thread has another capture mode afterwards.
 */
void capture_survives(tarn_status (*work)(void));

#endif
