#include "profiler/model/kernels/replace_slow_kernels.h"

#include <ATen/native/ConvUtils.h>
#include <ATen/ops/_convolution_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <torch/library.h>

#include <optional>
#include <vector>

namespace mptune::profiler {

namespace {

using at::native::ConvBackend;
using c10::DispatchKeySet;
using c10::SymIntArrayRef;
using Bias = std::optional<at::Tensor>;

thread_local bool replacing = false;
thread_local std::int64_t replaced_so_far = 0;

struct Convolution {
  const at::Tensor& input;
  const at::Tensor& weight;
  const Bias& bias;
  SymIntArrayRef stride, padding, dilation;
  bool transposed;
  SymIntArrayRef output_padding;
  c10::SymInt groups;
};

bool is_slow(ConvBackend backend) {
  return backend == ConvBackend::Slow2d || backend == ConvBackend::Slow3d || backend == ConvBackend::SlowTranspose2d ||
         backend == ConvBackend::SlowTranspose3d;
}

bool is_onednn(ConvBackend backend) {
  return backend == ConvBackend::Mkldnn || backend == ConvBackend::MkldnnTranspose;
}

/// Returns LibTorch's choice with this dilation.
ConvBackend kernel_of(const Convolution& conv, SymIntArrayRef dilation) {
  const bool has_bias = conv.bias && conv.bias->defined();
  const at::OptionalSymIntArrayRef bias_sizes = has_bias ? at::OptionalSymIntArrayRef(conv.bias->sym_sizes()) : std::nullopt;
  return at::native::select_conv_backend(conv.input, conv.weight, conv.bias, conv.stride, conv.padding, dilation, conv.transposed,
                                         conv.output_padding, conv.groups, bias_sizes);
}

/// Returns the dilation that makes LibTorch take oneDNN; empty if LibTorch takes it anyway, or would not take it with dilation either. A
/// kernel of one element has no gaps to dilate, so it computes the same.
std::vector<c10::SymInt> faster_dilation(const Convolution& conv) {
  const std::int64_t dimensions = conv.weight.dim() - 2;
  if (!replacing || dimensions < 1 || conv.input.scalar_type() != at::kFloat || conv.weight.sym_size(-1) != 1) return {};
  if (!is_slow(kernel_of(conv, conv.dilation))) return {};
  std::vector<c10::SymInt> dilation = conv.dilation.vec();
  dilation.resize(static_cast<std::size_t>(dimensions), dilation.at(0));
  dilation.back() = 2;
  if (!is_onednn(kernel_of(conv, dilation))) return {};
  ++replaced_so_far;
  return dilation;
}

// LibTorch's own Autograd kernels are still registered under the key of other devices.
DispatchKeySet without_overriding(DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset).add(c10::DispatchKey::AutogradOther);
}

at::Tensor convolution(DispatchKeySet keys, const at::Tensor& input, const at::Tensor& weight, const Bias& bias, SymIntArrayRef stride,
                       SymIntArrayRef padding, SymIntArrayRef dilation, bool transposed, SymIntArrayRef output_padding,
                       c10::SymInt groups) {
  const auto other = faster_dilation({input, weight, bias, stride, padding, dilation, transposed, output_padding, groups});
  return at::_ops::convolution::redispatch(without_overriding(keys), input, weight, bias, stride, padding,
                                           other.empty() ? dilation : SymIntArrayRef(other), transposed, output_padding, std::move(groups));
}

// Traced modules call this instead of convolution.
at::Tensor traced_convolution(DispatchKeySet keys, const at::Tensor& input, const at::Tensor& weight, const Bias& bias,
                              SymIntArrayRef stride, SymIntArrayRef padding, SymIntArrayRef dilation, bool transposed,
                              SymIntArrayRef output_padding, c10::SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled,
                              bool allow_tf32) {
  const auto other = faster_dilation({input, weight, bias, stride, padding, dilation, transposed, output_padding, groups});
  return at::_ops::_convolution::redispatch(without_overriding(keys), input, weight, bias, stride, padding,
                                            other.empty() ? dilation : SymIntArrayRef(other), transposed, output_padding, std::move(groups),
                                            benchmark, deterministic, cudnn_enabled, allow_tf32);
}

void override_convolutions() {
  // Never deleted: operators outlive every static object.
  auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, "mptune", 0);
  library->impl("convolution", TORCH_FN(convolution));
  library->impl("_convolution", TORCH_FN(traced_convolution));
}

}  // namespace

ReplaceSlowKernels::ReplaceSlowKernels(bool on) : outer_(replacing), before_(replaced_so_far) {
  if (on) {
    static const bool overridden = (override_convolutions(), true);
    (void)overridden;
  }
  replacing = on;
}

ReplaceSlowKernels::~ReplaceSlowKernels() {
  replacing = outer_;
}

std::int64_t ReplaceSlowKernels::replaced() const {
  return replaced_so_far - before_;
}

}  // namespace mptune::profiler
