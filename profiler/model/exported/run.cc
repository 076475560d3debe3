#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <exception>
#include <new>
#include <stdexcept>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/exported/graph.h"
#include "profiler/model/exported/symbolic_operators.h"
#include "profiler/model/random/randomness.h"

namespace mptune::profiler {
namespace {

// Positions of batch_norm's parameters.
constexpr std::size_t kInput = 0, kRunningMean = 3, kRunningVariance = 4, kTraining = 5, kMomentum = 6;

/// Sets autocast for a region of the program, and restores it afterwards.
class AutocastRegion {
 public:
  AutocastRegion(at::DeviceType type, at::ScalarType scalar, bool enabled, bool cached)
      : type_(type),
        enabled_(at::autocast::is_autocast_enabled(type)),
        cached_(at::autocast::is_autocast_cache_enabled()),
        scalar_(at::autocast::get_autocast_dtype(type)) {
    at::autocast::set_autocast_enabled(type, enabled);
    at::autocast::set_autocast_dtype(type, scalar);
    at::autocast::set_autocast_cache_enabled(cached);
    at::autocast::increment_nesting();
  }
  ~AutocastRegion() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, enabled_);
    at::autocast::set_autocast_dtype(type_, scalar_);
    at::autocast::set_autocast_cache_enabled(cached_);
  }
  AutocastRegion(const AutocastRegion&) = delete;
  AutocastRegion& operator=(const AutocastRegion&) = delete;

 private:
  at::DeviceType type_;
  bool enabled_, cached_;
  at::ScalarType scalar_;
};

}  // namespace

void ExportedGraph::run_node(int node, ProgramValues& values, const ProgramRun& run) const {
  try {
    const at::AutoGradMode gradients(at::GradMode::is_enabled() && !graph_.nodes[as_index(node)].without_gradients);
    dispatch(node, values, run);
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    C10_THROW_ERROR(Error, describe(node) + " failed: " + message_of(error));
  }
}

void ExportedGraph::dispatch(int index, ProgramValues& values, const ProgramRun& run) const {
  const Node& node = nodes_[as_index(index)];
  std::vector<c10::IValue> stack;
  switch (node.kind) {
    case Kind::operation:
      if (run.draws != nullptr && node.draws.random) run.draws->at_node(first_node_ + index, node.draws.axis);
      run_operation(node, values, run, stack);
      break;
    case Kind::batch_norm:
      run_batch_norm(node, values, run, stack);
      break;
    case Kind::count_batch:
      stack.push_back(values[as_index(node.batch_counter)]);
      break;
    case Kind::symbolic:
      for (const BoundArgument& argument : node.arguments) stack.push_back(argument.value(values, run.device));
      stack = {run_symbolic(node.symbolic, stack)};
      break;
    case Kind::set_grad:
    case Kind::autocast:
    case Kind::conditional:
      stack = run_region(node, values, run);
      break;
  }
  store(graph_.nodes[as_index(index)], stack, values);
}

void ExportedGraph::run_operation(const Node& node, ProgramValues& values, const ProgramRun& run, std::vector<c10::IValue>& stack) const {
  stack.reserve(node.arguments.size() + 2);
  for (const BoundArgument& argument : node.arguments) stack.push_back(argument.value(values, run.device));
  node.operation->callBoxed(&stack);
}

void ExportedGraph::run_batch_norm(const Node& node, ProgramValues& values, const ProgramRun& run, std::vector<c10::IValue>& stack) const {
  for (const BoundArgument& argument : node.arguments) stack.push_back(argument.value(values, run.device));
  if (run.evaluating && stack[kRunningMean].isTensor() && stack[kRunningVariance].isTensor()) {
    stack[kTraining] = false;
    return node.operation->callBoxed(&stack);
  }
  const at::Tensor input = stack[kInput].toTensor();
  const bool records = !run.recomputing && run.batch_norm != nullptr;
  const auto fresh = [&](std::size_t place) { return records ? at::zeros_like(stack[place].toTensor()) : at::Tensor(); };
  const at::Tensor mean = fresh(kRunningMean), variance = fresh(kRunningVariance);
  stack[kRunningMean] = mean;
  stack[kRunningVariance] = variance;
  stack[kMomentum] = 1.0;
  node.operation->callBoxed(&stack);
  if (records) run.batch_norm(node.running_mean, {mean, variance, input.numel() / std::max<std::int64_t>(1, input.size(1))});
}

std::vector<c10::IValue> ExportedGraph::run_region(const Node& node, ProgramValues& values, const ProgramRun& run) const {
  std::vector<c10::IValue> arguments;
  for (const BoundArgument& argument : node.arguments) arguments.push_back(argument.value(values, run.device));
  const auto rest = [&](std::ptrdiff_t first) { return std::vector<c10::IValue>(arguments.begin() + first, arguments.end()); };
  const auto graph = [&](std::size_t region) -> const ExportedGraph& { return *graphs_[as_index(node.regions[region])]; };
  if (node.kind == Kind::set_grad) {
    // Gradients that are already off (the forward before a recomputation) stay off.
    const at::AutoGradMode mode(arguments[0].toBool() && at::GradMode::is_enabled());
    return graph(0).run(rest(1), run);
  }
  if (node.kind == Kind::autocast) {
    const auto scalar = arguments[1].isNone() ? at::autocast::get_autocast_dtype(run.device.type()) : arguments[1].toScalarType();
    TORCH_CHECK(at::isReducedFloatingType(scalar) || scalar == at::kFloat, "autocast to ", scalar);
    const AutocastRegion region(run.device.type(), scalar, arguments[2].toBool(), arguments[3].isNone() || arguments[3].toBool());
    return graph(0).run(rest(4), run);
  }
  const bool first = arguments[0].isTensor() ? arguments[0].toTensor().item<bool>() : arguments[0].toBool();
  std::vector<c10::IValue> operands;
  for (c10::IValue& operand : arguments) {
    if (&operand == arguments.data()) continue;
    if (operand.isTensorList())
      for (const at::Tensor& tensor : operand.toTensorVector()) operands.emplace_back(tensor);
    else
      operands.push_back(operand);
  }
  return graph(first ? 0 : 1).run(operands, run);
}

/// Stores results as the node's values: one each, or the entries of a list. A higher-order operator may return a list for several values.
void ExportedGraph::store(const ProgramNode& source, std::vector<c10::IValue>& results, ProgramValues& values) const {
  const auto put = [&](const ProgramValue& value, c10::IValue result) {
    if (value.index >= 0) values[as_index(value.index)] = std::move(result);
  };
  const std::size_t count = std::min(source.outputs.size(), results.size());
  const auto* list = source.outputs.size() == 1 ? std::get_if<ProgramTensors>(source.outputs.data()) : nullptr;
  if (list != nullptr && (results.size() != 1 || results[0].isTensor())) {
    for (std::size_t i = 0; i < list->size() && i < results.size(); ++i) put((*list)[i], std::move(results[i]));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (const auto* one = std::get_if<ProgramValue>(&source.outputs[i])) put(*one, std::move(results[i]));
    if (const auto* entries = std::get_if<ProgramTensors>(&source.outputs[i])) {
      const std::vector<at::Tensor> tensors = results[i].toTensorVector();
      if (tensors.size() < entries->size())
        throw std::invalid_argument("it made " + std::to_string(tensors.size()) + " tensors of " + std::to_string(entries->size()));
      for (std::size_t k = 0; k < entries->size(); ++k) put((*entries)[k], tensors[k]);
    }
  }
}

std::vector<c10::IValue> ExportedGraph::run(const std::vector<c10::IValue>& inputs, const ProgramRun& run) const {
  if (inputs.size() != graph_.inputs.size())
    throw Error("a region takes " + std::to_string(graph_.inputs.size()) + " values, not " + std::to_string(inputs.size()), where_,
                "the file is damaged: export the model again");
  ProgramValues values(graph_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (const auto* value = std::get_if<ProgramValue>(&graph_.inputs[i])) values[as_index(value->index)] = inputs[i];
  for (int node = 0; node < nodes(); ++node) run_node(node, values, run);
  std::vector<c10::IValue> outputs;
  for (const ProgramArgument& output : graph_.outputs) outputs.push_back(BoundArgument::bind(output).value(values, run.device));
  return outputs;
}

}  // namespace mptune::profiler
