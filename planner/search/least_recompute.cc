#include "planner/search/least_recompute.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "planner/schedule/schedule.h"
#include "planner/search/least_set.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Sets of layers that are made in the time of a simulated action.
constexpr std::int64_t kSetsPerAction = 32;
// What a peak takes beside its actions.
constexpr std::int64_t kActionsPerPeak = 20;

bool runs_on(const Stage& stage, int device) {
  return std::ranges::find(stage.devices, device) != stage.devices.end();
}

// Plans that differ from a given one in what one device computes again.
class DeviceFit {
 public:
  DeviceFit(const Plan& plan, int device, std::int64_t cap, const CostModel& cost)
      : plan_(plan), device_(device), cap_(cap), cost_(cost), layers_(layers_of(plan, device, cost)) {}

  // The plan that fits with the least time, or with whole stages computed again if none fits.
  Plan fitted() {
    const LeastSet least = least_set(layers_, [this](const LayerSet& set) { return fits(with(set)); });
    worked_ += least.stored / kSetsPerAction;
    if (!least.layers) return with(LayerSet(layers_.size(), true));
    Plan some = with(*least.layers);
    const std::optional<Plan> behind = fitted_behind();
    return behind && step_s(*behind) < step_s(some) ? *behind : some;
  }

  // In simulated actions.
  [[nodiscard]] std::int64_t worked() const { return worked_; }

 private:
  static std::vector<LayerChoice> layers_of(const Plan& plan, int device, const CostModel& cost) {
    const int index = cost.device_index(plan.devices[as_index(device)]);
    const int samples = *std::ranges::max_element(plan.microbatch_sizes);
    std::vector<LayerChoice> layers;
    for (int s = 0; s < plan.num_stages(); ++s) {
      const Stage& stage = plan.stages[as_index(s)];
      if (!runs_on(stage, device)) continue;
      const std::int64_t flights = most_in_flight(plan, s);
      for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
        layers.push_back({s, layer, std::llround(cost.layer(index, layer, samples).forward_s * 1e9),
                          flights * cost.saved_activation_bytes(index, layer, layer + 1, samples),
                          flights * cost.boundary_bytes(layer, samples, false), layer == stage.first_layer});
    }
    return layers;
  }

  // The plan that recomputes the layers of a set and no others of this device.
  [[nodiscard]] Plan with(const LayerSet& set) const {
    Plan plan = plan_;
    for (const LayerChoice& layer : layers_) plan.stages[as_index(layer.stage)].recompute = {};
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (!set[i]) continue;
      Recompute& recompute = plan.stages[as_index(layers_[i].stage)].recompute;
      recompute.mode = Recompute::Mode::some;
      recompute.layers.push_back(layers_[i].layer);
    }
    for (Stage& stage : plan.stages)
      if (std::ssize(stage.recompute.layers) == stage.last_layer - stage.first_layer) stage.recompute = {Recompute::Mode::all, {}, {}};
    return plan;
  }

  [[nodiscard]] Plan with_last(int s, int layers) const {
    Plan plan = plan_;
    Stage& stage = plan.stages[as_index(s)];
    stage.recompute = {};
    if (stage.last_layer - layers == stage.first_layer) {
      stage.recompute.mode = Recompute::Mode::all;
      return plan;
    }
    stage.recompute.mode = Recompute::Mode::some;
    for (int layer = stage.last_layer - layers; layer < stage.last_layer; ++layer) stage.recompute.layers.push_back(layer);
    return plan;
  }

  // The last layers of one stage are computed again while the device waits for the gradient (first_recomputed_early): they may cost less
  // time than their forward takes. The fewest that fit, of the stage where that is fastest.
  std::optional<Plan> fitted_behind() {
    std::optional<Plan> best;
    double best_s = 0;
    for (int s = 0; s < plan_.num_stages(); ++s) {
      const Stage& stage = plan_.stages[as_index(s)];
      if (!runs_on(stage, device_)) continue;
      int low = 1, high = stage.last_layer - stage.first_layer;
      if (!fits(with_last(s, high))) continue;
      while (low < high) {
        const int middle = low + (high - low) / 2;
        fits(with_last(s, middle)) ? high = middle : low = middle + 1;
      }
      Plan some = with_last(s, high);
      const double some_s = step_s(some);
      if (best && some_s >= best_s) continue;
      best = std::move(some);
      best_s = some_s;
    }
    return best;
  }

  bool fits(const Plan& plan) {
    worked_ += kActionsPerPeak + std::ssize(plan.actions[as_index(device_)]);
    return cost_.peak_bytes(plan, device_) <= cap_;
  }

  double step_s(const Plan& plan) {
    for (const std::vector<Action>& row : plan.actions) worked_ += std::ssize(row);
    return predict(plan, cost_).step_s;
  }

  const Plan& plan_;
  int device_;
  std::int64_t cap_;
  const CostModel& cost_;
  std::vector<LayerChoice> layers_;
  std::int64_t worked_ = 0;
};

}  // namespace

LeastRecompute with_least_recompute(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost) {
  LeastRecompute least{std::move(plan), 0};
  const auto over = [&](int d) { return caps[as_index(d)] > 0 && cost.peak_bytes(least.plan, d) > caps[as_index(d)]; };
  const int devices = static_cast<int>(least.plan.devices.size());
  for (int d = 0; d < devices; ++d) {
    if (!over(d)) continue;
    DeviceFit fit(least.plan, d, caps[as_index(d)], cost);
    Plan fitted = fit.fitted();
    least.worked += fit.worked();
    least.plan = std::move(fitted);
  }
  // Replicas of a stage on unequal devices may each have asked for another set.
  if (!has_replicas(least.plan)) return least;
  std::vector<bool> too_large;
  for (int d = 0; d < devices; ++d) too_large.push_back(over(d));
  for (Stage& stage : least.plan.stages)
    if (std::ranges::any_of(stage.devices, [&](int d) { return too_large[as_index(d)]; })) stage.recompute = {Recompute::Mode::all, {}, {}};
  return least;
}

}  // namespace mptune::planner
