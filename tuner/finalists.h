#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/search/search.h"
#include "profiler/trace/profile.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Name of trials that are no baseline.
inline constexpr const char* kCandidateName = "candidate";

/// Median step, empty unless the trial was measured.
[[nodiscard]] std::optional<double> measured_step(const Trial& trial);
/// Largest peak of its devices by peak_bytes_of, 0 unless measured.
[[nodiscard]] std::int64_t largest_peak(const Trial& trial);

/// The first trial of a plan that was measured, else the first that was not interrupted; null: none.
[[nodiscard]] const Trial* finished_trial(const std::vector<Trial>& trials, const std::string& plan_key);

/// The fastest trial of a plan that a search allows: of one that it lists, or of a candidate. Null where none was measured.
[[nodiscard]] const Trial* fastest_allowed(const std::vector<Trial>& trials, const std::vector<Candidate>& listed);

/// Empty where the profile does not know a device, such as one of the user's own plan.
[[nodiscard]] std::optional<Prediction> prediction_of(const Plan& plan, const Profile& profile);
/// Largest peak of the un-pipelined model, measured, else predicted; 0: neither.
[[nodiscard]] std::int64_t single_device_peak(const std::vector<NamedPlan>& baselines, const std::vector<Trial>& trials,
                                              const Profile& profile);

/// Plans of the last, interleaved series: every measured baseline, the fastest plan of any kind, the fastest pipeline, the fastest hybrid,
/// the second best of these where it is close to the best, the fastest in half of `single_device_peak_bytes`, and a runner-up that is close
/// to the fastest. No plan twice.
[[nodiscard]] std::vector<Series::Entry> choose_finalists(const std::vector<Trial>& trials, const std::vector<NamedPlan>& baselines,
                                                          std::int64_t single_device_peak_bytes);

/// Adds a copy of a trial for each further baseline with the same plan, so that every baseline has a result under its name.
[[nodiscard]] std::vector<Trial> with_every_name(std::vector<Trial> finals, const std::vector<NamedPlan>& baselines);

}  // namespace mptune::tuner
