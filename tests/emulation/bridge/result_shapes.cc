#include "tests/emulation/bridge/result_shapes.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "tests/emulation/bridge/call_key.h"
#include "tests/emulation/bridge/host_arguments.h"
#include "tests/emulation/bridge/side_thread.h"

namespace emulation {

namespace {

using Shapes = std::shared_ptr<const ResultShapes>;

struct Known {
  std::mutex mutex;
  std::unordered_map<std::string, Shapes> shapes;
};
Known& known() {
  static Known& all = *new Known;
  return all;
}

ResultShapes::Result result_of(const c10::IValue& value) {
  ResultShapes::Result result{.is_list = value.isList()};
  if (!result.is_list) {
    result.tensors.push_back(shape_of(value.toTensor()));
    return result;
  }
  for (const c10::IValue& element : value.toListRef()) result.tensors.push_back(shape_of(element.toTensor()));
  return result;
}

/// Which of the tensors that stand for written arguments were resized by the kernel.
std::vector<ResultShapes::Resized> resized_of(const OperatorFacts& facts, const Values& arguments, HostArguments& host) {
  std::vector<ResultShapes::Resized> resized;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!facts.written[i] || !arguments[i].isTensor() || !arguments[i].toTensor().defined()) continue;
    const at::Tensor& before = arguments[i].toTensor();
    if (const at::Tensor after = host.of(before); after.sizes() != before.sizes()) resized.push_back({i, shape_of(after)});
  }
  return resized;
}

/// LAPACK counts rows from 1 and trusts its callers.
void make_pivots_valid(const OperatorFacts& facts, torch::jit::Stack& stack) {
  for (std::size_t i = 0; i < stack.size(); ++i)
    if (facts.handle.schema().arguments()[i].name().ends_with("pivots") && stack[i].isTensor()) stack[i].toTensor().fill_(1);
}

ResultShapes run_with_zeros(const OperatorFacts& facts, const Values& arguments) {
  HostArguments host(HostArguments::Memory::zeros);
  torch::jit::Stack stack = host.of(arguments);
  make_pivots_valid(facts, stack);
  const at::Generator generator = at::detail::createCPUGenerator();
  if (facts.generator_argument >= 0) stack[static_cast<std::size_t>(facts.generator_argument)] = generator;
  facts.compute(facts, stack, generator);
  ResultShapes shapes;
  for (std::size_t i = 0; i < facts.argument_of_result.size(); ++i)
    shapes.results.push_back(facts.argument_of_result[i] >= 0 ? ResultShapes::Result{} : result_of(stack.at(i)));
  shapes.resized = resized_of(facts, arguments, host);
  return shapes;
}

ResultShapes find_shapes(const OperatorFacts& facts, const Values& arguments) {
  ResultShapes shapes;
  if (!run_aside([&] { shapes = run_with_zeros(facts, arguments); })) shapes.depend_on_numbers = true;
  return shapes;
}

}  // namespace

TensorShape shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, "the emulated GPU has no sparse tensors");
  TensorShape shape{.is_defined = true, .type = tensor.scalar_type(), .sizes = tensor.sizes().vec()};
  const c10::DimVector contiguous = c10::contiguous_strides(tensor.sizes());
  const c10::IntArrayRef strides = tensor.is_non_overlapping_and_dense() ? tensor.strides() : c10::IntArrayRef(contiguous);
  shape.strides = strides.vec();
  return shape;
}

std::shared_ptr<const ResultShapes> shapes_of(const OperatorFacts& facts, const Values& arguments) {
  Known& all = known();
  std::string key = call_key(facts, arguments);
  {
    const std::lock_guard lock(all.mutex);
    if (const auto found = all.shapes.find(key); found != all.shapes.end()) return found->second;
  }
  Shapes shapes = std::make_shared<const ResultShapes>(find_shapes(facts, arguments));
  const std::lock_guard lock(all.mutex);
  return all.shapes.try_emplace(std::move(key), std::move(shapes)).first->second;
}

}  // namespace emulation
