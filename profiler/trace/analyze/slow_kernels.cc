#include "profiler/trace/analyze/slow_kernels.h"

#include <algorithm>
#include <set>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::profiler {

namespace {

/// Returns the class of the same devices, memory format and threads with its slow kernels; null if the profile has none.
const DeviceClass* with_slow_kernels(const Profile& profile, const DeviceClass& replaced) {
  const ExecutionVariant plain{replaced.variant.memory_format, false, replaced.variant.threads};
  for (std::size_t c = 0; c < profile.classes.size(); ++c) {
    const bool same_devices = static_cast<int>(c) == replaced.variant_of || profile.classes[c].variant_of == replaced.variant_of;
    if (same_devices && profile.classes[c].variant == plain) return &profile.classes[c];
  }
  return nullptr;
}

double seconds_of(const LayerCost& cost) {
  return median(cost.forward) + median(cost.backward);
}

/// Returns the cost at a size; null if it was not measured.
const LayerCost* cost_at(const LayerCosts& layer, int samples) {
  const auto found = std::ranges::find(layer.by_samples, samples, &LayerCost::samples);
  return found == layer.by_samples.end() || found->forward.empty() || found->backward.empty() ? nullptr : &*found;
}

}  // namespace

std::vector<SlowKernel> slow_kernels(const Profile& profile) {
  std::vector<SlowKernel> all;
  for (std::size_t c = 0; c < profile.classes.size(); ++c) {
    const DeviceClass& replaced = profile.classes[c];
    const DeviceClass* slow = replaced.variant.replaces_slow_kernels ? with_slow_kernels(profile, replaced) : nullptr;
    if (slow == nullptr) continue;
    for (std::size_t layer = 0; layer < std::min(replaced.layers.size(), slow->layers.size()); ++layer)
      for (const LayerCost& cost : replaced.layers[layer].by_samples) {
        const LayerCost* other = cost_at(slow->layers[layer], cost.samples);
        // If nothing is replaced, the costs are the same measurement.
        if (other == nullptr || *other == cost || cost.forward.empty() || cost.backward.empty()) continue;
        all.push_back({static_cast<int>(c), static_cast<int>(layer), cost.samples, seconds_of(*other), seconds_of(cost)});
      }
  }
  return all;
}

std::vector<SlowKernel> whole_model(const Profile& profile, const std::vector<SlowKernel>& kernels) {
  std::set<std::pair<int, int>> sizes;
  for (const SlowKernel& kernel : kernels) sizes.insert({kernel.device_class, kernel.samples});
  std::vector<SlowKernel> all;
  for (const auto& [index, samples] : sizes) {
    const DeviceClass& replaced = profile.classes[as_index(index)];
    const DeviceClass& slow = *with_slow_kernels(profile, replaced);
    SlowKernel& sum = all.emplace_back(SlowKernel{index, -1, samples, 0, 0});
    for (std::size_t layer = 0; layer < slow.layers.size(); ++layer) {
      const LayerCost *without = cost_at(slow.layers[layer], samples), *with = cost_at(replaced.layers[layer], samples);
      sum.seconds += without == nullptr ? 0 : seconds_of(*without);
      sum.replaced_seconds += with == nullptr ? 0 : seconds_of(*with);
    }
  }
  return all;
}

}  // namespace mptune::profiler
