#pragma once

#include "tests/emulation/bridge/operator_facts.h"

namespace emulation {

/// copy_: plain copies are LibTorch's own, with its events and peer copies; a kernel converts and strides within a GPU.
void run_copy(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// _foreach_copy_: one kernel if all tensors are on one GPU, else a copy each.
void run_foreach_copy(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace emulation
