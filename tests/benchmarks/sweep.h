#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan/helping.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "planner/search/search.h"
#include "planner/simulate/schedule_costs.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "profiler/measure/measure.h"
#include "profiler/trace/statistics/verdict.h"
#include "tuner/runtime/pipeline.h"

// Measures every plan of a space, and compares with the predictions and the planner's choice.
namespace mptune::testing {

struct SweptPlan {
  Plan plan;
  Prediction prediction;
  Samples step_s;
  std::vector<std::int64_t> peak_bytes;  ///< measured
};

inline std::vector<std::string> names_of(const std::vector<DeviceSpec>& devices) {
  std::vector<std::string> names;
  for (const DeviceSpec& device : devices) names.push_back(device.name);
  return names;
}

/// All plans with one stage per device: every cut, gpipe and 1f1b, these numbers of micro-batches.
inline SearchSpace sweep_space(const std::vector<DeviceSpec>& devices, int batch, std::vector<int> microbatch_counts) {
  SearchSpace space;
  space.devices = names_of(devices);
  space.batch = batch;
  space.stage_counts = {static_cast<int>(devices.size())};
  space.schedules = {"gpipe", "1f1b"};
  space.recompute = "none";
  space.microbatch_counts = std::move(microbatch_counts);
  return space;
}

inline std::vector<std::vector<int>> every_cuts(int layers, int stages) {
  std::vector<bool> cut(as_index(layers) - 1);
  std::fill_n(cut.begin(), stages - 1, true);
  std::vector<std::vector<int>> all;
  do {
    all.emplace_back();
    for (std::size_t i = 0; i < cut.size(); ++i)
      if (cut[i]) all.back().push_back(static_cast<int>(i) + 1);
  } while (std::prev_permutation(cut.begin(), cut.end()));
  return all;
}

/// The order as it is given; of GPUs every order, since their speeds and links may differ.
inline std::vector<std::vector<std::string>> orders_of(std::vector<std::string> devices) {
  std::vector<std::vector<std::string>> all{devices};
  if (device_kind(devices.front()) != DeviceSpec::Kind::cuda) return all;
  std::ranges::sort(devices);
  all = {devices};
  while (std::ranges::next_permutation(devices).found) all.push_back(devices);
  return all;
}

/// Every cut and order of devices with as many stages on each as a schedule has at least; where it splits the backward and the space asks
/// for it, with and without help of idle devices.
inline std::vector<SweptPlan> every_plan(const SearchSpace& space, const CostModel& cost) {
  std::vector<SweptPlan> all;
  const std::vector<std::vector<std::string>> orders = orders_of(space.devices);
  const auto add = [&](const Plan& plan) { all.push_back({plan, predict(plan, cost), {}, {}}); };
  for (const int m : space.microbatch_counts)
    for (const std::string& schedule : space.schedules) {
      if (m == 1 && schedule != space.schedules.front()) continue;  // one micro-batch has one order
      const int each = planner::schedule_info(schedule).least_virtual_stages;
      const std::vector<std::vector<int>> all_cuts = every_cuts(cost.layers(), each * static_cast<int>(space.devices.size()));
      for (std::size_t i = 0; i < all_cuts.size() * orders.size(); ++i) {
        const std::vector<int>& cuts = all_cuts[i / orders.size()];
        PlanOptions options;
        options.devices = orders[i % orders.size()];
        options.batch = space.batch;
        options.layers = cost.layers();
        options.virtual_stages = each;
        options.cuts = cuts;
        options.microbatches = m;
        options.schedule = schedule;
        Plan plan = make_plan(options);
        planner::schedule_plan(plan, schedule, cost);
        add(plan);
        if (!space.idle_devices_help || !planner::splits_backward(plan) || !planner::all_can_help(plan.devices)) continue;
        plan.options.idle_devices_help = true;
        add(plan);
      }
    }
  return all;
}

/// At most this many: half of them those predicted to be fastest, the others spread evenly over the rest.
inline std::vector<SweptPlan> thinned(std::vector<SweptPlan> all, std::size_t most) {
  if (all.size() <= most) return all;
  std::ranges::stable_sort(all, {}, [](const SweptPlan& swept) { return swept.prediction.step_s; });
  const std::size_t fastest = most / 2, rest = all.size() - fastest, spread = most - fastest;
  std::vector<SweptPlan> kept(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(fastest));
  for (std::size_t i = 0; i < spread; ++i) kept.push_back(all[fastest + i * rest / spread]);
  return kept;
}

/// Index of this plan, which is added if it is missing.
inline std::size_t add_plan(const Plan& plan, std::vector<SweptPlan>& all, const CostModel& cost) {
  const auto same = std::ranges::find_if(all, [&](const SweptPlan& swept) {
    return swept.plan.devices == plan.devices && swept.plan.stages == plan.stages && swept.plan.actions == plan.actions &&
           swept.plan.options == plan.options;
  });
  if (same == all.end()) return all.push_back({plan, predict(plan, cost), {}, {}}), all.size() - 1;
  return as_index(same - all.begin());
}

/// Index of the plan that a search of the space ranks first. It is added if it is missing.
inline std::size_t planners_choice(std::vector<SweptPlan>& all, const SearchSpace& space, const CostModel& cost) {
  return add_plan(search_plans(space, cost).ranked.at(0).plan, all, cost);
}

/// The plans that were measured in most rounds.
inline std::size_t fastest_of(const std::vector<SweptPlan>& all) {
  const auto found = std::ranges::min_element(all, {}, [](const SweptPlan& swept) {
    return std::pair(-static_cast<std::int64_t>(swept.step_s.values.size()), median(swept.step_s));
  });
  return as_index(found - all.begin());
}

/// Measures plans in rounds, in a new order each. After the first round go on: the choice, those within `within` of the best, and the
/// unreliable. A round's steps of a plan follow each other, so that one stall of the machine may be in all of them.
struct Sweep {
  std::function<Model()> model;
  Batch data;
  int rounds = 8;
  double within = 1.15;
  int steps = 2;  ///< of a plan in a round, behind one of warm-up
  std::function<bool(const SweptPlan&)> unreliable = [](const SweptPlan&) { return false; };
  std::function<void(std::size_t left)> after_first = [](std::size_t) {};

  void run(std::vector<SweptPlan>& all, std::size_t choice) const {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 random(5);
    for (int round = 0; round < rounds; ++round) {
      std::ranges::shuffle(order, random);
      for (std::size_t i = 0; i < order.size(); ++i) measure(all[order[i]], round, static_cast<int>(i));
      if (round > 0) continue;
      const double best = median(all[fastest_of(all)].step_s);
      std::erase_if(order, [&](std::size_t i) { return i != choice && median(all[i].step_s) > within * best && !unreliable(all[i]); });
      after_first(order.size());
    }
  }

 private:
  void measure(SweptPlan& swept, int round, int position) const {
    Pipeline pipeline(model(), swept.plan);
    (void)pipeline.step(data.inputs, data.target);
    for (int i = 0; i < steps; ++i) swept.step_s.values.push_back({pipeline.step(data.inputs, data.target).seconds, round, position, 0});
    swept.peak_bytes = pipeline.peak_bytes();
  }
};

/// Error relative to the measured time; 0 within the measurement's interval, of few steps within their range.
inline double error_beyond_interval(const SweptPlan& swept) {
  const Interval ci = interval95(swept.step_s).value_or(range_of(swept.step_s));
  const double predicted = swept.prediction.step_s;
  return std::max({0.0, ci.low - predicted, predicted - ci.high}) / median(swept.step_s);
}

}  // namespace mptune::testing
