#include "planner/recompute/smallest_peak.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "planner/recompute/least_kept.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kStepsToTooFew = 16;

}  // namespace

SmallestPeak smallest_peak(const DeviceLayers& layers, std::int64_t cap, const std::function<std::int64_t(const LayerSet&)>& peak_bytes) {
  SmallestPeak smallest{LayerSet(layers.needs().size(), true), std::numeric_limits<std::int64_t>::max()};
  std::optional<LayerSet> set = smallest.layers;
  std::int64_t too_few = 0;  // no set has a backward that needs only this many bytes
  for (int tries = 0; tries < kPeaksInPieces; ++tries) {
    const std::int64_t peak = peak_bytes(*set), backward = backward_bytes(layers.needs(), *set);
    if (peak < smallest.peak_bytes) smallest = {*set, peak};
    if (peak <= cap) return smallest;
    const std::int64_t fits = too_few == 0 ? backward - (peak - cap) : 0;
    std::optional<LayerSet> next = fits > 0 ? least_kept(layers.needs(), fits) : std::nullopt;
    if (!next) {
      too_few = std::max({too_few, fits, std::int64_t{1}});
      next = least_kept(layers.needs(), backward - std::max<std::int64_t>(1, (backward - too_few) / kStepsToTooFew));
    }
    if (!next) return smallest;
    set = std::move(next);
  }
  return smallest;
}

Plan fit_devices(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost, const FitDevice& fit) {
  const auto over = [&](int d) { return caps[as_index(d)] > 0 && cost.peak_bytes(plan, d) > caps[as_index(d)]; };
  const int devices = static_cast<int>(plan.devices.size());
  for (int d = 0; d < devices; ++d)
    if (over(d)) fit(plan, d);
  if (!has_replicas(plan)) return plan;
  std::vector<bool> too_large;
  for (int d = 0; d < devices; ++d) too_large.push_back(over(d));
  for (Stage& stage : plan.stages)
    if (stage.devices.size() > 1 && std::ranges::any_of(stage.devices, [&](int d) { return too_large[as_index(d)]; }))
      stage.recompute = {Recompute::Mode::all, {}, {}};
  return plan;
}

Plan with_smallest_peaks(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost) {
  return fit_devices(std::move(plan), caps, cost, [&](Plan& now, int device) {
    const DeviceLayers layers(now, device, cost);
    const auto peak_bytes = [&](const LayerSet& set) {
      layers.choose(set, now);
      return cost.peak_bytes(now, device);
    };
    layers.choose(smallest_peak(layers, caps[as_index(device)], peak_bytes).layers, now);
  });
}

}  // namespace mptune::planner
