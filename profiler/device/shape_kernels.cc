#include "profiler/device/shape_kernels.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace mptune::profiler {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Mask = std::array<bool, 3>;

at::Tensor like(const at::Tensor& tensor) {
  return at::empty_like(tensor);
}
at::Tensor if_wanted(bool wanted, const at::Tensor& tensor) {
  return wanted ? like(tensor) : at::Tensor();
}
/// Returns a tensor of the shape of `tensor` if a gradient for it is wanted and it exists.
at::Tensor if_wanted(bool wanted, const OptionalTensor& tensor) {
  return wanted && tensor && tensor->defined() ? like(*tensor) : at::Tensor();
}
at::TensorOptions statistics_of(const at::Tensor& input) {
  const bool half = input.scalar_type() == at::kBFloat16 || input.scalar_type() == at::kHalf;
  return input.options().dtype(half ? at::kFloat : input.scalar_type());
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& /*bias*/, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                       std::int64_t groups) {
  std::vector<std::int64_t> sizes{input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (std::int64_t d = 2; d < input.dim(); ++d) {
    const auto i = static_cast<std::size_t>(d - 2);
    const std::int64_t reach = dilation[i] * (weight.size(d) - 1);
    sizes.push_back(transposed ? (input.size(d) - 1) * stride[i] - 2 * padding[i] + reach + output_padding[i] + 1
                               : (input.size(d) + 2 * padding[i] - reach - 1) / stride[i] + 1);
    TORCH_CHECK(sizes.back() > 0, "the kernel of a convolution is larger than its input");
  }
  return at::empty(sizes, input.options(), input.suggest_memory_format());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& gradient, const at::Tensor& input,
                                                                    const at::Tensor& weight, at::IntArrayRef, at::IntArrayRef,
                                                                    at::IntArrayRef, bool, at::IntArrayRef, std::int64_t, Mask wanted) {
  return {if_wanted(wanted[0], input), if_wanted(wanted[1], weight),
          wanted[2] ? at::empty({gradient.size(1)}, gradient.options()) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input, const OptionalTensor&, const OptionalTensor&,
                                                          const OptionalTensor&, const OptionalTensor&, bool training, double, double) {
  const std::int64_t channels = training ? input.size(1) : 0;
  return {like(input), at::empty({channels}, statistics_of(input)), at::empty({channels}, statistics_of(input))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm_backward(const at::Tensor&, const at::Tensor& input, const OptionalTensor& weight,
                                                                   const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                                                                   const OptionalTensor&, bool, double, Mask wanted) {
  return {if_wanted(wanted[0], input), if_wanted(wanted[1], weight), if_wanted(wanted[2], weight)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& input, at::IntArrayRef normalized, const OptionalTensor&,
                                                          const OptionalTensor&, double) {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(std::min(normalized.size(), sizes.size())), sizes.end(), 1);
  return {at::empty(input.sizes(), input.options()), at::empty(sizes, statistics_of(input)), at::empty(sizes, statistics_of(input))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(const at::Tensor&, const at::Tensor& input, at::IntArrayRef,
                                                                   const at::Tensor&, const at::Tensor&, const OptionalTensor& weight,
                                                                   const OptionalTensor& bias, Mask wanted) {
  return {if_wanted(wanted[0], input), if_wanted(wanted[1], weight), if_wanted(wanted[2], bias)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm(const at::Tensor& input, const OptionalTensor&, const OptionalTensor&,
                                                          std::int64_t samples, std::int64_t, std::int64_t, std::int64_t groups, double) {
  return {like(input), at::empty({samples, groups}, statistics_of(input)), at::empty({samples, groups}, statistics_of(input))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_backward(const at::Tensor&, const at::Tensor& input, const at::Tensor&,
                                                                   const at::Tensor&, const OptionalTensor& weight, std::int64_t,
                                                                   std::int64_t, std::int64_t, std::int64_t, Mask wanted) {
  return {if_wanted(wanted[0], input), if_wanted(wanted[1], weight), if_wanted(wanted[2], weight)};
}

at::Tensor index_select(const at::Tensor& input, std::int64_t dimension, const at::Tensor& index) {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  if (!sizes.empty()) sizes[static_cast<std::size_t>(dimension < 0 ? dimension + input.dim() : dimension)] = index.numel();
  return at::empty(sizes, input.options());
}

at::Tensor embedding_backward(const at::Tensor& gradient, const at::Tensor&, std::int64_t rows, std::int64_t, bool) {
  return at::empty({rows, gradient.size(-1)}, gradient.options());
}

/// Samples, positions, heads: the layout in which flash kernels write.
at::Tensor of_positions(const at::Tensor& query, at::IntArrayRef last, const at::TensorOptions& options) {
  std::vector<std::int64_t> sizes{query.size(0), query.size(2), query.size(1)};
  sizes.insert(sizes.end(), last.begin(), last.end());
  return at::empty(sizes, options).transpose(1, 2);
}

std::tuple<at::Tensor, at::Tensor> attention(const at::Tensor& query, const at::Tensor&, const at::Tensor& value, double, bool,
                                             const OptionalTensor&, std::optional<double>) {
  return {of_positions(query, {value.size(3)}, query.options()), of_positions(query, {}, statistics_of(query))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(const at::Tensor&, const at::Tensor& query, const at::Tensor& key,
                                                                  const at::Tensor& value, const at::Tensor&, const at::Tensor&, double,
                                                                  bool, const OptionalTensor&, std::optional<double>) {
  return {like(query), like(key), like(value)};
}

/// Takes the flash kernel wherever GPUs have one: without dropout, and with heads that match. LibTorch itself has the matrix of weights
/// made for meta tensors.
at::Tensor any_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const OptionalTensor& mask,
                         double dropout, bool causal, std::optional<double> scale, bool grouped) {
  const bool heads = query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && query.size(3) == value.size(3) &&
                     (query.size(1) == key.size(1) || (grouped && query.size(1) % key.size(1) == 0));
  const bool masked = mask && mask->defined();
  if (!heads || dropout > 0 || (masked && mask->requires_grad()))
    return std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, mask, dropout, causal, std::nullopt, scale, grouped));
  const OptionalTensor added = masked && mask->scalar_type() == at::kBool ? OptionalTensor(mask->to(query.scalar_type())) : mask;
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, added, scale));
}

bool is_meta(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_meta();
}

/// Applies `change` to all tensors of a value.
template <class Change>
c10::IValue changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    std::vector<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(change(tensor));
    return tensors;
  }
  if (value.isList() && value.toListRef().size() > 0 && std::ranges::any_of(value.toListRef(), &c10::IValue::isTensor)) {
    c10::List<OptionalTensor> tensors;
    for (const c10::IValue& each : value.toListRef())
      tensors.push_back(each.isTensor() ? OptionalTensor(change(each.toTensor())) : std::nullopt);
    return tensors;
  }
  return value;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// Calls the CPU's kernel with `zeros_of` each meta tensor, and returns its results on the stack, made meta tensors by `result_of`.
/// A result that is an argument is that argument.
template <class ZerosOf, class ResultOf>
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const ZerosOf& zeros_of, const ResultOf& result_of) {
  const at::RecordFunctionGuard not_recorded(/*is_enabled=*/false);
  const auto& arguments = op.schema().arguments();
  const std::vector<c10::IValue> given = torch::jit::pop(*stack, arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool written = is_written(arguments[i]);
    const bool device = arguments[i].name() == "device" && given[i].isDevice();
    torch::jit::push(*stack, device ? c10::IValue(c10::Device(c10::kCPU)) : changed(given[i], [&](const at::Tensor& tensor) {
      return is_meta(tensor) ? zeros_of(tensor, written) : tensor;
    }));
  }
  op.callBoxed(*stack);
  const auto& returned = op.schema().returns();
  std::vector<c10::IValue> results = torch::jit::pop(*stack, returned.size());
  for (std::size_t i = 0; i < returned.size(); ++i) {
    c10::IValue result = changed(results[i], [&](const at::Tensor& tensor) { return tensor.defined() ? result_of(tensor) : tensor; });
    if (is_written(returned[i]))
      for (std::size_t a = 0; a < arguments.size(); ++a)
        if (is_written(arguments[a]) && arguments[a].alias_info()->beforeSets() == returned[i].alias_info()->beforeSets())
          result = given[a];
    torch::jit::push(*stack, std::move(result));
  }
}

/// Zeros of the tensor's shape: one number, unless the kernel writes it.
at::Tensor zeros_of_shape(const at::Tensor& tensor, bool written) {
  const at::TensorOptions options = at::TensorOptions(tensor.scalar_type()).device(at::kCPU);
  return written ? at::zeros(tensor.sizes(), options) : at::zeros({}, options).expand(tensor.sizes());
}

void run_on_zeros(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_on_cpu(op, stack, zeros_of_shape, [](const at::Tensor& tensor) {
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
  });
}

/// Runs an operator that treats each number alone: one number shows its results' types.
void run_on_numbers(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  std::vector<std::int64_t> sizes;
  for (const c10::IValue& value : torch::jit::last(*stack, op.schema().arguments().size()))
    if (value.isTensor() && value.toTensor().defined()) sizes = at::infer_size(sizes, value.toTensor().sizes());
  run_on_cpu(
      op, stack,
      [](const at::Tensor& tensor, bool) {
        return at::zeros(std::vector<std::int64_t>(static_cast<std::size_t>(tensor.dim()), 1), at::TensorOptions(tensor.scalar_type()));
      },
      [&](const at::Tensor& tensor) { return at::empty(sizes, tensor.options().device(at::kMeta)); });
}

constexpr std::array kOfNumbers{"relu",
                                "where.self",
                                "isnan",
                                "hardtanh",
                                "hardswish",
                                "hardtanh_backward",
                                "hardswish_backward",
                                "log_sigmoid_forward",
                                "log_sigmoid_backward",
                                "_prelu_kernel",
                                "_prelu_kernel_backward",
                                "floor_divide",
                                "remainder.Scalar_Tensor",
                                "rsub.Tensor",
                                "mse_loss_backward",
                                "huber_loss_backward",
                                "smooth_l1_loss_backward",
                                "binary_cross_entropy_backward",
                                "roll",
                                "flip",
                                "logit",
                                "angle"};

/// True if the operator has no kernel for meta tensors, one for the CPU, and is not made of others.
bool lacks_shapes(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  const auto has = [&](DispatchKey key) { return op.hasKernelForDispatchKey(key); };
  return has(DispatchKey::CPU) && !has(DispatchKey::Meta) && !has(DispatchKey::CompositeImplicitAutograd) &&
         !has(DispatchKey::CompositeExplicitAutograd) && !has(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

}  // namespace

void install_shape_kernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never freed: its kernels must stay for as long as any thread runs operators.
    auto& library = *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    library.impl("convolution_overrideable", &convolution);
    library.impl("convolution_backward_overrideable", &convolution_backward);
    library.impl("native_batch_norm", &batch_norm);
    library.impl("native_batch_norm_backward", &batch_norm_backward);
    library.impl("native_layer_norm", &layer_norm);
    library.impl("native_layer_norm_backward", &layer_norm_backward);
    library.impl("native_group_norm", &group_norm);
    library.impl("native_group_norm_backward", &group_norm_backward);
    library.impl("index_select", &index_select);
    library.impl("embedding_dense_backward", &embedding_backward);
    library.impl("_scaled_dot_product_flash_attention_for_cpu", &attention);
    library.impl("_scaled_dot_product_flash_attention_for_cpu_backward", &attention_backward);
    library.impl("scaled_dot_product_attention", &any_attention);
    // Its parts are differentiated, as those of the operator that it replaces.
    auto& differentiated = *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__, __LINE__);
    differentiated.impl("scaled_dot_product_attention", &any_attention);
    const std::set<std::string> of_numbers(kOfNumbers.begin(), kOfNumbers.end());
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (!name.name.starts_with("aten::")) continue;
      const auto op = c10::Dispatcher::singleton().findOp(name);
      if (!op || !op->hasSchema() || !lacks_shapes(*op)) continue;
      const std::string short_name = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
      library.impl(short_name.c_str(), of_numbers.contains(short_name) ? torch::CppFunction::makeFromBoxedFunction<&run_on_numbers>()
                                                                       : torch::CppFunction::makeFromBoxedFunction<&run_on_zeros>());
    }
  });
}

}  // namespace mptune::profiler
