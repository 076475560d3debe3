#include "planner/search/finish/offload_stages.h"

#include <algorithm>
#include <utility>

#include "planner/plan/offload.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

bool within_caps(const std::vector<std::int64_t>& peaks, const std::vector<std::int64_t>& caps) {
  return std::ranges::equal(peaks, caps, [](std::int64_t peak, std::int64_t cap) { return cap <= 0 || peak <= cap; });
}

bool can_offload_stage(const Plan& plan, const Stage& stage, const CostModel& cost) {
  return std::ranges::all_of(stage.devices,
                             [&](int device) { return cost.copies().can_offload(cost.device_index(plan.devices[as_index(device)])); });
}

bool recomputes_any(const Stage& stage) {
  return stage.recompute.mode != Recompute::Mode::none;
}

class Offloading {
 public:
  Offloading(const Candidate& plain, const std::vector<std::int64_t>& caps, const CostModel& cost)
      : caps_(caps), cost_(cost), best_(plain), plain_s_(plain.prediction.step_s) {
    for (std::size_t s = 0; s < plain.plan.stages.size(); ++s)
      if (recomputes_any(plain.plan.stages[s]) && can_offload_stage(plain.plan, plain.plan.stages[s], cost)) stages_.push_back(s);
  }

  OffloadSearch run() {
    if (stages_.size() > 1) improves(stages_);
    while (improve()) continue;
    OffloadSearch found{std::nullopt, simulated_};
    if (best_.prediction.step_s < plain_s_) found.faster.emplace(std::move(best_));
    return found;
  }

 private:
  // Adds the one stage more that makes the step shortest.
  bool improve() {
    const Candidate before = best_;
    bool improved = false;
    for (const std::size_t stage : stages_)
      if (recomputes_any(before.plan.stages[stage])) improved |= improves({stage}, before);
    return improved;
  }

  bool improves(const std::vector<std::size_t>& stages) { return improves(stages, Candidate(best_)); }

  bool improves(const std::vector<std::size_t>& stages, const Candidate& from) {
    Plan plan = from.plan;
    for (const std::size_t stage : stages) {
      plan.stages[stage].recompute = {};
      plan.stages[stage].offload = true;
    }
    Prediction prediction = predict(plan, cost_);
    ++simulated_;
    if (prediction.step_s >= best_.prediction.step_s || !within_caps(prediction.peak_bytes, caps_)) return false;
    best_ = {std::move(plan), std::move(prediction)};
    return true;
  }

  const std::vector<std::int64_t>& caps_;
  const CostModel& cost_;
  Candidate best_;
  double plain_s_;
  std::vector<std::size_t> stages_;  // stages that recompute and can offload
  std::int64_t simulated_ = 0;
};

}  // namespace

bool may_offload(const SearchSpace& space) {
  const auto capped = [](std::int64_t cap) { return cap > 0; };
  const bool caps = std::ranges::any_of(space.memory_bytes, capped) || space.whole_machine_memory_bytes > 0;
  return caps && space.capabilities.offload && (space.recompute.empty() || space.recompute == "none");
}

std::optional<Plan> offloading_over_caps(Plan plan, const std::vector<std::int64_t>& peaks, const std::vector<std::int64_t>& caps,
                                         const CostModel& cost) {
  if (std::ranges::any_of(plan.stages, recomputes_any)) return std::nullopt;
  const auto over = [&](int device) { return caps[as_index(device)] > 0 && peaks[as_index(device)] > caps[as_index(device)]; };
  for (Stage& stage : plan.stages) {
    if (std::ranges::none_of(stage.devices, over)) continue;
    if (!can_offload_stage(plan, stage, cost)) return std::nullopt;
    stage.offload = true;
  }
  if (!offloads(plan) || !within_caps(cost.peak_bytes(plan), caps)) return std::nullopt;
  return plan;
}

OffloadSearch offload_recomputed(const Candidate& plain, const std::vector<std::int64_t>& caps, const CostModel& cost) {
  return Offloading(plain, caps, cost).run();
}

}  // namespace mptune::planner
