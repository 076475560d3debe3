#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/search/baselines.h"
#include "planner/search/space/search_space.h"
#include "profiler/trace/values/profile.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// The name of trials that are no baseline.
inline constexpr const char* kCandidateName = "candidate";

/// Returns true for one stage on one device, which is what a program does without mptune.
[[nodiscard]] bool is_unpipelined(const Plan& plan);

/// Returns the median step, empty unless the trial was measured.
[[nodiscard]] std::optional<double> measured_step(const Trial& trial);
/// Returns the largest peak of the trial's devices by peak_bytes_of(), 0 unless the trial was measured.
[[nodiscard]] std::int64_t largest_peak(const Trial& trial);

/// Returns the first trial of a plan that was measured, else the first that was not interrupted; null for none.
[[nodiscard]] const Trial* finished_trial(const std::vector<Trial>& trials, const std::string& plan_key);

/// Returns the fastest trial of a plan that a search allows: of a plan that it lists, or of a candidate. Null where none was measured.
[[nodiscard]] const Trial* fastest_allowed(const std::vector<Trial>& trials, const std::vector<Candidate>& listed);

/// Returns the prediction of a plan. Empty where the profile does not know a device, such as a device of the user's own plan.
[[nodiscard]] std::optional<Prediction> prediction_of(const Plan& plan, const Profile& profile);
/// Returns the largest peak of the un-pipelined model, measured, else predicted; 0 for neither.
[[nodiscard]] std::int64_t single_device_peak(const std::vector<planner::NamedPlan>& baselines, const std::vector<Trial>& trials,
                                              const Profile& profile);

/// A plan whose own trial took more than this times as long as the fastest trial is no rival: a machine changes by less between two trials.
inline constexpr double kRivalWithin = 1.5;

/// Chooses the plans of the last, interleaved series: every measured baseline, the fastest plan of any kind, the fastest pipeline, the
/// fastest hybrid, the second best of these where it is close to the best, the fastest in half of `single_device_peak_bytes`, and a
/// runner-up that is close to the fastest. No plan comes twice. Most important is the fastest plan, then what the answer compares it with:
/// the fastest other un-pipelined plan, the user's own, one device. Then come its rivals (kRivalWithin), the fastest of each kind, and the
/// rest by time.
[[nodiscard]] std::vector<Series::Entry> choose_finalists(const std::vector<Trial>& trials,
                                                          const std::vector<planner::NamedPlan>& baselines,
                                                          std::int64_t single_device_peak_bytes);

/// Takes out the least important entry and returns it. Requires: not empty.
[[nodiscard]] Series::Entry take_least_important(std::vector<Series::Entry>& entries);

/// Returns what a series of these plans with `rounds` rounds takes [s].
using SeriesCost = std::function<double(const std::vector<Series::Entry>& entries, int rounds)>;

/// Takes out the least important finalists until the rounds that a verdict needs fit into `budget_s`. One of the last two is taken out only
/// if not even one round fits into `left_s`. Returns the plans taken out.
[[nodiscard]] std::vector<Series::Entry> take_those_without_time(std::vector<Series::Entry>& entries, const SeriesCost& cost,
                                                                 double budget_s, double left_s);

/// Returns the rounds that every finalist gets: 10 where they fit, else as many as an interval needs, else as many as a verdict needs.
[[nodiscard]] int least_rounds(const std::vector<Series::Entry>& entries, const SeriesCost& cost, double budget_s);

/// Adds a copy of a trial for each further baseline with the same plan, so that every baseline has a result under its name.
[[nodiscard]] std::vector<Trial> with_every_name(std::vector<Trial> finals, const std::vector<planner::NamedPlan>& baselines);

}  // namespace mptune::tuner
