#include "profiler/trace/analyze/cost_jumps.h"

#include <algorithm>
#include <map>
#include <set>

#include "profiler/base/index.h"

namespace mptune::profiler {

namespace {

/// Returns the time of forward and backward [s]; 0: not measured.
double layer_seconds(const LayerCost& cost) {
  return cost.forward.empty() || cost.backward.empty() ? 0 : median(cost.forward) + median(cost.backward);
}

/// Returns the time of all layers by micro-batch size [s].
std::map<int, double> model_seconds(const DeviceClass& device_class) {
  std::map<int, double> seconds;
  for (const LayerCosts& layer : device_class.layers)
    for (const LayerCost& cost : layer.by_samples) seconds[cost.samples] += layer_seconds(cost);
  return seconds;
}

std::vector<CostJump> jumps_of(const DeviceClass& device_class, int index, const JumpLimits& limits) {
  const std::map<int, double> whole = model_seconds(device_class);
  std::vector<CostJump> jumps;
  for (std::size_t layer = 0; layer < device_class.layers.size(); ++layer) {
    const auto& costs = device_class.layers[layer].by_samples;
    for (std::size_t i = 0; i + 1 < costs.size(); ++i) {
      const double seconds = layer_seconds(costs[i]), larger = layer_seconds(costs[i + 1]);
      if (larger <= 0 || seconds < limits.seconds) continue;
      const double expected = larger * costs[i].samples / costs[i + 1].samples;
      const CostJump jump{index,
                          static_cast<int>(layer),
                          costs[i].samples,
                          costs[i + 1].samples,
                          seconds / expected,
                          (seconds - expected) / whole.at(costs[i].samples)};
      if (jump.factor > limits.factor && jump.step_share >= limits.step_share) jumps.push_back(jump);
    }
  }
  std::ranges::stable_sort(jumps, std::greater<>(), &CostJump::step_share);
  return jumps;
}

}  // namespace

std::vector<CostJump> cost_jumps(const Profile& profile, const JumpLimits& limits) {
  std::set<int> named;
  for (const ProfileDevice& device : profile.devices) named.insert(device.device_class);
  std::vector<CostJump> all;
  for (const int index : named) {
    const auto jumps = jumps_of(profile.classes.at(as_index(index)), index, limits);
    all.insert(all.end(), jumps.begin(), jumps.end());
  }
  return all;
}

}  // namespace mptune::profiler
