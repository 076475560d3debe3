#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/index.h"
#include "tests/planner/profiles.h"

namespace mptune::testing {

/// Of half of them the devices slow each other.
inline CostModel random_cost(std::mt19937& random, int layers, int devices) {
  ProfileShape shape = random_shape(random, layers, devices);
  if (std::uniform_int_distribution<int>(0, 1)(random) == 1) shape.busy = std::uniform_real_distribution<double>(1.0, 1.8)(random);
  return CostModel(make_profile(shape, random_factors(random, layers)));
}

/// Any of the stage's layers, but none and all; of all micro-batches, or now and then of some.
inline void draw_partial_recompute(std::mt19937& random, Stage& stage, int microbatches) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  stage.recompute = {Recompute::Mode::some, {}, {}};
  for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
    if (draw(0, 1) == 0) stage.recompute.layers.push_back(layer);
  if (stage.recompute.layers.empty()) stage.recompute.layers.push_back(draw(stage.first_layer, stage.last_layer - 1));
  for (int i = 0; i < microbatches && draw(0, 3) == 0; ++i) stage.recompute.microbatches.push_back(i);
}

/// Random cuts, and a recomputation for some of the stages.
inline void draw_stages(std::mt19937& random, Plan& plan) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (std::size_t s = 1; s < plan.stages.size(); ++s) {
    const int cut = draw(plan.stages[s - 1].first_layer + 1, plan.stages[s].last_layer - 1);
    plan.stages[s - 1].last_layer = plan.stages[s].first_layer = cut;
  }
  for (Stage& stage : plan.stages) {
    if (draw(0, 3) == 0) stage.recompute.mode = Recompute::Mode::all;
    if (draw(0, 3) == 0) draw_partial_recompute(random, stage, plan.num_microbatches());
  }
}

/// A stage on a device or several, gpipe or 1f1b.
inline Plan random_plan(std::mt19937& random, int layers, int devices) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int stages = draw(1, std::min(layers, devices));
  std::vector<int> replicas(as_index(stages), 1);
  for (int spare = devices - stages; spare > 0; --spare)
    if (draw(0, 1) == 1) ++replicas[as_index(draw(0, stages - 1))];
  Plan plan = stages_of(layers, replicas, split_evenly(draw(8, 16), draw(1, 8)));
  draw_stages(random, plan);
  planner::make_schedule(plan, draw(0, 1) == 0 ? "gpipe" : "1f1b");
  return plan;
}

/// Fills the plan's rows with every action once, in a random order that its data allow; `split` of 0, 1 or 2: whole backwards, some or all
/// in two.
class RandomRows {
 public:
  RandomRows(std::mt19937& random, Plan& plan, int split) : random_(random), plan_(plan) {
    const int m = plan.num_microbatches();
    for (int s = 0; s < plan.num_stages(); ++s) {
      for (int i = 0; i < m; ++i) {
        const bool two = split == 2 || (split == 1 && draw(0, 1) == 0);
        open_.push_back({s, ActionKind::forward, i});
        open_.push_back({s, two ? ActionKind::backward_input : ActionKind::backward, i});
        if (two) open_.push_back({s, ActionKind::backward_weight, i});
      }
    }
    done_.assign(plan.stages.size() * as_index(m), 0);
    plan.actions.assign(plan.devices.size(), {});
    plan.schedule = "random";
    while (!open_.empty()) step();
  }

 private:
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  int& done(int s, int i) { return done_[as_index(s * plan_.num_microbatches() + i)]; }

  bool ready(const Action& action) {
    const int own = done(action.stage, action.microbatch);
    if (action.kind == ActionKind::forward) return action.stage == 0 || done(action.stage - 1, action.microbatch) >= 1;
    if (action.kind == ActionKind::backward_weight) return own >= 2;
    return own >= 1 && (action.stage + 1 == plan_.num_stages() || done(action.stage + 1, action.microbatch) >= 2);
  }

  void step() {
    std::vector<std::size_t> choices;
    for (std::size_t k = 0; k < open_.size(); ++k)
      if (ready(open_[k])) choices.push_back(k);
    const std::size_t chosen = choices[as_index(draw(0, static_cast<int>(choices.size()) - 1))];
    const Action action = open_[chosen];
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(chosen));
    const int device = device_of(plan_.stages[as_index(action.stage)], action.microbatch);
    plan_.actions[as_index(device)].push_back(action);
    done(action.stage, action.microbatch) = action.kind == ActionKind::forward ? 1 : 2;
  }

  std::mt19937& random_;
  Plan& plan_;
  std::vector<Action> open_;
  std::vector<int> done_;  // 1: forward, 2: the input's gradient as well
};

/// Any stages on any devices (in turn, in a V, at random, with replicas) with random rows; `split` as in RandomRows.
inline Plan random_virtual_plan(std::mt19937& random, int layers, int devices, int split) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int stages = draw(1, std::min(layers, 2 * devices));
  Plan plan = stages_of(layers, std::vector<int>(as_index(stages), 1), split_evenly(draw(6, 12), draw(1, 6)));
  plan.devices.clear();
  for (int d = 0; d < devices; ++d) plan.devices.push_back("sleep:" + std::to_string(d));
  const int map = draw(0, 3);
  for (int s = 0; s < stages; ++s) {
    const int turn = s % (2 * devices);
    const int v = turn < devices ? turn : 2 * devices - 1 - turn;
    std::vector<int>& on = plan.stages[as_index(s)].devices;
    on = {map == 0 ? s % devices : map == 1 ? v : draw(0, devices - 1)};
    if (map == 3 && devices > 1 && draw(0, 1) == 0) on.push_back((on.front() + 1) % devices);
  }
  draw_stages(random, plan);
  RandomRows(random, plan, split);
  return plan;
}

/// Fuses weight gradients of random neighbours among the micro-batches of stages without replicas, where the last of them was.
inline void fuse_some_weights(std::mt19937& random, Plan& plan) {
  for (int s = 0; s < plan.num_stages(); ++s) {
    if (plan.stages[as_index(s)].devices.size() > 1) continue;
    std::vector<Action>& row = plan.actions[as_index(plan.stages[as_index(s)].devices.front())];
    for (int first = 0, last = 0; first < plan.num_microbatches(); first = last + 1) {
      last = std::uniform_int_distribution<int>(first, plan.num_microbatches() - 1)(random);
      const auto fused = [=](const Action& action) {
        return action.stage == s && action.kind == ActionKind::backward_weight && action.microbatch >= first && action.microbatch <= last;
      };
      auto left = std::ranges::count_if(row, fused);
      if (left < last - first + 1) continue;
      std::vector<Action> kept;
      for (const Action& action : row) {
        if (!fused(action))
          kept.push_back(action);
        else if (--left == 0)
          kept.push_back({s, ActionKind::backward_weight, first, last - first});
      }
      row = std::move(kept);
    }
  }
}

/// Each layer fuses a share of its own at all sizes. The largest size is that of any fused micro-batches.
inline Profile with_fused_shares(Profile profile, std::mt19937& random) {
  for (DeviceClass& device_class : profile.classes)
    for (LayerCosts& layer : device_class.layers) {
      const double share = std::uniform_real_distribution<double>(0, 1)(random);
      layer.by_samples.push_back(layer.by_samples.back());
      layer.by_samples.back().samples = 1 << 10;
      for (LayerCost& cost : layer.by_samples) cost.split = SplitMemory{.fused_share = share};
    }
  return profile;
}

}  // namespace mptune::testing
