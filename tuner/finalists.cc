#include "tuner/finalists.h"

#include <algorithm>
#include <utility>

#include "planner/parallelism.h"
#include "planner/plan_file.h"
#include "profiler/base/error.h"
#include "tuner/search/trial_search.h"

namespace mptune::tuner {
namespace {

// A runner-up is a finalist only if its trial took at most this times the fastest: every finalist costs time in every round.
constexpr double kRunnerUpWithin = 1.05;
// The second of the plans with several stages is a finalist, too, if its trial was this close: trials have few steps.
constexpr double kSecondPipelineWithin = 1.10;

using Keys = std::vector<std::string>;

bool contains(const Keys& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::vector<const Trial*> measured_by_time(const std::vector<Trial>& trials) {
  std::vector<const Trial*> measured;
  for (const Trial& trial : trials)
    if (measured_step(trial)) measured.push_back(&trial);
  std::stable_sort(measured.begin(), measured.end(),
                   [](const Trial* a, const Trial* b) { return *measured_step(*a) < *measured_step(*b); });
  return measured;
}

}  // namespace

std::optional<double> measured_step(const Trial& trial) {
  const auto* measured = std::get_if<Measured>(&trial.outcome);
  if (measured == nullptr || measured->step_s.empty()) return std::nullopt;
  return median(measured->step_s);
}

std::int64_t largest_peak(const Trial& trial) {
  const std::vector<std::int64_t> peaks = peak_bytes_of(trial);
  return peaks.empty() ? 0 : *std::max_element(peaks.begin(), peaks.end());
}

const Trial* finished_trial(const std::vector<Trial>& trials, const std::string& plan_key) {
  const Trial* failed = nullptr;
  for (const Trial& trial : trials) {
    if (trial.plan_key != plan_key || std::holds_alternative<Interrupted>(trial.outcome)) continue;
    if (measured_step(trial)) return &trial;
    if (failed == nullptr) failed = &trial;
  }
  return failed;
}

const Trial* fastest_allowed(const std::vector<Trial>& trials, const std::vector<Candidate>& listed) {
  Keys allowed;
  for (const Candidate& candidate : listed) allowed.push_back(plan_key(candidate.plan));
  for (const Trial* trial : measured_by_time(trials))
    if (trial->name == kCandidateName || trial->name == kAskedBaseline || contains(allowed, trial->plan_key)) return trial;
  return nullptr;
}

std::optional<Prediction> prediction_of(const Plan& plan, const Profile& profile) {
  try {
    return predict(plan, CostModel(profile, plan));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::int64_t single_device_peak(const std::vector<NamedPlan>& baselines, const std::vector<Trial>& trials, const Profile& profile) {
  const auto single = std::ranges::find(baselines, kSingleDeviceBaseline, &NamedPlan::name);
  if (single == baselines.end()) return 0;
  if (const Trial* trial = finished_trial(trials, plan_key(single->plan)); trial != nullptr && measured_step(*trial))
    return largest_peak(*trial);
  const auto prediction = prediction_of(single->plan, profile);
  return !prediction || prediction->peak_bytes.empty() ? 0 : std::ranges::max(prediction->peak_bytes);
}

std::vector<Series::Entry> choose_finalists(const std::vector<Trial>& trials, const std::vector<NamedPlan>& baselines,
                                            std::int64_t single_device_peak_bytes) {
  const std::vector<const Trial*> by_time = measured_by_time(trials);
  std::vector<Series::Entry> entries;
  Keys taken;
  const auto take = [&](const std::string& name, const Trial& trial) {
    if (contains(taken, trial.plan_key)) return;
    taken.push_back(trial.plan_key);
    entries.push_back({name, trial.plan, trial.prediction});
  };
  const auto take_first = [&](auto condition) {
    const auto found = std::find_if(by_time.begin(), by_time.end(), condition);
    if (found != by_time.end()) take(kCandidateName, **found);
  };
  for (const NamedPlan& baseline : baselines) {
    const std::string key = plan_key(baseline.plan);
    const auto found = std::find_if(by_time.begin(), by_time.end(), [&](const Trial* trial) { return trial->plan_key == key; });
    if (found != by_time.end()) take(baseline.name, **found);
  }
  take_first([](const Trial*) { return true; });
  for (const planner::Parallelism kind : {planner::Parallelism::pipeline, planner::Parallelism::hybrid})
    take_first([kind](const Trial* trial) { return planner::parallelism_of(trial->plan) == kind; });
  const auto fastest_multi_stage =
      std::find_if(by_time.begin(), by_time.end(), [](const Trial* trial) { return trial->plan.num_stages() > 1; });
  take_first([&](const Trial* trial) {
    return trial->plan.num_stages() > 1 && !contains(taken, trial->plan_key) &&
           *measured_step(*trial) <= kSecondPipelineWithin * *measured_step(**fastest_multi_stage);
  });
  take_first([&](const Trial* trial) { return 2 * largest_peak(*trial) <= single_device_peak_bytes; });
  take_first([&](const Trial* trial) {
    return !contains(taken, trial->plan_key) && *measured_step(*trial) <= kRunnerUpWithin * *measured_step(*by_time.front());
  });
  return entries;
}

std::vector<Trial> with_every_name(std::vector<Trial> finals, const std::vector<NamedPlan>& baselines) {
  const std::size_t count = finals.size();
  for (const NamedPlan& baseline : baselines) {
    const std::string key = plan_key(baseline.plan);
    for (std::size_t i = 0; i < count; ++i) {
      const bool named = std::any_of(finals.begin(), finals.end(), [&](const Trial& trial) { return trial.name == baseline.name; });
      if (named || finals[i].plan_key != key) continue;
      Trial copy = finals[i];
      copy.name = baseline.name;
      finals.push_back(std::move(copy));
    }
  }
  return finals;
}

}  // namespace mptune::tuner
