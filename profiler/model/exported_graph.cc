#include "mptune/profiler/model/exported_graph.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "mptune/profiler/model/symbolic_operators.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

constexpr const char* kOperators = "torch.ops.";
constexpr const char* kHigherOrder = "torch.ops.higher_order.";
// The positions of batch_norm's parameters.
constexpr std::size_t kInput = 0, kRunningMean = 3, kRunningVariance = 4, kTraining = 5, kMomentum = 6;

/// "torch.ops.aten.add.Tensor" is "aten::add" and "Tensor"; "default" stands for no overload.
c10::OperatorName operator_name(const std::string& target) {
  const std::string name = target.substr(std::string_view(kOperators).size());
  const std::size_t space = name.find('.'), overload = name.rfind('.');
  if (space == std::string::npos || overload == space) return {name, ""};
  const std::string last = name.substr(overload + 1);
  return {name.substr(0, space) + "::" + name.substr(space + 1, overload - space - 1), last == "default" ? "" : last};
}

std::string short_name(const std::string& target) {
  return target.starts_with(kOperators) ? target.substr(std::string_view(kOperators).size()) : target;
}

// Views that their schemas don't call so.
bool returns_its_input(const std::string& name) {
  static constexpr std::string_view names[] = {"aten::reshape", "aten::contiguous", "aten::dropout",   "aten::feature_dropout",
                                               "aten::flatten", "aten::to",         "aten::reshape_as"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool draws(const c10::FunctionSchema& schema) {
  static constexpr std::string_view names[] = {"aten::dropout",
                                               "aten::dropout_",
                                               "aten::feature_dropout",
                                               "aten::feature_dropout_",
                                               "aten::bernoulli",
                                               "aten::bernoulli_",
                                               "aten::rand",
                                               "aten::randn",
                                               "aten::randint",
                                               "aten::rand_like",
                                               "aten::randn_like",
                                               "aten::randperm",
                                               "aten::normal",
                                               "aten::normal_",
                                               "aten::uniform_",
                                               "aten::rrelu",
                                               "aten::multinomial",
                                               "aten::native_dropout",
                                               "aten::scaled_dot_product_attention",
                                               "aten::randint_like"};
  return std::find(std::begin(names), std::end(names), schema.name()) != std::end(names);
}

void each_value(const ProgramArgument& argument, const std::function<void(int)>& visit) {
  if (const auto* one = std::get_if<ProgramValue>(&argument)) visit(one->index);
  if (const auto* list = std::get_if<ProgramTensors>(&argument))
    for (const ProgramValue& entry : *list)
      if (entry.index >= 0) visit(entry.index);
}

bool is_number(const ProgramArgument& argument, double number) {
  if (const auto* whole = std::get_if<std::int64_t>(&argument)) return static_cast<double>(*whole) == number;
  if (const auto* real = std::get_if<double>(&argument)) return *real == number;
  return false;
}

/// Autocast as the program's region wants it, and as before behind it.
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

ExportedGraph::ExportedGraph(const ProgramGraph& graph, std::string where) : graph_(graph), where_(std::move(where)) {
  for (const ProgramGraph& inner : graph.graphs) graphs_.push_back(std::make_unique<ExportedGraph>(inner, where_));
  nodes_.resize(graph.nodes.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    try {
      bind(graph.nodes[i], nodes_[i]);
    } catch (const std::invalid_argument& misfit) {
      throw Error(describe(static_cast<int>(i)) + " can't be run: " + misfit.what(), where_,
                  "export the model again with the torch that mptune was built with (" TORCH_VERSION "), or write that line otherwise");
    }
  }
}

std::string ExportedGraph::describe(int node) const {
  const ProgramNode& source = graph_.nodes[static_cast<std::size_t>(node)];
  return short_name(source.target) + (source.module.empty() ? "" : " in " + source.module) +
         (source.source.empty() ? "" : " (" + source.source + ")");
}

void ExportedGraph::bind(const ProgramNode& source, Node& node) {
  for (const ProgramArgument& output : source.outputs) each_value(output, [&](int value) { node.makes.push_back(value); });
  if (source.target.starts_with(kHigherOrder)) {
    bind_region(source, node);
  } else if (source.target.starts_with(kOperators)) {
    bind_operation(source, node);
    bind_training(source, node);
    find_aliases(source, node);
  } else {
    node.kind = Kind::symbolic;
    node.symbolic = symbolic_operator(source.target);
    if (node.symbolic < 0) throw std::invalid_argument("no such operator");
    for (const NamedArgument& input : source.inputs) node.arguments.push_back(BoundArgument::bind(input.argument));
  }
  for (const BoundArgument& argument : node.arguments)
    node.reads.insert(node.reads.end(), argument.reads().begin(), argument.reads().end());
}

void ExportedGraph::bind_operation(const ProgramNode& source, Node& node) {
  node.operation = c10::Dispatcher::singleton().findSchema(operator_name(source.target));
  if (!node.operation) throw std::invalid_argument("LibTorch has no such operator");
  const c10::FunctionSchema& schema = node.operation->schema();
  std::vector<std::optional<BoundArgument>> arguments(schema.arguments().size());
  for (const NamedArgument& input : source.inputs) {
    const std::optional<int> index = schema.argumentIndexWithName(input.name);
    if (!index) throw std::invalid_argument("it has no argument '" + input.name.substr(0, 40) + "'");
    const auto place = static_cast<std::size_t>(*index);
    arguments[place] = BoundArgument::bind(input.argument, schema.arguments()[place].real_type());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& parameter = schema.arguments()[i];
    if (!arguments[i] && parameter.name() == "device") arguments[i] = BoundArgument::device();
    if (!arguments[i] && !parameter.default_value()) throw std::invalid_argument("argument '" + parameter.name() + "' is missing");
    node.arguments.push_back(arguments[i] ? std::move(*arguments[i]) : BoundArgument::constant(*parameter.default_value()));
  }
  node.random = draws(schema);
}

/// What training must do otherwise than the program says: batch norms and their counters, whose state is committed once per batch.
void ExportedGraph::bind_training(const ProgramNode& source, Node& node) {
  const auto argument = [&](const char* name) -> const ProgramArgument* {
    for (const NamedArgument& input : source.inputs)
      if (input.name == name) return &input.argument;
    return nullptr;
  };
  if (source.target == "torch.ops.aten.batch_norm.default") {
    const ProgramArgument* mean = argument("running_mean");
    const ProgramArgument* training = argument("training");
    const ProgramArgument* momentum = argument("momentum");
    const bool trains = training != nullptr && std::holds_alternative<bool>(*training) && std::get<bool>(*training);
    if (!trains || mean == nullptr || !std::holds_alternative<ProgramValue>(*mean)) return;
    node.kind = Kind::batch_norm;
    node.running_mean = std::get<ProgramValue>(*mean).index;
    if (momentum == nullptr || !std::holds_alternative<double>(*momentum)) throw std::invalid_argument("its momentum is no number");
    node.momentum = std::get<double>(*momentum);
  }
  if (source.target == "torch.ops.aten.add_.Tensor" && argument("self") != nullptr && argument("other") != nullptr) {
    const auto* counter = std::get_if<ProgramValue>(argument("self"));
    if (counter == nullptr || !is_number(*argument("other"), 1)) return;
    const ValueDescription& value = graph_.values[static_cast<std::size_t>(counter->index)];
    if (!value.name.ends_with("num_batches_tracked") || !value.tensor || !value.tensor->sizes.empty()) return;
    node.kind = Kind::count_batch;
    node.batch_counter = counter->index;
  }
}

void ExportedGraph::bind_region(const ProgramNode& source, Node& node) {
  const std::string name = source.target.substr(std::string_view(kHigherOrder).size());
  if (name == "wrap_with_set_grad_enabled") {
    node.kind = Kind::set_grad;
  } else if (name == "wrap_with_autocast") {
    node.kind = Kind::autocast;
  } else if (name == "cond") {
    node.kind = Kind::conditional;
  } else {
    throw std::invalid_argument("higher-order operators other than cond, autocast and set_grad_enabled can't be trained here");
  }
  for (const NamedArgument& input : source.inputs) {
    if (const auto* region = std::get_if<ProgramRegion>(&input.argument)) {
      node.regions.push_back(region->index);
    } else {
      node.arguments.push_back(BoundArgument::bind(input.argument));
    }
  }
  const std::size_t arguments = node.kind == Kind::set_grad ? 1 : node.kind == Kind::autocast ? 4 : 1;
  if (node.regions.size() != (node.kind == Kind::conditional ? 2U : 1U) || node.arguments.size() < arguments)
    throw std::invalid_argument("it has other arguments than expected");
  for (const int region : node.regions) {
    const ExportedGraph& inner = *graphs_[static_cast<std::size_t>(region)];
    for (int i = 0; i < inner.nodes(); ++i) {
      // What a region writes to may be anything it was given.
      if (!inner.writes(i).empty() && node.writes.empty())
        for (std::size_t given = arguments; given < node.arguments.size(); ++given)
          node.writes.insert(node.writes.end(), node.arguments[given].reads().begin(), node.arguments[given].reads().end());
      node.random = node.random || inner.random(i);
      if (inner.running_mean(i) >= 0 || inner.batch_counter(i) >= 0)
        throw std::invalid_argument("a batch norm in a region of its own has no place for its statistics");
    }
  }
}

void ExportedGraph::find_aliases(const ProgramNode& source, Node& node) const {
  const c10::FunctionSchema& schema = node.operation->schema();
  const bool unannotated = returns_its_input(schema.name());
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    const bool may_alias = alias != nullptr || (unannotated && i == 0);
    if (!may_alias) continue;
    for (const int read : node.arguments[i].reads()) {
      if (alias != nullptr && alias->isWrite() && node.kind == Kind::operation) node.writes.push_back(read);
      for (const ProgramArgument& output : source.outputs) each_value(output, [&](int made) { node.aliases.emplace_back(made, read); });
    }
  }
}

void ExportedGraph::run_node(int index, ProgramValues& values, const ProgramRun& run) const {
  const Node& node = nodes_[static_cast<std::size_t>(index)];
  std::vector<c10::IValue> stack;
  switch (node.kind) {
    case Kind::operation:
      run_operation(node, values, run, stack);
      break;
    case Kind::batch_norm:
      run_batch_norm(node, values, run, stack);
      break;
    case Kind::count_batch:
      stack.push_back(values[static_cast<std::size_t>(node.batch_counter)]);
      break;
    case Kind::symbolic:
      for (const BoundArgument& argument : node.arguments) stack.push_back(argument.value(values, run.device));
      try {
        stack = {run_symbolic(node.symbolic, stack)};
      } catch (const std::invalid_argument& misfit) {
        throw Error(describe(index) + " failed: " + misfit.what(), where_, "give an --input and --batch that the model takes");
      }
      break;
    case Kind::set_grad:
    case Kind::autocast:
    case Kind::conditional:
      stack = run_region(node, values, run);
      break;
  }
  store(graph_.nodes[static_cast<std::size_t>(index)], stack, values);
}

void ExportedGraph::run_operation(const Node& node, ProgramValues& values, const ProgramRun& run, std::vector<c10::IValue>& stack) const {
  stack.reserve(node.arguments.size() + 2);
  for (const BoundArgument& argument : node.arguments) stack.push_back(argument.value(values, run.device));
  node.operation->callBoxed(&stack);
}

void ExportedGraph::run_batch_norm(const Node& node, ProgramValues& values, const ProgramRun& run, std::vector<c10::IValue>& stack) const {
  for (const BoundArgument& argument : node.arguments) stack.push_back(argument.value(values, run.device));
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
  const auto graph = [&](std::size_t region) -> const ExportedGraph& { return *graphs_[static_cast<std::size_t>(node.regions[region])]; };
  if (node.kind == Kind::set_grad) {
    // Where gradients are off already, as before a recomputation, they stay off.
    const at::AutoGradMode mode(arguments[0].toBool() && at::GradMode::is_enabled());
    return graph(0).run(rest(1), run);
  }
  if (node.kind == Kind::autocast) {
    const auto scalar =
        arguments[1].isNone() ? at::autocast::get_autocast_dtype(run.device.type()) : static_cast<at::ScalarType>(arguments[1].toInt());
    const AutocastRegion region(run.device.type(), scalar, arguments[2].toBool(), arguments[3].isNone() || arguments[3].toBool());
    return graph(0).run(rest(4), run);
  }
  const bool first = arguments[0].isTensor() ? arguments[0].toTensor().item<bool>() : arguments[0].toBool();
  std::vector<c10::IValue> operands;
  for (c10::IValue& operand : arguments) {
    if (&operand == arguments.data()) continue;
    if (operand.isTensorList()) {
      for (const at::Tensor& tensor : operand.toTensorVector()) operands.emplace_back(tensor);
    } else {
      operands.push_back(operand);
    }
  }
  return graph(first ? 0 : 1).run(operands, run);
}

/// Results into the values that the node makes: one each, or a list's entries. A higher-order operator may give a list as many values.
void ExportedGraph::store(const ProgramNode& source, std::vector<c10::IValue>& results, ProgramValues& values) const {
  const auto put = [&](const ProgramValue& value, c10::IValue result) {
    if (value.index >= 0) values[static_cast<std::size_t>(value.index)] = std::move(result);
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
        throw Error(
            short_name(source.target) + " made " + std::to_string(tensors.size()) + " tensors of " + std::to_string(entries->size()),
            where_, "export the model with a dynamic batch: mptune_export.py does");
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
    if (const auto* value = std::get_if<ProgramValue>(&graph_.inputs[i])) values[static_cast<std::size_t>(value->index)] = inputs[i];
  for (int node = 0; node < nodes(); ++node) run_node(node, values, run);
  std::vector<c10::IValue> outputs;
  for (const ProgramArgument& output : graph_.outputs) outputs.push_back(BoundArgument::bind(output).value(values, run.device));
  return outputs;
}

}  // namespace mptune
