#include "tests/emulation/bridge/operators.h"

#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <utility>

#include "tests/emulation/bridge/allocator_tracker.h"
#include "tests/emulation/bridge/device_checks.h"
#include "tests/emulation/bridge/host_arguments.h"
#include "tests/emulation/bridge/launch.h"
#include "tests/emulation/bridge/random.h"
#include "tests/emulation/bridge/result_shapes.h"
#include "tests/emulation/bridge/results.h"
#include "tests/emulation/bridge/workspaces.h"

namespace emulation {

namespace {

/// What the CPU kernel gets: the arguments as CPU tensors, and a generator.
struct Call {
  torch::jit::Stack stack;
  at::Generator generator;
};

Call make_call(const OperatorFacts& facts, const Values& arguments, c10::Device gpu, HostArguments& host) {
  Call call{host.of(arguments), {}};
  if (!facts.is_random) return call;
  const bool given = facts.generator_argument >= 0;
  call.generator = drawn_generator(given ? arguments[static_cast<std::size_t>(facts.generator_argument)] : c10::IValue(), gpu);
  if (given) call.stack[static_cast<std::size_t>(facts.generator_argument)] = call.generator;
  return call;
}

bool writes_statistics(const OperatorFacts& facts, const Values& arguments, std::size_t argument) {
  return facts.training_argument >= 0 && arguments[static_cast<std::size_t>(facts.training_argument)].toBool() &&
         std::find(facts.running_statistics.begin(), facts.running_statistics.end(), static_cast<int>(argument)) !=
             facts.running_statistics.end();
}

Kernel kernel_of(const OperatorFacts& facts, const Values& arguments) {
  Kernel kernel{.name = facts.name};
  for_each_tensor(arguments, [&](const at::Tensor& tensor, std::size_t i) {
    if (tensor.is_cuda()) add_use(kernel, tensor, facts.written[i] || writes_statistics(facts, arguments, i));
  });
  if (facts.flops != nullptr) kernel.flops = facts.flops(arguments);
  return kernel;
}

at::Tensor allocated(const TensorShape& shape, c10::Device gpu) {
  if (!shape.is_defined) return {};
  return at::Tensor(at::detail::empty_strided_cuda(shape.sizes, shape.strides, shape.type, gpu));
}

c10::IValue allocated(const ResultShapes::Result& result, c10::Device gpu) {
  if (!result.is_list) return allocated(result.tensors.at(0), gpu);
  c10::List<at::Tensor> list;
  for (const TensorShape& shape : result.tensors) list.push_back(allocated(shape, gpu));
  return list;
}

Values new_results(const OperatorFacts& facts, const Values& arguments, const ResultShapes& shapes, c10::Device gpu) {
  Values results;
  for (std::size_t i = 0; i < facts.argument_of_result.size(); ++i) {
    const int argument = facts.argument_of_result[i];
    results.push_back(argument >= 0 ? arguments[static_cast<std::size_t>(argument)] : allocated(shapes.results[i], gpu));
  }
  return results;
}

/// The results that are new, in host tensors that share their memory: what the CPU kernel's results are copied to.
Values destinations_of(const OperatorFacts& facts, const Values& results, HostArguments& host) {
  Values destinations;
  for (std::size_t i = 0; i < results.size(); ++i)
    destinations.push_back(facts.argument_of_result[i] >= 0 ? c10::IValue() : host.of(results[i]));
  return destinations;
}

Values enqueue(const OperatorFacts& facts, const Values& arguments, const ResultShapes& shapes, c10::Device gpu) {
  for (const auto& [argument, shape] : shapes.resized) resize_output(arguments[argument].toTensor(), shape);
  Values results = new_results(facts, arguments, shapes, gpu);
  HostArguments host(HostArguments::Memory::shared);
  Kernel kernel = kernel_of(facts, arguments);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (facts.argument_of_result[i] < 0)
      for_each_tensor({results[i]}, [&](const at::Tensor& tensor, std::size_t) { add_use(kernel, tensor, true); });
  kernel.compute = [&facts, call = make_call(facts, arguments, gpu, host), destinations = destinations_of(facts, results, host)]() mutable {
    facts.compute(facts, call.stack, call.generator);
    store_results(facts, call.stack, destinations);
    call = {};
  };
  launch(std::move(kernel));
  return results;
}

struct Outcome {
  torch::jit::Stack results;
  std::exception_ptr error;
};

/// The results are allocated once their shapes are known and filled by a second kernel. What the CPU kernel throws is the caller's.
Values run_and_wait(const OperatorFacts& facts, const Values& arguments, c10::Device gpu) {
  HostArguments host(HostArguments::Memory::shared);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (facts.is_output[i] && arguments[i].isTensor()) host.own_memory_for(arguments[i].toTensor());
  const auto outcome = std::make_shared<Outcome>();
  Kernel kernel = kernel_of(facts, arguments);
  kernel.compute = [&facts, outcome, call = make_call(facts, arguments, gpu, host)]() mutable {
    try {
      facts.compute(facts, call.stack, call.generator);
      outcome->results = std::move(call.stack);
    } catch (...) {
      outcome->error = std::current_exception();
    }
  };
  launch(std::move(kernel));
  c10::cuda::stream_synchronize(c10::cuda::getCurrentCUDAStream().stream());
  if (outcome->error) std::rethrow_exception(outcome->error);
  fill_outputs(facts, arguments, host);
  return results_on_gpu(facts, arguments, std::move(outcome->results), gpu);
}

}  // namespace

Values results_of(const OperatorFacts& facts, const Values& arguments) {
  const c10::Device gpu = checked_device(facts, arguments);
  TORCH_CHECK_NOT_IMPLEMENTED(facts.has_cpu_kernel, "the emulated GPU has no ", facts.handle.operator_name());
  const c10::cuda::CUDAGuard guard(gpu);
  track_allocations();
  if (facts.is_matrix_product) take_workspace();
  if (facts.waits) return run_and_wait(facts, arguments, gpu);
  const auto shapes = shapes_of(facts, arguments);
  return shapes->depend_on_numbers ? run_and_wait(facts, arguments, gpu) : enqueue(facts, arguments, *shapes, gpu);
}

Values take_arguments(const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  const auto begin = stack.end() - static_cast<std::ptrdiff_t>(handle.schema().arguments().size());
  Values arguments(std::make_move_iterator(begin), std::make_move_iterator(stack.end()));
  stack.erase(begin, stack.end());
  return arguments;
}

void run_operator(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const Values arguments = take_arguments(handle, *stack);
  for (c10::IValue& result : results_of(facts_of(handle), arguments)) stack->push_back(std::move(result));
}

}  // namespace emulation
