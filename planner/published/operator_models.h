#pragma once

#include <string>

#include "profiler/trace/formats/operator_row.h"

namespace mptune::planner {

/// Returns what Aceso's operator tables with this prefix ("aceso/gpt_2_6B") do not say about their model, by its published name
/// (microsoft/SuperScaler, branch Aceso): gpt_350M and gpt_1_3B have 24 layers, gpt_2_6B and gpt_6_7B 32, gpt_13B 40, t5_22B 48; resnet_...
/// has no rows of layers, and single precision. All other names stand for 24 layers in half precision.
[[nodiscard]] profiler::OperatorModel published_model(const std::string& prefix);

}  // namespace mptune::planner
