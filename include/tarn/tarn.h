/* tarn.h -- all of Tarn in one include. */
#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <tarn/version.h>
#include <tarn/status.h>
#include <tarn/driver.h>
#include <tarn/resource.h>
#include <tarn/pool.h>
#include <tarn/trace.h>
#include <tarn/adaptor.h>
#include <tarn/device.h>
#include <tarn/nrt.h>
#include <tarn/nrt_resource.h>
#include <tarn/pointer.h>
#include <tarn/ipc.h>
#include <tarn/manager.h>

#endif
