#pragma once

#include <string>
#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// The micro-batch sizes at which a class of devices has costs.
struct ClassSizes {
  std::string name;           ///< "cpu/1"
  ExecutionVariant variant;   ///< that the costs are of
  std::vector<int> samples;   ///< ascending
  bool extrapolated = false;  ///< costs of larger micro-batches, up to the batch, follow from these
};

/// Returns the sizes of all classes with layers, except classes with slow kernels replaced, which have costs of their own for some layers
/// only.
[[nodiscard]] std::vector<ClassSizes> class_sizes(const Profile& profile);

}  // namespace mptune::profiler
