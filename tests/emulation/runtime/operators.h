#pragma once

/// The library that gives LibTorch's CUDA operators their kernels (EMULATED_OPERATORS, a path).

namespace emulation {

/// Opens it, once, if LibTorch's CUDA library is loaded by now: its operators are registered then, and the last registration counts. Called
/// where a program begins to use GPUs.
void open_operators();

}  // namespace emulation
