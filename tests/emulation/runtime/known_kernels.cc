#include <cstdint>

#include "tests/emulation/runtime/kernels.h"

namespace emulation {

namespace {

constexpr double kNanosecondsPerCycle = 1;  // by the clock rate in attributes.cc

/// LibTorch's kernel that keeps a GPU busy (torch.cuda._sleep): waits for a number of cycles.
void spin(const Launch& launch, Work& work) {
  const auto cycles = *static_cast<const std::int64_t*>(launch.arguments[0]);
  work.least = static_cast<Nanoseconds>(static_cast<double>(cycles) * kNanosecondsPerCycle);
  work.compute = [] {};
}

}  // namespace

PrepareKernel known_kernel(std::string_view name) {
  if (name.find("spin_kernel(") != std::string_view::npos) return spin;
  return {};
}

}  // namespace emulation
