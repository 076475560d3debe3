#pragma once

#include "profiler/trace/values/profile.h"

namespace mptune::testing {

/// The same with costs in another variant, too: `factor` times those in the default one.
inline Profile with_variant(Profile profile, const ExecutionVariant& other, double factor) {
  const int classes = static_cast<int>(profile.classes.size());
  for (int c = 0; c < classes; ++c) {
    if (profile.classes[static_cast<std::size_t>(c)].variant_of >= 0) continue;
    DeviceClass variant = profile.classes[static_cast<std::size_t>(c)];
    variant.variant = other;
    variant.variant_of = c;
    for (LayerCosts& layer : variant.layers)
      for (LayerCost& cost : layer.by_samples)
        for (Samples* samples : {&cost.forward, &cost.backward, &cost.forward_busy, &cost.backward_busy})
          for (Sample& sample : samples->values) sample.value *= factor;
    profile.classes.push_back(variant);
  }
  return profile;
}

inline Profile with_channels_last(const Profile& profile, double factor) {
  return with_variant(profile, {.memory_format = MemoryFormat::channels_last}, factor);
}

inline Profile with_replaced_kernels(const Profile& profile, double factor) {
  return with_variant(profile, {.replaces_slow_kernels = true}, factor);
}

}  // namespace mptune::testing
