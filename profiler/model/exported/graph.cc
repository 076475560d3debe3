#include "profiler/model/exported/graph.h"

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>
#include <torch/version.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/library_message.h"
#include "profiler/model/exported/gradient_terms.h"
#include "profiler/model/exported/symbolic_operators.h"
#include "profiler/model/layers/permitted_operators.h"

namespace mptune::profiler {
namespace {

constexpr const char* kOperators = "torch.ops.";
constexpr const char* kHigherOrder = "torch.ops.higher_order.";

/// Returns "aten::add" and "Tensor" for "torch.ops.aten.add.Tensor"; "default" stands for no overload.
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

// True for operators that return a view for some layouts, types or arguments, although their schema does not say so.
bool may_return_its_input(const std::string& name) {
  static constexpr std::string_view names[] = {
      "aten::reshape",       "aten::reshape_as",  "aten::contiguous",    "aten::flatten",         "aten::to",
      "aten::type_as",       "aten::dropout",     "aten::alpha_dropout", "aten::feature_dropout", "aten::feature_alpha_dropout",
      "aten::atleast_1d",    "aten::atleast_2d",  "aten::atleast_3d",    "aten::meshgrid",        "aten::broadcast_tensors",
      "aten::einsum",        "aten::sum_to_size", "aten::unsafe_chunk",  "aten::unsafe_split",    "aten::unsafe_split_with_sizes",
      "aten::cartesian_prod"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_number(const ProgramArgument& argument, double number) {
  if (const auto* whole = std::get_if<std::int64_t>(&argument)) return static_cast<double>(*whole) == number;
  if (const auto* real = std::get_if<double>(&argument)) return *real == number;
  return false;
}

}  // namespace

ExportedGraph::ExportedGraph(const ExportedProgram& program, std::string where) : graph_(program.graph), where_(std::move(where)) {
  Shared shared{sample_symbols(program), 0, program.torch_version};
  bind_all({}, shared);
}

ExportedGraph::ExportedGraph(const ProgramGraph& graph, std::string where, const std::vector<SampleAxis>& given, Shared& shared)
    : graph_(graph), where_(std::move(where)) {
  bind_all(given, shared);
}

void ExportedGraph::bind_all(const std::vector<SampleAxis>& given, Shared& shared) {
  check_types();
  axes_ = sample_axes(graph_, shared.symbols, given);
  graphs_.resize(graph_.graphs.size());
  nodes_.resize(graph_.nodes.size());
  first_node_ = shared.nodes;
  shared.nodes += nodes();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    try {
      bind(graph_.nodes[i], nodes_[i], shared);
    } catch (const std::invalid_argument& misfit) {
      refuse(static_cast<int>(i), misfit.what(), shared);
    } catch (const c10::Error& misfit) {
      refuse(static_cast<int>(i), message_of(misfit), shared);
    }
  }
  find_memory();
  relax_views();
}

void ExportedGraph::refuse(int node, const std::string& why, const Shared& shared) const {
  throw Error(describe(node) + " can't be run: " + why + "; the file was made with torch " +
                  (shared.made_with.empty() ? "of an unknown version" : shared.made_with) + ", this is " TORCH_VERSION,
              where_,
              "export the model again with torch " TORCH_VERSION
              ", or write that line with LibTorch's own operators: libraries of others "
              "are not loaded");
}

std::string ExportedGraph::message_of(const std::exception& error) {
  const auto* libtorch = dynamic_cast<const c10::Error*>(&error);
  return library_message(libtorch != nullptr ? libtorch->what_without_backtrace() : error.what());
}

void ExportedGraph::check_types() const {
  for (const ValueDescription& value : graph_.values) {
    try {
      if (value.tensor) (void)scalar_type_of(value.tensor->scalar_type);
    } catch (const std::invalid_argument& unknown) {
      throw Error("'" + value.name + "' has an " + unknown.what(), where_, "export the model again with torch " TORCH_VERSION);
    }
  }
}

/// Checks that a node's outputs in the file match its operator's returns.
void ExportedGraph::check_outputs(const ProgramNode& source, const Node& node) const {
  const auto& returns = node.operation->schema().returns();
  bool fits = source.outputs.size() <= returns.size();
  for (std::size_t i = 0; fits && i < source.outputs.size(); ++i) {
    const c10::TypeKind kind = returns[i].type()->kind();
    if (std::holds_alternative<ProgramTensors>(source.outputs[i])) fits = kind == c10::TypeKind::ListType;
    if (const auto* value = std::get_if<ProgramValue>(&source.outputs[i]))
      fits = is_tensor(value->index) == (kind == c10::TypeKind::TensorType || kind == c10::TypeKind::OptionalType);
  }
  if (!fits) throw std::invalid_argument("it does not return what the file says that it makes");
}

void ExportedGraph::check_draws() const {
  for (int node = 0; node < nodes(); ++node) {
    const Node& bound = nodes_[as_index(node)];
    if (!bound.draws.refused.empty())
      throw Error(describe(node) + ": " + bound.draws.refused, where_,
                  "draw for each sample by itself (dropout, bernoulli, rand or randn of a tensor that has the samples in a dimension), or "
                  "set its probability to 0");
    for (const int region : bound.regions) graphs_[as_index(region)]->check_draws();
  }
}

std::string ExportedGraph::describe(int node) const {
  const ProgramNode& source = graph_.nodes[as_index(node)];
  return short_name(source.target) + (source.module.empty() ? "" : " in " + source.module) +
         (source.source.empty() ? "" : " (" + source.source + ")");
}

void ExportedGraph::bind(const ProgramNode& source, Node& node, Shared& shared) {
  for (const ProgramArgument& output : source.outputs) each_value(output, [&](int value) { node.makes.push_back(value); });
  if (source.target.starts_with(kHigherOrder)) {
    bind_region(source, node, shared);
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
  const c10::OperatorName name = operator_name(source.target);
  node.operation = c10::Dispatcher::singleton().findSchema(name);
  if (!node.operation) throw std::invalid_argument("LibTorch has no such operator");
  const c10::FunctionSchema& schema = node.operation->schema();
  if (const std::string refusal = refusal_of_operator(schema); !refusal.empty()) throw std::invalid_argument("it " + refusal);
  std::vector<std::optional<BoundArgument>> arguments(schema.arguments().size());
  for (const NamedArgument& input : source.inputs) {
    const std::optional<int> index = schema.argumentIndexWithName(input.name);
    if (!index) throw std::invalid_argument("it has no argument '" + input.name.substr(0, 40) + "'");
    const auto place = as_index(*index);
    arguments[place] = BoundArgument::bind(input.argument, schema.arguments()[place].real_type());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& parameter = schema.arguments()[i];
    if (!arguments[i] && parameter.name() == "device") arguments[i] = BoundArgument::device();
    if (!arguments[i] && !parameter.default_value()) throw std::invalid_argument("argument '" + parameter.name() + "' is missing");
    node.arguments.push_back(arguments[i] ? std::move(*arguments[i]) : BoundArgument::constant(*parameter.default_value()));
  }
  check_outputs(source, node);
  node.draws = draws_of(*node.operation, source, axes_);
}

/// Binds batch norms and their counters, whose state is committed once per batch instead of written by the node.
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
    if (const ProgramArgument* variance = argument("running_var"); variance != nullptr && std::holds_alternative<ProgramValue>(*variance))
      node.running_variance = std::get<ProgramValue>(*variance).index;
    if (node.running_variance < 0) throw std::invalid_argument("it has a running mean and no running variance");
    if (momentum == nullptr || !std::holds_alternative<double>(*momentum)) throw std::invalid_argument("its momentum is not a number");
    node.momentum = std::get<double>(*momentum);
  }
  if (source.target == "torch.ops.aten.instance_norm.default") {
    const ProgramArgument* mean = argument("running_mean");
    if (mean != nullptr && std::holds_alternative<ProgramValue>(*mean))
      throw std::invalid_argument("running statistics of an instance norm have no place: use track_running_stats=False");
  }
  if (source.target == "torch.ops.aten.add_.Tensor" && argument("self") != nullptr && argument("other") != nullptr) {
    const auto* counter = std::get_if<ProgramValue>(argument("self"));
    if (counter == nullptr || !is_number(*argument("other"), 1)) return;
    const ValueDescription& value = graph_.values[as_index(counter->index)];
    if (!value.name.ends_with("num_batches_tracked") || !value.tensor || !value.tensor->sizes.empty()) return;
    node.kind = Kind::count_batch;
    node.batch_counter = counter->index;
  }
}

void ExportedGraph::bind_region(const ProgramNode& source, Node& node, Shared& shared) {
  const std::string name = source.target.substr(std::string_view(kHigherOrder).size());
  if (name == "wrap_with_set_grad_enabled")
    node.kind = Kind::set_grad;
  else if (name == "wrap_with_autocast")
    node.kind = Kind::autocast;
  else if (name == "cond")
    node.kind = Kind::conditional;
  else
    throw std::invalid_argument("higher-order operators other than cond, autocast and set_grad_enabled can't be trained here");
  for (const NamedArgument& input : source.inputs)
    if (const auto* region = std::get_if<ProgramRegion>(&input.argument))
      node.regions.push_back(region->index);
    else
      node.arguments.push_back(BoundArgument::bind(input.argument));
  const std::size_t arguments = node.kind == Kind::set_grad ? 1 : node.kind == Kind::autocast ? 4 : 1;
  if (node.regions.size() != (node.kind == Kind::conditional ? 2U : 1U) || node.arguments.size() < arguments)
    throw std::invalid_argument("it has other arguments than expected");
  std::vector<SampleAxis> axes;
  for (const BoundArgument& argument : node.arguments)
    for (const int read : argument.reads())
      if (const auto& axis = axes_[as_index(read)]) axes.push_back(*axis);
  for (const int region : node.regions) {
    auto& place = graphs_[as_index(region)];
    place.reset(new ExportedGraph(graph_.graphs[static_cast<std::size_t>(region)], where_, axes, shared));
    const ExportedGraph& inner = *place;
    find_region_aliases(source, arguments, inner, node);
    for (int i = 0; i < inner.nodes(); ++i) {
      node.draws.random = node.draws.random || inner.random(i);
      if (inner.running_mean(i) >= 0 || inner.batch_counter(i) >= 0)
        throw std::invalid_argument("a batch norm in a region of its own has no place for its statistics");
    }
  }
}

void ExportedGraph::find_aliases(const ProgramNode& source, Node& node) const {
  const c10::FunctionSchema& schema = node.operation->schema();
  const bool uncertain = may_return_its_input(schema.name());
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr && !uncertain) continue;
    // Only the first argument can be returned; einsum with several factors returns a new tensor.
    const bool factors = schema.name() == "aten::einsum" && node.arguments[i].reads().size() > 1;
    if (uncertain && alias == nullptr && (factors || (i > 0 && schema.name() != "aten::einsum"))) continue;
    for (const int read : node.arguments[i].reads()) {
      if (!is_tensor(read)) continue;
      if (alias != nullptr && alias->isWrite() && node.kind == Kind::operation) node.writes.push_back(read);
      for (const ProgramArgument& output : source.outputs)
        each_value(output, [&](int made) { node.aliases.push_back({made, read, !uncertain}); });
    }
  }
}

/// Derives from a region's graph which arguments the node writes to, and which outputs may be views of arguments or of each other.
void ExportedGraph::find_region_aliases(const ProgramNode& source, std::size_t first, const ExportedGraph& inner, Node& node) const {
  std::vector<int> operands, made;
  for (std::size_t i = first; i < node.arguments.size(); ++i)
    operands.insert(operands.end(), node.arguments[i].reads().begin(), node.arguments[i].reads().end());
  for (const ProgramArgument& output : source.outputs) each_value(output, [&](int value) { made.push_back(value); });
  std::map<int, int> given;  // by memory within the region
  const auto& inputs = inner.graph_.inputs;
  for (std::size_t i = 0; i < std::min(operands.size(), inputs.size()); ++i)
    each_value(inputs[i], [&](int value) { given.emplace(inner.memory_of(value), operands[i]); });
  for (int i = 0; i < inner.nodes(); ++i)
    for (const int value : inner.writes(i))
      if (const auto found = given.find(inner.memory_of(value)); found != given.end()) node.writes.push_back(found->second);
  std::size_t place = 0;
  for (const ProgramArgument& output : inner.graph_.outputs)
    each_value(output, [&](int value) {
      if (place >= made.size()) return;
      const auto [found, fresh] = given.emplace(inner.memory_of(value), made[place]);
      if (!fresh) node.aliases.push_back({made[place], found->second, /*certain=*/false});
      ++place;
    });
}

bool ExportedGraph::adds_one_term(int node) const {
  const Node& of = nodes_[as_index(node)];
  if (graph_.nodes[as_index(node)].without_gradients) return false;
  if (of.kind == Kind::batch_norm) return true;
  return of.kind == Kind::operation && profiler::adds_one_term(*of.operation) &&
         std::ranges::all_of(of.aliases, [](const ValueAlias& alias) { return alias.certain; });
}

/// Groups values that may share memory; the first value of a group represents it.
void ExportedGraph::find_memory() {
  memory_.resize(graph_.values.size());
  std::iota(memory_.begin(), memory_.end(), 0);
  const auto root = [&](int value) {
    const auto parent = [&](int of) -> int& { return memory_[as_index(of)]; };
    while (parent(value) != value) value = parent(value) = parent(parent(value));
    return value;
  };
  for (const Node& node : nodes_) {
    for (const ValueAlias& alias : node.aliases) {
      const int made = root(alias.made), read = root(alias.read);
      memory_[as_index(std::max(made, read))] = std::min(made, read);
    }
  }
  for (int value = 0; value < values(); ++value) memory_[as_index(value)] = root(value);
}

/// Lets view() copy as reshape() does. Another kernel than the one of the export may leave a tensor in another order in memory (attention
/// with a mask does, without gradients): view() then refuses what reshape() copies. If nobody writes to the memory, the two compute the
/// same.
void ExportedGraph::relax_views() {
  std::set<int> written;
  for (const Node& node : nodes_)
    for (const int value : node.writes) written.insert(memory_of(value));
  for (Node& node : nodes_) {
    const bool is_view = node.operation && node.operation->operator_name() == c10::OperatorName("aten::view", "");
    if (is_view && !node.makes.empty() && !written.contains(memory_of(node.makes[0])))
      node.operation = c10::Dispatcher::singleton().findSchema(c10::OperatorName("aten::reshape", ""));
  }
}

}  // namespace mptune::profiler
