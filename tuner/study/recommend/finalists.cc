#include "tuner/study/recommend/finalists.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/parallelism.h"
#include "planner/plan/plan_error.h"
#include "profiler/trace/statistics/verdict.h"
#include "tuner/study/explore/trial_search.h"

namespace mptune::tuner {
namespace {

// A runner-up is a finalist only if its trial took at most this times as long as the fastest: every finalist costs time in every round.
constexpr double kRunnerUpWithin = 1.05;
// The second of the plans with several stages is a finalist, too, if its trial was this close: trials have few steps.
constexpr double kSecondPipelineWithin = 1.10;
constexpr int kWantedRounds = 10;

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

/// Orders entries by how much an answer without them would lack.
class Importance {
 public:
  Importance(const std::vector<Series::Entry>& entries, const std::vector<const Trial*>& by_time) : entries_(entries) {
    for (const Series::Entry& entry : entries)
      step_s_.push_back(*measured_step(**std::ranges::find(by_time, plan_key(entry.plan), &Trial::plan_key)));
  }

  /// Puts next the fastest of the remaining entries for which the condition holds.
  template <class Condition>
  void next_of_rest(Condition condition) {
    next([&](std::size_t i) { return !has(i) && condition(entries_[i]); });
  }
  /// Puts next the fastest entry for which the condition holds, unless it came before.
  template <class Condition>
  void next_of_all(Condition condition) {
    next([&](std::size_t i) { return condition(entries_[i]); });
  }
  /// Puts next the remaining entries whose step is at most `step_s`, by time.
  void rest_within(double step_s) {
    for (std::size_t before = entries_.size() + 1; before != order_.size();) {
      before = order_.size();
      next([&](std::size_t i) { return !has(i) && step_s_[i] <= step_s; });
    }
  }
  [[nodiscard]] double fastest_s() const { return std::ranges::min(step_s_); }
  /// Returns the indices of the entries, the most important first.
  [[nodiscard]] const std::vector<std::size_t>& order() const { return order_; }

 private:
  [[nodiscard]] bool has(std::size_t i) const { return std::ranges::find(order_, i) != order_.end(); }
  template <class Condition>
  void next(Condition condition) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (condition(i) && (!best || step_s_[i] < step_s_[*best])) best = i;
    if (best && !has(*best)) order_.push_back(*best);
  }

  const std::vector<Series::Entry>& entries_;
  std::vector<double> step_s_;
  std::vector<std::size_t> order_;
};

void set_importance(std::vector<Series::Entry>& entries, const std::vector<const Trial*>& by_time) {
  if (entries.empty()) return;
  Importance importance(entries, by_time);
  importance.next_of_all([](const Series::Entry&) { return true; });
  importance.next_of_rest([](const Series::Entry& entry) { return is_unpipelined(entry.plan); });
  for (const char* name : {planner::kCurrentBaseline, planner::kAskedBaseline, planner::kSingleDeviceBaseline})
    importance.next_of_all([name](const Series::Entry& entry) { return entry.name == name; });
  importance.rest_within(kRivalWithin * importance.fastest_s());
  using enum planner::Parallelism;
  for (const planner::Parallelism kind : {pipeline, data_parallel, hybrid})
    importance.next_of_all([kind](const Series::Entry& entry) { return planner::parallelism_of(entry.plan) == kind; });
  importance.rest_within(std::numeric_limits<double>::infinity());
  int most = static_cast<int>(entries.size());
  for (const std::size_t i : importance.order()) entries[i].importance = most--;
}

}  // namespace

bool is_unpipelined(const Plan& plan) {
  return planner::parallelism_of(plan) == planner::Parallelism::one_device;
}

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
    if (trial->name == kCandidateName || trial->name == planner::kAskedBaseline || contains(allowed, trial->plan_key)) return trial;
  return nullptr;
}

std::optional<Prediction> prediction_of(const Plan& plan, const Profile& profile) {
  return planner::if_possible([&] { return predict(plan, CostModel(profile, plan)); });
}

std::int64_t single_device_peak(const std::vector<planner::NamedPlan>& baselines, const std::vector<Trial>& trials,
                                const Profile& profile) {
  const auto single = std::ranges::find(baselines, planner::kSingleDeviceBaseline, &planner::NamedPlan::name);
  if (single == baselines.end()) return 0;
  if (const Trial* trial = finished_trial(trials, plan_key(single->plan)); trial != nullptr && measured_step(*trial))
    return largest_peak(*trial);
  const auto prediction = prediction_of(single->plan, profile);
  return !prediction || prediction->peak_bytes.empty() ? 0 : std::ranges::max(prediction->peak_bytes);
}

std::vector<Series::Entry> choose_finalists(const std::vector<Trial>& trials, const std::vector<planner::NamedPlan>& baselines,
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
  for (const planner::NamedPlan& baseline : baselines) {
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
  set_importance(entries, by_time);
  return entries;
}

Series::Entry take_least_important(std::vector<Series::Entry>& entries) {
  const auto least = std::ranges::min_element(entries, {}, &Series::Entry::importance);
  Series::Entry entry = std::move(*least);
  entries.erase(least);
  return entry;
}

std::vector<Series::Entry> take_those_without_time(std::vector<Series::Entry>& entries, const SeriesCost& cost, double budget_s,
                                                   double left_s) {
  const auto lacks_time = [&] { return entries.size() > 2 ? cost(entries, kLeastPairs) > budget_s : cost(entries, 1) > left_s; };
  std::vector<Series::Entry> taken;
  while (entries.size() > 1 && lacks_time()) taken.push_back(take_least_important(entries));
  return taken;
}

int least_rounds(const std::vector<Series::Entry>& entries, const SeriesCost& cost, double budget_s) {
  for (const int rounds : {kWantedRounds, static_cast<int>(kLeastForInterval)})
    if (cost(entries, rounds) <= budget_s) return rounds;
  return kLeastPairs;
}

std::vector<Trial> with_every_name(std::vector<Trial> finals, const std::vector<planner::NamedPlan>& baselines) {
  const std::size_t count = finals.size();
  for (const planner::NamedPlan& baseline : baselines) {
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
