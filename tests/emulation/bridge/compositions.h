#pragma once

namespace torch {
class Library;
}

namespace emulation {

/// Operators that only CUDA has, made of others: cells of LSTM and GRU, RMS norm. `autograd` too: made of differentiable operators, they
/// need no backward kernels.
void register_compositions(torch::Library& cuda, torch::Library& autograd);

/// Scaled dot product attention, which asks past the dispatcher, is to be made of matrix products and a softmax. cuDNN, which LibTorch asks
/// the same way, is switched off.
void choose_plain_kernels();

}  // namespace emulation
