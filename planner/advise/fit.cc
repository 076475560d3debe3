#include "planner/advise/fit.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "planner/advise/fit_variants.h"
#include "planner/plan/plan_error.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"

namespace mptune::planner {
namespace {

constexpr int kMostKinds = 3;     // kinds of change at once
constexpr int kMostDevices = 64;  // devices that are counted

using Kinds = std::vector<FitKind>;

/// Returns the subsets of `count` kinds, each in the order in which they are made.
std::vector<Kinds> kinds_at_once(int count) {
  std::vector<Kinds> sets;
  for (unsigned set = 1; set < 1u << kFitKinds.size(); ++set) {
    Kinds kinds;
    for (std::size_t i = 0; i < kFitKinds.size(); ++i)
      if ((set >> i & 1u) != 0) kinds.push_back(kFitKinds[i]);
    if (std::ssize(kinds) == count) sets.push_back(std::move(kinds));
  }
  return sets;
}

class Fitter {
 public:
  Fitter(const FitQuestion& question, const CostModel& cost) : question_(question), cost_(cost) {}

  FitAnswer answer() {
    answer_.excess = excess(question_.plan);
    if (answer_.excess.bytes == 0) return std::move(answer_);
    answer_.nearest = answer_.excess;
    nearest_ = question_.plan;
    for (int count = 1; count <= kMostKinds && answer_.changes.empty() && answer_.complete; ++count) {
      for (const Kinds& kinds : kinds_at_once(count))
        if (auto change = smallest(question_.plan, kinds, 0, {})) answer_.changes.push_back(std::move(*change));
    }
    std::ranges::stable_sort(answer_.changes, {}, [](const FittingChange& c) { return std::pair(c.changes, c.prediction.step_s); });
    if (answer_.changes.empty()) {
      answer_.raised = with_values(answer_.nearest_options, {caps_for(nearest_)});
      answer_.needed = devices_needed(question_.plan, answer_.excess.device, answer_.excess.cap_bytes, kMostDevices, cost_);
    }
    return std::move(answer_);
  }

 private:
  [[nodiscard]] Excess excess(const Plan& plan) {
    worked_ += std::int64_t{2} * plan.num_stages() * plan.num_microbatches();
    return excess_of(plan, cost_.peak_bytes(plan), question_.devices, question_.memory_bytes);
  }

  /// Returns the change that makes the plan fit with the least of kinds[at], then the least of the next kind, and is fastest among equal
  /// ones.
  std::optional<FittingChange> smallest(const Plan& plan, const Kinds& kinds, std::size_t at, const std::vector<FieldValue>& options) {
    if (at == kinds.size()) return fitting(plan, static_cast<int>(kinds.size()), options);
    std::optional<FittingChange> best;
    int amount = 0;
    for (FitVariant& variant : fit_variants(kinds[at], plan, question_, cost_)) {
      if (best && variant.amount > amount) break;
      if (worked_ > question_.most_actions) {
        answer_.complete = false;
        break;
      }
      if (!made(variant.plan)) continue;
      auto change = smallest(variant.plan, kinds, at + 1, with_values(options, variant.options));
      if (!change || (best && best->prediction.step_s <= change->prediction.step_s)) continue;
      best = std::move(change);
      amount = variant.amount;
    }
    return best;
  }

  static bool made(Plan& plan) {
    const auto schedule = [&plan] {
      make_schedule(plan, plan.schedule);
      return true;
    };
    return !plan.actions.empty() || if_possible(schedule).has_value();
  }

  std::optional<FittingChange> fitting(const Plan& plan, int changes, const std::vector<FieldValue>& options) {
    if (!executable(plan, question_.capabilities)) return std::nullopt;
    const Excess over = excess(plan);
    if (over.bytes == 0) return FittingChange{options, changes, plan, predict(plan, cost_)};
    if (over.bytes < answer_.nearest.bytes) {
      answer_.nearest = over;
      answer_.nearest_options = options;
      nearest_ = plan;
    }
    return std::nullopt;
  }

  /// Returns caps under which the plan fits, for all devices that plans may use.
  [[nodiscard]] FieldValue caps_for(const Plan& plan) const {
    const std::vector<std::int64_t> peaks = cost_.peak_bytes(plan);
    std::vector<std::int64_t> of_devices(question_.devices.size(), 0);
    for (std::size_t d = 0; d < peaks.size(); ++d)
      of_devices.at(as_index(std::ranges::find(question_.devices, plan.devices[d]) - question_.devices.begin())) = peaks[d];
    return raised_caps(question_.devices, question_.memory_bytes, of_devices);
  }

  const FitQuestion& question_;
  const CostModel& cost_;
  FitAnswer answer_;
  Plan nearest_;
  std::int64_t worked_ = 0;  // actions
};

}  // namespace

Excess excess_of(const Plan& plan, const std::vector<std::int64_t>& peak_bytes, const std::vector<std::string>& devices,
                 const std::vector<std::int64_t>& memory_bytes) {
  const std::vector<std::int64_t> caps = caps_of_plan(plan, devices, memory_bytes);
  Excess most;
  for (std::size_t d = 0; d < caps.size(); ++d)
    if (caps[d] > 0 && peak_bytes.at(d) - caps[d] > most.bytes) most = {peak_bytes[d] - caps[d], plan.devices[d], caps[d]};
  return most;
}

FieldValue raised_caps(const std::vector<std::string>& devices, const std::vector<std::int64_t>& memory_bytes,
                       const std::vector<std::int64_t>& peak_bytes) {
  const bool alike = std::ranges::adjacent_find(memory_bytes, std::ranges::not_equal_to{}) == memory_bytes.end();
  if (alike) return {Field::memory, size_option(std::max(memory_bytes.front(), std::ranges::max(peak_bytes)))};
  std::vector<std::string> caps;
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (memory_bytes[d] > 0) caps.push_back(devices[d] + "=" + size_option(std::max(memory_bytes[d], peak_bytes[d])));
  return {Field::memory, join(caps, ",")};
}

FitAnswer smallest_changes_that_fit(const FitQuestion& question, const CostModel& cost) {
  return Fitter(question, cost).answer();
}

}  // namespace mptune::planner
