#include "profiler/trace/analyze/class_sizes.h"

#include <algorithm>

#include "profiler/trace/values/samples_taken.h"

namespace mptune::profiler {

std::vector<ClassSizes> class_sizes(const Profile& profile) {
  const SampleRange taken = samples_taken(profile.layers);
  const int largest = taken.most == 0 ? profile.batch : std::min(profile.batch, taken.most);
  std::vector<ClassSizes> all;
  for (const DeviceClass& device_class : profile.classes) {
    if (device_class.variant.replaces_slow_kernels || device_class.layers.empty()) continue;
    ClassSizes& sizes = all.emplace_back();
    sizes.name = device_class.name;
    sizes.variant = device_class.variant;
    for (const LayerCost& cost : device_class.layers.front().by_samples) sizes.samples.push_back(cost.samples);
    std::ranges::sort(sizes.samples);
    sizes.extrapolated = !sizes.samples.empty() && sizes.samples.back() < largest;
  }
  return all;
}

}  // namespace mptune::profiler
