#pragma once

/// All that a training program needs; reached as <mptune/mptune.h>. Adapters from torch::nn are in <mptune/nn.h>.
#include "planner/plan.h"
#include "planner/plan_file.h"
#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "profiler/device/device_list.h"
#include "profiler/loading/load_model.h"
#include "profiler/model/loss.h"
#include "profiler/model/model.h"
#include "profiler/state/batch_file.h"
#include "profiler/state/state.h"
#include "tuner/runtime/pipeline.h"
#include "tuner/runtime/plan_file_of.h"
#include "tuner/training/checkpoint.h"
#include "tuner/training/gradient_scaler.h"
#include "tuner/training/training_state.h"
