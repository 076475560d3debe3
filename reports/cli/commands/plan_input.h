#pragma once

#include <string>
#include <vector>

#include "profiler/base/device_pool.h"
#include "profiler/base/device_spec.h"
#include "profiler/trace/formats/any_profile.h"
#include "profiler/trace/formats/operator_row.h"
#include "profiler/trace/values/profile.h"
#include "profiler/trace/values/training_spec.h"
#include "reports/cli/options/plan_choice.h"

namespace mptune::reports {

/// A profile with everything that a search needs; what the file lacks is assumed or comes from options.
struct PlanInput {
  Profile profile;
  std::vector<DeviceSpec> devices;         ///< devices that plans may use; pools are evenly divided
  std::vector<DevicePool> pools = {};      ///< pools that the profile was measured for
  std::vector<std::string> assumed;        ///< what the file does not say, and what was taken for it; a clause each
  profiler::OperatorModel operators = {};  ///< model of operator tables
  TrainingSpec training = {};              ///< what the profile was made for, files found; without a model where the file does not say it
};

/// Returns what is taken for the model of operator tables with this prefix. `layers`: as --encoder-layers has it; "": by the published
/// name.
/// Throws Error, also where another format is given `layers`.
[[nodiscard]] profiler::OperatorModel operator_model_of(const std::string& path, profiler::ProfileFormat format, const std::string& layers);

/// Reads a recording of ours. `link` ("" where not given) replaces the measured links. Throws Error.
[[nodiscard]] PlanInput recorded_input(const std::string& path, const std::string& link);

/// Reads a public profile and adds what its format lacks: equal devices "device:0" and on, one per stage or replica of `choice`; links
/// between all of them at `link`, else by the bandwidth table p2p_intra_node.csv beside operator tables; the batch, 4 micro-batches of the
/// largest profiled size per device or as many as `choice` says. Where only one micro-batch size was profiled, `choice` gets it unless it
/// has another already. Throws Error where the readers do, and for a number of devices or links that nobody gave.
[[nodiscard]] PlanInput public_input(const std::string& path, profiler::ProfileFormat format, const std::string& link,
                                     const std::string& batch, const profiler::OperatorModel& model, PlanChoice& choice);

}  // namespace mptune::reports
