/* unsupported.h -- documented calls that exist only to say CUDA_ERROR_NOT_SUPPORTED,
 * because clients will not start without them. X(name, version, symbol).
 */
#ifndef TARN_SIM_UNSUPPORTED_H
#define TARN_SIM_UNSUPPORTED_H

#define SIM_UNSUPPORTED(X)

#endif
