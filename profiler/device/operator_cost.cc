#include "profiler/device/operator_cost.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace mptune::profiler {

namespace {

// The median share of causal flash attention of at least 1e12 operations, over the kinds of GPUs of the constants in hardware.h.
constexpr double kShareOfAttention = 0.54;
// A flash backward computes five products in place of two: the scores once more, and four gradients.
constexpr double kAttentionBackward = 2.5;

double bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return 0;
  // An expanded tensor is read from less memory than it has numbers.
  return static_cast<double>(std::min(tensor.nbytes(), tensor.storage().nbytes()));
}

double bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return bytes_of(value.toTensor());
  double bytes = 0;
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) bytes += bytes_of(tensor);
  return bytes;
}

double all_bytes(const std::vector<c10::IValue>& values) {
  double bytes = 0;
  for (const c10::IValue& value : values) bytes += bytes_of(value);
  return bytes;
}

double numbers(const at::Tensor& tensor) {
  return static_cast<double>(tensor.numel());
}

/// What an operator computes, in operations, and at which rate.
struct Products {
  double flops = 0;
  double flops_per_second = 0;
};

double product_rate(const at::Tensor& tensor, const Hardware& hardware, bool convolution) {
  switch (tensor.scalar_type()) {
    case at::kHalf:
    case at::kBFloat16:
      return hardware.half_flops * kReachedFlops;
    case at::kDouble:
      return hardware.float32_flops / 2 * kReachedFlops;
    default:
      return (convolution ? hardware.convolution_flops : hardware.float32_flops) * kReachedFlops;
  }
}

/// `at`: index of the first matrix.
Products matrix_product(c10::ArrayRef<c10::IValue> inputs, std::size_t at, const Hardware& hardware) {
  const at::Tensor &a = inputs[at].toTensor(), &b = inputs[at + 1].toTensor();
  const double columns = b.dim() > 1 ? static_cast<double>(b.size(-1)) : 1;
  return {2 * numbers(a) * columns, product_rate(a, hardware, false)};
}

/// `values`: of what a kernel is moved over, with as many numbers as the output, or the input of a transposed one.
Products convolution_product(const at::Tensor& values, const at::Tensor& weight, double times, const Hardware& hardware) {
  return {times * 2 * numbers(values) * numbers(weight) / static_cast<double>(std::max<std::int64_t>(1, weight.size(0))),
          product_rate(weight, hardware, true)};
}

Products attention_product(c10::ArrayRef<c10::IValue> inputs, std::size_t query, bool causal, double times, const Hardware& hardware) {
  const at::Tensor &q = inputs[query].toTensor(), &k = inputs[query + 1].toTensor();
  const double rate = product_rate(q, hardware, false) / kReachedFlops * kShareOfAttention;
  return {times * (causal ? 2 : 4) * numbers(q) * static_cast<double>(k.size(-2)), rate};
}

std::optional<Products> products_of(std::string_view name, const OperatorCall& call, const Hardware& hardware) {
  const c10::ArrayRef<c10::IValue> inputs = call.inputs;
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::mv" || name == "aten::dot") return matrix_product(inputs, 0, hardware);
  if (name == "aten::addmm" || name == "aten::baddbmm" || name == "aten::addmv") return matrix_product(inputs, 1, hardware);
  if (name == "aten::convolution_overrideable") {
    const bool transposed = inputs[6].toBool();
    const at::Tensor values = transposed ? inputs[0].toTensor() : call.outputs.at(0).toTensor();
    return convolution_product(values, inputs[1].toTensor(), 1, hardware);
  }
  if (name == "aten::convolution_backward_overrideable") {
    const bool transposed = inputs[6].toBool();
    const auto& outputs = call.outputs;
    const auto made = static_cast<double>(outputs.at(0).toTensor().defined()) + static_cast<double>(outputs.at(1).toTensor().defined());
    return convolution_product((transposed ? inputs[1] : inputs[0]).toTensor(), inputs[2].toTensor(), made, hardware);
  }
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu") return attention_product(inputs, 0, inputs[4].toBool(), 1, hardware);
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward")
    return attention_product(inputs, 1, inputs[7].toBool(), kAttentionBackward, hardware);
  return std::nullopt;
}

/// True for an operator that makes a tensor without reading or writing numbers.
bool makes_memory(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") || name.starts_with("aten::resize_") ||
         name.starts_with("aten::set_");
}

/// Returns the time of one kernel that reads the call's inputs and writes its outputs [s].
double copying_seconds(const OperatorCall& call, const Hardware& hardware) {
  const std::string_view name = call.name;
  double bytes = all_bytes(call.inputs);
  const bool writes_alone = name == "aten::zero_" || name == "aten::fill_";
  const bool copies = name == "aten::copy_";  // writes what is its first input and its output, which it does not read
  if (!writes_alone && !copies) bytes += all_bytes(call.outputs);
  return bytes / reached_bytes_per_second(hardware) + kKernelSeconds;
}

}  // namespace

double reached_bytes_per_second(const Hardware& hardware) {
  return hardware.memory_bytes_per_second * kReachedBandwidth;
}

double operator_seconds(const OperatorCall& call, const Hardware& hardware) {
  if (makes_memory(call.name) || call.is_view) return 0;
  const double copying_s = copying_seconds(call, hardware);
  const auto products = products_of(call.name, call, hardware);
  return products ? std::max(products->flops / products->flops_per_second + kKernelSeconds, copying_s) : copying_s;
}

}  // namespace mptune::profiler
