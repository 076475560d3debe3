#pragma once

#include "tests/emulation/bridge/operator_facts.h"

namespace emulation {

/// The kernel of every operator: enqueues its CPU kernel on the current stream of its GPU, as LibTorch's CUDA kernels launch theirs. Waits
/// for the stream where the results depend on numbers.
void run_operator(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// The same for given arguments.
[[nodiscard]] Values results_of(const OperatorFacts& facts, const Values& arguments);

/// Moves the operator's arguments from the stack.
[[nodiscard]] Values take_arguments(const c10::OperatorHandle& handle, torch::jit::Stack& stack);

}  // namespace emulation
