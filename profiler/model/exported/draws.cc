#include "profiler/model/exported/draws.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <string_view>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

/// Returns the value of an argument or its default; nullopt if a node computes it.
std::optional<double> number_of(const c10::FunctionSchema& schema, const ProgramNode& node, const char* name) {
  for (const NamedArgument& input : node.inputs) {
    if (input.name != name) continue;
    if (const auto* truth = std::get_if<bool>(&input.argument)) return *truth ? 1 : 0;
    if (const auto* whole = std::get_if<std::int64_t>(&input.argument)) return static_cast<double>(*whole);
    if (const auto* real = std::get_if<double>(&input.argument)) return *real;
    return {};
  }
  const std::optional<int> index = schema.argumentIndexWithName(name);
  if (!index) return {};
  const auto& value = schema.arguments()[as_index(*index)].default_value();
  if (!value || !(value->isDouble() || value->isBool())) return {};
  return value->isBool() ? (value->toBool() ? 1 : 0) : value->toDouble();
}

bool switched_off(const c10::FunctionSchema& schema, const ProgramNode& node) {
  const std::string& name = schema.name();
  const bool drops = name.find("dropout") != std::string::npos;
  return (drops && number_of(schema, node, "p") == 0) || number_of(schema, node, "dropout_p") == 0 ||
         number_of(schema, node, "dropout") == 0 || number_of(schema, node, "train") == 0 || number_of(schema, node, "training") == 0;
}

bool any_of(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Returns the value that defines the sample axis of the numbers: the query of attention, else the tensor that is filled. -1: none.
int drawn_value(const ProgramNode& node, bool attention) {
  int found = -1;
  const auto take_first = [&](int value) { found = found < 0 ? value : found; };
  for (const NamedArgument& input : node.inputs)
    if (attention && input.name == "query") each_value(input.argument, take_first);
  if (!attention && !node.outputs.empty()) each_value(node.outputs[0], take_first);
  return found;
}

}  // namespace

NodeDraws draws_of(const c10::OperatorHandle& operation, const ProgramNode& node, const std::vector<std::optional<SampleAxis>>& axes) {
  const c10::FunctionSchema& schema = operation.schema();
  const std::string& name = schema.name();
  NodeDraws draws;
  draws.random = operation.hasTag(at::Tag::nondeterministic_seeded) && !switched_off(schema, node);
  if (!draws.random) return draws;

  const bool features =
      any_of(name, {"aten::feature_dropout", "aten::feature_dropout_", "aten::feature_alpha_dropout", "aten::feature_alpha_dropout_"});
  const bool attention = name == "aten::scaled_dot_product_attention";
  const bool fills = any_of(name, {"aten::dropout", "aten::dropout_", "aten::alpha_dropout", "aten::alpha_dropout_", "aten::native_dropout",
                                   "aten::bernoulli", "aten::bernoulli_", "aten::uniform_", "aten::normal_", "aten::exponential_",
                                   "aten::rand", "aten::rand_like", "aten::randn", "aten::randn_like"});
  if (any_of(name, {"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"})) {
    draws.refused = "dropout between the layers of a recurrent network can't be drawn sample by sample";
  } else if (!features && !attention && !fills) {
    draws.refused = "its random numbers can't be drawn sample by sample";
  } else {
    const int value = drawn_value(node, attention);
    const auto axis = value < 0 ? std::nullopt : axes[as_index(value)];
    if (axis) draws.axis = *axis;
    if (!axis || (features && axis->dimension > 1)) draws.refused = "where the samples lie in what it draws is not known";
  }
  return draws;
}

}  // namespace mptune::profiler
