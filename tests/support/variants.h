#pragma once

#include "profiler/trace/profile.h"

namespace mptune::testing {

/// The same with costs in channels_last, too: `factor` times the contiguous ones.
inline Profile with_channels_last(Profile profile, double factor) {
  const int classes = static_cast<int>(profile.classes.size());
  for (int c = 0; c < classes; ++c) {
    DeviceClass variant = profile.classes[static_cast<std::size_t>(c)];
    variant.variant.memory_format = MemoryFormat::channels_last;
    variant.variant_of = c;
    for (LayerCosts& layer : variant.layers)
      for (LayerCost& cost : layer.by_samples)
        for (Samples* samples : {&cost.forward, &cost.backward, &cost.forward_busy, &cost.backward_busy})
          for (Sample& sample : samples->values) sample.value *= factor;
    profile.classes.push_back(variant);
  }
  return profile;
}

}  // namespace mptune::testing
