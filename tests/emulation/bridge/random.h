#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include "tests/emulation/bridge/operator_facts.h"

namespace emulation {

/// A CPU generator for one kernel. Takes its numbers from a CUDA generator, given or the GPU's default, at the call: kernels on several
/// streams have the numbers of the order in which they were called.
[[nodiscard]] at::Generator drawn_generator(const c10::IValue& given, c10::Device gpu);

/// native_dropout, whose CPU kernel takes the process's generator.
void compute_dropout(const OperatorFacts& facts, torch::jit::Stack& stack, const at::Generator& generator);

}  // namespace emulation
