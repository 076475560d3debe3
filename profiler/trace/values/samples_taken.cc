#include "profiler/trace/values/samples_taken.h"

namespace mptune::profiler {

SampleRange samples_taken(const std::vector<ProfileLayer>& layers) {
  SampleRange all;
  for (const ProfileLayer& layer : layers) all = common_range(all, layer.samples);
  return all;
}

}  // namespace mptune::profiler
