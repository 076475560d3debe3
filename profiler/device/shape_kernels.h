#pragma once

namespace mptune::profiler {

/// Gives LibTorch's meta device, whose tensors have a shape and no memory, the operators that it lacks in C++.
/// - Those that models spend their time in (convolutions, norms, attention, embeddings) get kernels that compute the shape alone.
/// - All others run the CPU's kernel on zeros, which hold no memory, whatever their shape.
/// - An operator whose result depends on values (`nonzero`, `item`) throws c10::Error or takes the values for zeros.
/// Attention takes the way of the CPU's flash kernel, which keeps no matrix of weights, as GPUs' kernels do.
/// Process-wide. Further calls do nothing.
void install_shape_kernels();

}  // namespace mptune::profiler
