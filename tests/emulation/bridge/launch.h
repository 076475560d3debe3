#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "tests/emulation/bridge/operator_facts.h"
#include "tests/emulation/machine/machine.h"

namespace emulation {

/// An operator's kernel.
struct Kernel {
  const char* name = "";
  double flops = 0;
  double bytes = 0;
  std::int64_t elements = 0;  ///< of the largest tensor, for the grid
  std::vector<Range> uses{};
  std::function<void()> compute{};
};

void add_use(Kernel& kernel, const at::Tensor& tensor, bool written);

/// Enqueues the kernel on the current stream of the current GPU, as cudaLaunchKernel does. Throws LibTorch's error of a failed launch.
void launch(Kernel kernel);

}  // namespace emulation
