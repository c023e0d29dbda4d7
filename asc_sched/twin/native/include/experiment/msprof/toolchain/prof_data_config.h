// Nothing of CANN's profiling data configuration is needed beyond prof_api.h.
#ifndef ASC_SCHED_TWIN_PROF_DATA_CONFIG_H
#define ASC_SCHED_TWIN_PROF_DATA_CONFIG_H
#include "prof_api.h"
#endif
