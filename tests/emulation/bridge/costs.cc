#include "tests/emulation/bridge/costs.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <utility>

namespace emulation {

namespace {

const at::Tensor& tensor_at(const Values& arguments, std::size_t index) {
  return arguments.at(index).toTensor();
}

/// Two operations per element of the result and element that is summed. `right`: a matrix, or a batch of them, whose last but one size is
/// summed.
double product(const at::Tensor& left, const at::Tensor& right) {
  const double columns = right.dim() < 2 ? 1 : static_cast<double>(right.size(-1));
  return 2 * static_cast<double>(left.numel()) * columns;
}

double product_of_first(const Values& arguments) {
  return product(tensor_at(arguments, 0), tensor_at(arguments, 1));
}
double product_of_second(const Values& arguments) {
  return product(tensor_at(arguments, 1), tensor_at(arguments, 2));
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups): each input element of a transposed one,
/// and each output element of another, meets every weight of its channel.
double convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor* output, bool transposed, const Values& arguments) {
  const double per_element =
      weight.dim() < 1 || weight.size(0) == 0 ? 0 : static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  if (transposed) return 2 * static_cast<double>(input.numel()) * per_element;
  if (output != nullptr) return 2 * static_cast<double>(output->numel()) * per_element;
  const auto strides = arguments.at(3).toIntVector(), paddings = arguments.at(4).toIntVector(), dilations = arguments.at(5).toIntVector();
  double elements = static_cast<double>(input.size(0) * weight.size(0));
  for (std::int64_t i = 2; i < input.dim(); ++i) {
    const auto at = [i](const std::vector<std::int64_t>& values) {
      return values.size() == 1 ? values[0] : values.at(static_cast<std::size_t>(i - 2));
    };
    elements *= static_cast<double>((input.size(i) + 2 * at(paddings) - at(dilations) * (weight.size(i) - 1) - 1) / at(strides) + 1);
  }
  return 2 * elements * per_element;
}

double convolution_forward(const Values& arguments) {
  return convolution(tensor_at(arguments, 0), tensor_at(arguments, 1), nullptr, arguments.at(6).toBool(), arguments);
}

/// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask)
double convolution_backward(const Values& arguments) {
  const double forward =
      convolution(tensor_at(arguments, 1), tensor_at(arguments, 2), &tensor_at(arguments, 0), arguments.at(7).toBool(), arguments);
  const auto wanted = arguments.at(10).toBoolList();
  return forward * ((wanted.get(0) ? 1 : 0) + (wanted.get(1) ? 1 : 0));
}

struct Cost {
  std::string_view name;
  Flops flops;
  bool by_cublas;
};

constexpr std::array<Cost, 18> kCosts = {{{"aten::mm", product_of_first, true},
                                          {"aten::bmm", product_of_first, true},
                                          {"aten::mv", product_of_first, true},
                                          {"aten::dot", product_of_first, true},
                                          {"aten::vdot", product_of_first, true},
                                          {"aten::_int_mm", product_of_first, true},
                                          {"aten::addmm", product_of_second, true},
                                          {"aten::addmm_", product_of_second, true},
                                          {"aten::_addmm_activation", product_of_second, true},
                                          {"aten::addmv", product_of_second, true},
                                          {"aten::addmv_", product_of_second, true},
                                          {"aten::baddbmm", product_of_second, true},
                                          {"aten::baddbmm_", product_of_second, true},
                                          {"aten::addbmm", product_of_second, true},
                                          {"aten::addbmm_", product_of_second, true},
                                          {"aten::linear", product_of_first, true},
                                          {"aten::convolution", convolution_forward, false},
                                          {"aten::convolution_backward", convolution_backward, false}}};

const Cost* find(std::string_view name) {
  for (const Cost& cost : kCosts)
    if (cost.name == name) return &cost;
  return nullptr;
}

}  // namespace

Flops flops_of(std::string_view name) {
  const Cost* cost = find(name);
  return cost != nullptr ? cost->flops : nullptr;
}

bool is_matrix_product(std::string_view name) {
  const Cost* cost = find(name);
  return cost != nullptr && cost->by_cublas;
}

}  // namespace emulation
