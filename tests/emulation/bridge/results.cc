#include "tests/emulation/bridge/results.h"

#include <ATen/ATen.h>
#include <ATen/cuda/EmptyTensor.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/emulation/bridge/launch.h"

namespace emulation {

namespace {

void store(const OperatorFacts& facts, const at::Tensor& result, const at::Tensor& destination) {
  if (!result.defined() && !destination.defined()) return;
  TORCH_CHECK(result.defined() && destination.defined() && result.sizes() == destination.sizes() && result.dtype() == destination.dtype(),
              "the emulated GPU: ", facts.handle.operator_name(), " gives results of other shapes for these numbers than for zeros");
  if (result.strides() == destination.strides() && result.is_non_overlapping_and_dense() && !result.is_conj() && !result.is_neg()) {
    if (result.nbytes() > 0) std::memcpy(destination.mutable_data_ptr(), result.const_data_ptr(), result.nbytes());
    return;
  }
  destination.copy_(result);
}

void store(const OperatorFacts& facts, const c10::IValue& result, const c10::IValue& destination) {
  if (destination.isTensor()) return store(facts, result.toTensor(), destination.toTensor());
  const auto from = result.toListRef(), to = destination.toListRef();
  TORCH_CHECK(from.size() == to.size(), "the emulated GPU: ", facts.handle.operator_name(),
              " gives more results for these numbers than for zeros");
  for (std::size_t i = 0; i < to.size(); ++i) store(facts, from[i].toTensor(), to[i].toTensor());
}

void launch_store(const OperatorFacts& facts, const at::Tensor& result, const at::Tensor& destination) {
  HostArguments host(HostArguments::Memory::shared);
  Kernel kernel{.name = facts.name};
  add_use(kernel, destination, true);
  kernel.compute = [&facts, result, to = host.of(destination)] { store(facts, result, to); };
  launch(std::move(kernel));
}

at::Tensor on_gpu(const OperatorFacts& facts, const at::Tensor& result, c10::Device gpu) {
  if (!result.defined()) return result;
  const TensorShape shape = shape_of(result);
  const at::Tensor copy(at::detail::empty_strided_cuda(shape.sizes, shape.strides, shape.type, gpu));
  launch_store(facts, result, copy);
  return copy;
}

c10::IValue on_gpu(const OperatorFacts& facts, const c10::IValue& result, c10::Device gpu) {
  if (result.isTensor()) return on_gpu(facts, result.toTensor(), gpu);
  if (!result.isTensorList()) return result;
  c10::List<at::Tensor> list;
  for (const c10::IValue& element : result.toListRef()) list.push_back(on_gpu(facts, element.toTensor(), gpu));
  return list;
}

}  // namespace

void store_results(const OperatorFacts& facts, const torch::jit::Stack& results, const Values& destinations) {
  for (std::size_t i = 0; i < destinations.size(); ++i)
    if (facts.argument_of_result[i] < 0) store(facts, results.at(i), destinations[i]);
}

void resize_output(const at::Tensor& output, const TensorShape& shape) {
  output.resize_(shape.sizes);
  if (output.strides() != c10::IntArrayRef(shape.strides)) output.as_strided_(shape.sizes, shape.strides);
}

void fill_outputs(const OperatorFacts& facts, const Values& arguments, HostArguments& host) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!facts.is_output[i] || !arguments[i].isTensor()) continue;
    const at::Tensor& output = arguments[i].toTensor();
    const at::Tensor result = host.of(output);
    if (output.sizes() != result.sizes()) resize_output(output, shape_of(result));
    launch_store(facts, result, output);
  }
}

Values results_on_gpu(const OperatorFacts& facts, const Values& arguments, torch::jit::Stack results, c10::Device gpu) {
  Values values;
  for (std::size_t i = 0; i < facts.argument_of_result.size(); ++i) {
    const int argument = facts.argument_of_result[i];
    values.push_back(argument >= 0 ? arguments[static_cast<std::size_t>(argument)] : on_gpu(facts, results.at(i), gpu));
  }
  return values;
}

}  // namespace emulation
