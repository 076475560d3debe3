#pragma once

/// CPU tensors that stand for an operator's CUDA tensors while its CPU kernel runs.

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "tests/emulation/bridge/operator_facts.h"

namespace emulation {

/// One per call: the same tensor gives the same CPU tensor, and tensors of one storage share memory, so that kernels see overlaps.
class HostArguments {
 public:
  enum class Memory {
    shared,  ///< that of the GPU, which they do not own: as on a GPU, the program keeps it while the stream works
    zeros,   ///< memory of their own, of zeros
  };
  explicit HostArguments(Memory memory) : memory_(memory) {}

  /// CPU tensors are copied, since the caller may change them; devices become the CPU; lists are converted element by element.
  [[nodiscard]] c10::IValue of(const c10::IValue& value);
  [[nodiscard]] at::Tensor of(const at::Tensor& tensor);
  [[nodiscard]] torch::jit::Stack of(const Values& values);

  /// The tensor's CPU tensor is to have memory of its own, of zeros, that kernels may resize. Requires: not asked for yet.
  void own_memory_for(const at::Tensor& tensor);

 private:
  [[nodiscard]] c10::Storage storage_of(const at::Tensor& tensor);

  Memory memory_;
  std::vector<std::pair<const c10::TensorImpl*, at::Tensor>> tensors_;
  std::vector<std::pair<const c10::StorageImpl*, c10::Storage>> storages_;
};

/// The bytes between a tensor's first and last element.
struct Extent {
  char* begin = nullptr;
  std::size_t bytes = 0;
};
[[nodiscard]] Extent extent_of(const at::Tensor& tensor);

/// Calls `visit(tensor, index of the argument)` for each defined tensor.
template <typename Visit>
void for_each_tensor(const Values& values, Visit visit) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].isTensor()) {
      if (values[i].toTensor().defined()) visit(values[i].toTensor(), i);
    } else if (values[i].isList()) {
      for (const c10::IValue& element : values[i].toListRef())
        if (element.isTensor() && element.toTensor().defined()) visit(element.toTensor(), i);
    }
  }
}

}  // namespace emulation
