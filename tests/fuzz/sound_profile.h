#pragma once

#include <cstdint>
#include <cstdlib>

#include "profiler/trace/values/profile.h"

namespace mptune::testing {

/// True if a profile is consistent: a cost of every layer, edges forward, no negative times or sizes, and sums far from overflow.
inline bool is_sound(const Profile& profile) {
  const auto layers = static_cast<int>(profile.layers.size());
  std::int64_t bytes = 0;
  double seconds = 0;
  const auto add = [&](std::int64_t more) { return more >= 0 && (bytes += more) <= std::int64_t{1} << 45; };
  for (const ProfileLayer& layer : profile.layers)
    if (!add(layer.parameters_bytes) || layer.name.empty()) return false;
  for (const LayerEdge& edge : profile.edges)
    if (edge.from < 0 || edge.to <= edge.from || edge.to >= layers || edge.bytes_per_sample < 0 || edge.fixed_bytes < 0) return false;
  for (const ForbiddenCut& cut : profile.forbidden_cuts)
    if (cut.layer < 1 || cut.layer >= layers) return false;
  if (layers == 0 || profile.classes.size() != 1 || profile.classes[0].layers.size() != profile.layers.size()) return false;
  for (const LayerCosts& costs : profile.classes[0].layers) {
    if (costs.by_samples.empty()) return false;
    for (const LayerCost& cost : costs.by_samples) {
      if (cost.samples < 1 || !add(cost.output_bytes) || !add(cost.saved_activation_bytes) || !add(cost.workspace_bytes)) return false;
      seconds += median(cost.forward) + median(cost.backward);
      if (!(median(cost.forward) >= 0) || !(median(cost.backward) >= 0)) return false;
    }
  }
  return seconds < 1e4;
}

}  // namespace mptune::testing
