#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/plan/parallelism.h"
#include "planner/search/search_result.h"
#include "profiler/trace/values/training_spec.h"
#include "tuner/study/store/no_plan.h"

namespace mptune::tuner {

/// The fastest plan of a kind of parallelism that the search found.
struct PredictedKind {
  std::string description;
  double step_s = 0;
  std::vector<std::int64_t> peak_bytes;
  bool operator==(const PredictedKind&) const = default;
};

/// The fastest predicted plan of another number of devices like these.
struct OtherDevices {
  int devices = 0;
  planner::Parallelism kind = planner::Parallelism::one_device;
  double step_s = 0;
  bool operator==(const OtherDevices&) const = default;
};

/// What the table of kinds needs besides trials.
struct KindFacts {
  std::vector<std::string> whole_machine;                   ///< devices of all cores
  std::map<planner::Parallelism, PredictedKind> predicted;  ///< by kind
  std::map<planner::Parallelism, NoPlan> no_plan;           ///< by kind: why the search has none
  std::vector<OtherDevices> other_devices;                  ///< ascending
  bool operator==(const KindFacts&) const = default;
};

/// A baseline that the tuning run had to measure.
struct PlannedBaseline {
  std::string name;
  std::string plan_key;
  std::string description;
  double predicted_step_s = 0;  ///< 0: not predicted
  bool operator==(const PlannedBaseline&) const = default;
};

/// What is known of a tuning run besides its trials; a study stores it so that `report` shows what `tune` showed.
struct StudySummary {
  std::vector<std::string> devices;
  std::vector<std::string> whole_machine;
  int batch = 0;
  double lower_bound_s = 0;
  double gap = 0;
  double elapsed_s = 0;
  std::string stop_reason;
  TrainingSpec training;  ///< what was asked for; without a model in studies of earlier versions
  KindFacts kinds;
  StagesPerDevice stages_per_device = {};       ///< stages per device of the search
  std::vector<PlannedBaseline> baselines = {};  ///< all baselines, measured or not
  std::string asked = {};                       ///< TuneOptions::asked
  bool operator==(const StudySummary&) const = default;
};

/// Returns the summary in the form in which a study stores it.
[[nodiscard]] std::string summary_to_json(const StudySummary& summary);
/// Returns the stored summary. Throws Error (usage) where `json` is no summary; `folder` is the study's.
[[nodiscard]] StudySummary summary_from_json(const std::string& json, const std::string& folder);

}  // namespace mptune::tuner
