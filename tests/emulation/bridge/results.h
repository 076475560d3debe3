#pragma once

#include <c10/core/Device.h>

#include "tests/emulation/bridge/host_arguments.h"
#include "tests/emulation/bridge/operator_facts.h"
#include "tests/emulation/bridge/result_shapes.h"

namespace emulation {

/// Copies the results of a CPU kernel into the memory that was allocated for them. Throws if they have other shapes.
void store_results(const OperatorFacts& facts, const torch::jit::Stack& results, const Values& destinations);

/// Results of a CPU kernel that wrote them to `host`'s own memory, copied to the out= arguments, which are resized.
void fill_outputs(const OperatorFacts& facts, const Values& arguments, HostArguments& host);

/// Gives the output a size and strides, as LibTorch's structured kernels do before they launch.
void resize_output(const at::Tensor& output, const TensorShape& shape);

/// Results of a CPU kernel that has been waited for, copied to the current GPU by its current stream. What is no tensor stays as it is.
[[nodiscard]] Values results_on_gpu(const OperatorFacts& facts, const Values& arguments, torch::jit::Stack results, c10::Device gpu);

}  // namespace emulation
