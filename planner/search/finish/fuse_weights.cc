#include "planner/search/finish/fuse_weights.h"

#include <algorithm>
#include <span>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kLeastGain = 0.01;  // share of the step that bit-equal gradients are worth

void fuse(std::vector<Action>& row, int stage, int first, int last) {
  const auto in_group = [=](const Action& action) {
    return action.stage == stage && action.kind == ActionKind::backward_weight && action.microbatch >= first && action.microbatch <= last;
  };
  if (std::ranges::count_if(row, in_group) != last - first + 1) return;
  *std::find_if(row.rbegin(), row.rend(), in_group) = {stage, ActionKind::backward_weight, first, last - first};
  std::erase_if(row, [&](const Action& action) { return in_group(action) && action.further == 0; });
}

class Fusing {
 public:
  Fusing(const Candidate& plain, const std::vector<std::int64_t>& caps, const CostModel& cost, std::int64_t most_simulated)
      : plain_(plain), caps_(caps), cost_(cost), most_simulated_(most_simulated), best_(plain), sizes_(plain.plan.stages.size(), 1) {
    const int m = plain.plan.num_microbatches();
    for (int size = 1; size < m; size *= 2) choices_.push_back(size);
    choices_.push_back(m);
  }

  FusedSearch run() {
    while (improve()) continue;
    FusedSearch found{std::nullopt, simulated_};
    if (best_.prediction.step_s <= (1 - kLeastGain) * plain_.prediction.step_s) found.faster.emplace(std::move(best_));
    return found;
  }

 private:
  bool improve() {
    bool improved = false;
    for (std::size_t s = 0; s < sizes_.size(); ++s)
      for (const int size : choices_)
        if (simulated_ < most_simulated_ && size != sizes_[s] && (size == 1 || pays(plain_.plan.stages[s], size)))
          improved |= improves(s, size);
    return improved;
  }

  // True if the first `size` micro-batches take less time fused; false where nothing is known to fuse, so that both sums round alike.
  [[nodiscard]] bool pays(const Stage& stage, int size) const {
    const int device = cost_.device_index(plain_.plan.devices[as_index(stage.devices.front())]);
    const auto group = std::span(plain_.plan.microbatch_sizes).first(as_index(size));
    double single_s = 0;
    double fused_s = 0;
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
      double layer_s = 0;
      for (const int samples : group) layer_s += cost_.layer(device, layer, samples).backward_weight_s;
      single_s += layer_s;
      fused_s += cost_.fused_weight_seconds(device, layer, group);
    }
    return fused_s < single_s;
  }

  bool improves(std::size_t stage, int size) {
    std::vector<int> sizes = sizes_;
    sizes[stage] = size;
    Plan plan = with_fused_weights(plain_.plan, sizes);
    if (plan == best_.plan) return false;
    Prediction prediction = predict(plan, cost_);
    ++simulated_;
    if (prediction.step_s >= best_.prediction.step_s || !fits(prediction)) return false;
    best_ = {std::move(plan), std::move(prediction)};
    sizes_ = std::move(sizes);
    return true;
  }

  [[nodiscard]] bool fits(const Prediction& prediction) const {
    return std::ranges::equal(prediction.peak_bytes, caps_, [](std::int64_t peak, std::int64_t cap) { return cap <= 0 || peak <= cap; });
  }

  const Candidate& plain_;
  const std::vector<std::int64_t>& caps_;
  const CostModel& cost_;
  std::int64_t most_simulated_;
  Candidate best_;
  std::vector<int> sizes_;    // per stage
  std::vector<int> choices_;  // ascending
  std::int64_t simulated_ = 0;
};

}  // namespace

Plan with_fused_weights(Plan plan, const std::vector<int>& sizes) {
  const int m = plan.num_microbatches();
  for (int s = 0; s < plan.num_stages(); ++s) {
    const int size = sizes[as_index(s)];
    const std::vector<int>& devices = plan.stages[as_index(s)].devices;
    if (size < 2 || devices.size() > 1) continue;
    std::vector<Action>& row = plan.actions[as_index(devices.front())];
    for (int first = 0; first + 1 < m; first += size) fuse(row, s, first, std::min(first + size, m) - 1);
  }
  return plan;
}

FusedSearch fuse_weights(const Candidate& plain, const std::vector<std::int64_t>& caps, const CostModel& cost,
                         std::int64_t most_simulated) {
  return Fusing(plain, caps, cost, most_simulated).run();
}

}  // namespace mptune::planner
