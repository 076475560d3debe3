#pragma once

/// All that a training program needs; reached as <mptune/mptune.h>. Adapters from torch::nn are in <mptune/nn.h>.
#include "mptune/planner/plan.h"
#include "mptune/planner/plan_file.h"
#include "mptune/planner/search/search.h"
#include "mptune/profiler/base/error.h"
#include "mptune/profiler/device/device_list.h"
#include "mptune/profiler/loading/load_model.h"
#include "mptune/profiler/model/loss.h"
#include "mptune/profiler/model/model.h"
#include "mptune/profiler/state/batch_file.h"
#include "mptune/profiler/state/state.h"
#include "mptune/tuner/runtime/pipeline.h"
#include "mptune/tuner/runtime/plan_file_of.h"
