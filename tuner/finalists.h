#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/search/search.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Name of trials that are no baseline.
inline constexpr const char* kCandidateName = "candidate";

/// Median step, empty unless the trial was measured.
[[nodiscard]] std::optional<double> measured_step(const Trial& trial);
/// Largest peak of its devices by peak_bytes_of, 0 unless measured.
[[nodiscard]] std::int64_t largest_peak(const Trial& trial);

/// Plans of the last, interleaved series: every measured baseline, the fastest plan of any kind, the fastest pipeline, the fastest hybrid,
/// the second best of these where it is close to the best, the fastest in half of `single_device_peak_bytes`, and a runner-up that is close
/// to the fastest. No plan twice.
[[nodiscard]] std::vector<Series::Entry> choose_finalists(const std::vector<Trial>& trials, const std::vector<NamedPlan>& baselines,
                                                          std::int64_t single_device_peak_bytes);

/// Adds a copy of a trial for each further baseline with the same plan, so that every baseline has a result under its name.
[[nodiscard]] std::vector<Trial> with_every_name(std::vector<Trial> finals, const std::vector<NamedPlan>& baselines);

}  // namespace mptune::tuner
