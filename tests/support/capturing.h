/* capturing.h -- does a capture survive what Tarn does meanwhile? */
#ifndef TARN_TEST_CAPTURING_H
#define TARN_TEST_CAPTURING_H

#include <tarn/tarn.h>

/* Call `work` on device 0 while a stream captures: blocking and non-blocking streams, in
 * each of the three modes, from the thread that captures and from another one. The test
 * fails where work is not TARN_OK, the capture is lost, or the thread has another capture
 * mode afterwards. */
void capture_survives(tarn_status (*work)(void));

#endif
