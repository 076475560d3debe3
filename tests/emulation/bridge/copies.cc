#include "tests/emulation/bridge/copies.h"

#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include "tests/emulation/bridge/allocator_tracker.h"
#include "tests/emulation/bridge/host_arguments.h"
#include "tests/emulation/bridge/operators.h"

namespace emulation {

namespace {

/// True if the bytes may be copied as they are.
bool is_plain(const at::Tensor& to, const at::Tensor& from) {
  if (to.dtype() != from.dtype() || to.sizes() != from.sizes() || to.is_conj() != from.is_conj() || to.is_neg() != from.is_neg())
    return false;
  if (to.is_contiguous() && from.is_contiguous()) return true;
  return to.strides() == from.strides() && to.is_non_overlapping_and_dense() && from.is_non_overlapping_and_dense();
}

void copy_plainly(at::Tensor to, const at::Tensor& from, bool non_blocking) {
  at::native::copy_(to, from, non_blocking);
}

/// Between GPUs: packed by the source's GPU, copied, unpacked by the destination's. A kernel could reach both only with peer access.
void copy_between_gpus(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  at::Tensor packed;
  {
    const c10::cuda::CUDAGuard guard(from.device());
    packed = from.expand(to.sizes()).resolve_conj().resolve_neg().to(to.scalar_type()).contiguous();
  }
  const c10::cuda::CUDAGuard guard(to.device());
  if (is_plain(to, packed)) return copy_plainly(to, packed, non_blocking);
  const at::Tensor arrived = at::empty(to.sizes(), to.options().memory_format(at::MemoryFormat::Contiguous));
  copy_plainly(arrived, packed, non_blocking);
  to.copy_(arrived);
}

void copy(const OperatorFacts& facts, const Values& arguments) {
  const at::Tensor &to = arguments[0].toTensor(), &from = arguments[1].toTensor();
  const bool non_blocking = arguments[2].toBool();
  const bool one_gpu = to.device() == from.device(), both_gpus = to.is_cuda() && from.is_cuda();
  track_allocations();
  if (to.is_same(from) || !both_gpus || is_plain(to, from)) return copy_plainly(to, from, non_blocking);
  if (!one_gpu) return copy_between_gpus(to, from, non_blocking);
  (void)results_of(facts, arguments);
}

bool on_one_gpu(const Values& arguments) {
  bool one = true;
  c10::Device first = arguments[0].toListRef()[0].toTensor().device();
  for_each_tensor(arguments, [&](const at::Tensor& tensor, std::size_t) { one = one && tensor.device() == first; });
  return one;
}

}  // namespace

void run_copy(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  Values arguments = take_arguments(handle, *stack);
  copy(facts_of(handle), arguments);
  stack->push_back(std::move(arguments[0]));
}

void run_foreach_copy(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const Values arguments = take_arguments(handle, *stack);
  if (on_one_gpu(arguments)) {
    (void)results_of(facts_of(handle), arguments);
    return;
  }
  const auto to = arguments[0].toTensorVector(), from = arguments[1].toTensorVector();
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from.at(i), arguments[2].toBool());
}

}  // namespace emulation
