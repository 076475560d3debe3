#pragma once

#include <string>
#include <vector>

#include "mptune/planner/plan_file.h"
#include "mptune/planner/simulate/simulate.h"

namespace mptune {

/// A plan file of now, with the module names of its stages.
[[nodiscard]] PlanFile new_plan_file(const Plan& plan, const std::vector<ProfileLayer>& layers, const Fingerprint& fingerprint);
[[nodiscard]] PredictedStep predicted_step(const Prediction& prediction);

/// `text` as one word of a shell command, quoted where it must be.
[[nodiscard]] std::string shell_word(const std::string& text);

}  // namespace mptune
