#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/search/search.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/measure/measure.h"
#include "profiler/statistics/verdict.h"
#include "tuner/runtime/pipeline.h"

// Measures every plan of a space, and compares with the predictions and the planner's choice.
namespace mptune::testing {

struct SweptPlan {
  Plan plan;
  Prediction prediction;
  Samples step_s;
  std::vector<std::int64_t> peak_bytes;  ///< measured
};

/// All plans with one stage per device: every cut, gpipe and 1f1b, these numbers of micro-batches.
inline SearchSpace sweep_space(const std::vector<DeviceSpec>& devices, int batch, std::vector<int> microbatch_counts) {
  SearchSpace space;
  for (const DeviceSpec& device : devices) space.devices.push_back(device.name);
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

inline std::vector<SweptPlan> every_plan(const SearchSpace& space, const CostModel& cost) {
  std::vector<SweptPlan> all;
  for (const int m : space.microbatch_counts)
    for (const std::vector<int>& cuts : every_cuts(cost.layers(), space.stage_counts.front()))
      for (const std::string& schedule : space.schedules) {
        if (m == 1 && schedule != space.schedules.front()) continue;  // one micro-batch has one order
        PlanOptions options;
        options.devices = space.devices;
        options.batch = space.batch;
        options.layers = cost.layers();
        options.cuts = cuts;
        options.microbatches = m;
        options.schedule = schedule;
        const Plan plan = make_plan(options);
        all.push_back({plan, predict(plan, cost), {}, {}});
      }
  return all;
}

/// Index of the plan that a search of the space ranks first.
inline std::size_t planners_choice(const std::vector<SweptPlan>& all, const SearchSpace& space, const CostModel& cost) {
  const Plan best = search_plans(space, cost).ranked.at(0).plan;
  const auto chosen = std::ranges::find_if(
      all, [&](const SweptPlan& swept) { return swept.plan.stages == best.stages && swept.plan.actions == best.actions; });
  if (chosen == all.end())
    throw Error("the planner chose a plan that is not in the sweep", describe(best), "make the sweep's space the planner's");
  return as_index(chosen - all.begin());
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

/// Error relative to the measured time; 0 within the measurement's interval.
inline double error_beyond_interval(const SweptPlan& swept) {
  const Interval ci = interval95(swept.step_s);
  const double predicted = swept.prediction.step_s;
  return std::max({0.0, ci.low - predicted, predicted - ci.high}) / median(swept.step_s);
}

}  // namespace mptune::testing
