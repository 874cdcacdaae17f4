#ifndef TARN_PLAN_H
#define TARN_PLAN_H
#include <tarn/status.h>
#include <stdbool.h>
#include <stdint.h>
typedef struct tarn_plan tarn_plan;
#endif
