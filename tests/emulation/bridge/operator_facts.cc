#include "tests/emulation/bridge/operator_facts.h"

#include <ATen/core/enum_tag.h>
#include <c10/core/DispatchKeySet.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tests/emulation/bridge/costs.h"
#include "tests/emulation/machine/machine.h"

namespace emulation {

namespace {

/// By the address of the operator's name, which lives as long as the operator.
std::unordered_map<const c10::OperatorName*, OperatorFacts>& all_facts() {
  static auto& all = *new std::unordered_map<const c10::OperatorName*, OperatorFacts>;
  return all;
}

/// LibTorch's wrapper drops the arguments from the stack before it copies results that are references to them, so others must hold them.
void run_cpu_kernel(const OperatorFacts& facts, torch::jit::Stack& stack, const at::Generator&) {
  const torch::jit::Stack arguments = stack;
  c10::Dispatcher::singleton().redispatchBoxed(facts.handle, c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

int argument_of(const c10::Argument& result, const c10::FunctionSchema& schema) {
  if (!is_written(result)) return -1;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (is_written(argument) && argument.alias_info()->beforeSets() == result.alias_info()->beforeSets()) return static_cast<int>(i);
  }
  return -1;
}

bool is_of_tensors(const c10::Argument& result) {
  const c10::TypeKind kind = result.type()->kind();
  return kind == c10::TypeKind::TensorType ||
         (kind == c10::TypeKind::ListType && result.type()->containedType(0)->kind() == c10::TypeKind::TensorType);
}

/// The type T of T, T? and T[].
c10::TypeKind element_kind(const c10::TypePtr& type) {
  const bool holds = type->kind() == c10::TypeKind::OptionalType || type->kind() == c10::TypeKind::ListType;
  return holds ? element_kind(type->containedType(0)) : type->kind();
}

/// Learning rates and the like change from step to step; sizes of results never depend on them, but for those of ranges.
bool counts_by_kind(const std::string& name, const c10::Argument& argument) {
  if (name == "aten::arange" || name == "aten::range") return false;
  const c10::TypeKind kind = element_kind(argument.type());
  return kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType;
}

/// CUDA's kernels of these move tensors to the GPU themselves, or read them on the host.
bool moves_tensors(std::string_view name) {
  constexpr std::array<std::string_view, 9> kNames = {"aten::index",      "aten::_index_put_impl_",   "aten::index_put",
                                                      "aten::index_put_", "aten::_unsafe_index",      "aten::_ctc_loss",
                                                      "aten::bernoulli_", "aten::_ctc_loss_backward", "aten::_unsafe_index_put"};
  return name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_ada") || name.starts_with("aten::_fused_sgd") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// Results depend on numbers, though the operator has no tag that says so.
bool depends_on_numbers(const c10::OperatorHandle& handle) {
  return handle.hasTag(at::Tag::dynamic_output_shape) || handle.hasTag(at::Tag::data_dependent_output) ||
         handle.schema().name() == "aten::_unique";
}

/// These schemas do not say that the running mean and variance are written.
bool updates_statistics(std::string_view name) {
  return name == "aten::native_batch_norm" || name == "aten::cudnn_batch_norm";
}

void read_arguments(OperatorFacts& facts, const c10::FunctionSchema& schema) {
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    facts.written.push_back(is_written(argument));
    facts.is_output.push_back(argument.is_out());
    facts.by_kind.push_back(counts_by_kind(schema.name(), argument));
    if (element_kind(argument.type()) == c10::TypeKind::GeneratorType) facts.generator_argument = static_cast<int>(i);
    if (!updates_statistics(schema.name())) continue;
    if (argument.name() == "training") facts.training_argument = static_cast<int>(i);
    if (argument.name().starts_with("running_")) facts.running_statistics.push_back(static_cast<int>(i));
  }
}

void read_results(OperatorFacts& facts, const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    facts.argument_of_result.push_back(argument_of(result, schema));
    facts.waits = facts.waits || !is_of_tensors(result);
  }
}

}  // namespace

OperatorFacts make_facts(const c10::OperatorHandle& handle, Compute compute) {
  const c10::FunctionSchema& schema = handle.schema();
  OperatorFacts facts{.handle = handle};
  facts.name = intern(schema.name());
  facts.is_random = handle.hasTag(at::Tag::nondeterministic_seeded);
  facts.waits = depends_on_numbers(handle);
  read_arguments(facts, schema);
  read_results(facts, schema);
  facts.is_random = facts.is_random || facts.generator_argument >= 0;
  facts.takes_host_tensors = moves_tensors(schema.name());
  facts.is_matrix_product = is_matrix_product(schema.name());
  facts.has_cpu_kernel = compute != nullptr || handle.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  facts.flops = flops_of(schema.name());
  facts.compute = compute != nullptr ? compute : run_cpu_kernel;
  return facts;
}

void add_facts(OperatorFacts facts) {
  const c10::OperatorName* key = &facts.handle.operator_name();
  all_facts().insert_or_assign(key, std::move(facts));
}

const OperatorFacts& facts_of(const c10::OperatorHandle& handle) {
  return all_facts().at(&handle.operator_name());
}

}  // namespace emulation
