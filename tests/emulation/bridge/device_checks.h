#pragma once

#include <c10/core/Device.h>

#include "tests/emulation/bridge/operator_facts.h"

namespace emulation {

/// The GPU that an operator runs on: that of the first CUDA tensor, else of a device among the arguments, else the current one. Throws what
/// LibTorch's CUDA kernels throw where arguments are elsewhere: CPU kernels would take a tensor that was left on the CPU.
[[nodiscard]] c10::Device checked_device(const OperatorFacts& facts, const Values& arguments);

}  // namespace emulation
