#include "tests/emulation/bridge/compositions.h"

#include <ATen/ATen.h>
#include <ATen/CompositeImplicitAutogradFunctions.h>
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace emulation {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor with_bias(const at::Tensor& gates, const OptionalTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

/// The third result is what the backward kernel would read.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cell, const OptionalTensor& input_bias,
                                                         const OptionalTensor& hidden_bias) {
  const at::Tensor gates = with_bias(hidden_gates, hidden_bias) + with_bias(input_gates, input_bias);
  const auto parts = gates.unsafe_chunk(4, 1);
  const at::Tensor next = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
  return {parts[3].sigmoid() * next.tanh(), next, gates.detach()};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates, const at::Tensor& hidden,
                                            const OptionalTensor& input_bias, const OptionalTensor& hidden_bias) {
  const auto input = with_bias(input_gates, input_bias).unsafe_chunk(3, 1);
  const auto before = with_bias(hidden_gates, hidden_bias).unsafe_chunk(3, 1);
  const at::Tensor reset = (before[0] + input[0]).sigmoid(), update = (before[1] + input[1]).sigmoid();
  const at::Tensor candidate = (input[2] + before[2] * reset).tanh();
  return {(hidden - candidate) * update + candidate, hidden_gates.detach()};
}

std::int64_t choose_math(const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&, double, bool,
                         std::optional<double>, bool) {
  return static_cast<std::int64_t>(at::SDPBackend::math);
}

}  // namespace

void register_compositions(torch::Library& cuda, torch::Library& autograd) {
  for (torch::Library* library : {&cuda, &autograd}) {
    library->impl("_thnn_fused_lstm_cell", lstm_cell);
    library->impl("_thnn_fused_gru_cell", gru_cell);
    library->impl("_fused_rms_norm", TORCH_FN(at::compositeimplicitautograd::_fused_rms_norm));
  }
  cuda.impl("_fused_sdp_choice", choose_math);
}

void choose_plain_kernels() {
  at::globalContext().setUserEnabledCuDNN(false);
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(choose_math);
}

}  // namespace emulation
