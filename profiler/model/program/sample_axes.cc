#include "profiler/model/program/sample_axes.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kSamples = 61;
constexpr std::int64_t kOtherSize = 64;

using Axis = std::optional<SampleAxis>;

bool reshapes(const std::string& target) {
  static constexpr std::string_view names[] = {"torch.ops.aten.view.default",         "torch.ops.aten.reshape.default",
                                               "torch.ops.aten._unsafe_view.default", "torch.ops.aten.flatten.using_ints",
                                               "torch.ops.aten.unflatten.int",        "torch.ops.aten.reshape_as.default",
                                               "torch.ops.aten.view_as.default"};
  return std::find(std::begin(names), std::end(names), target) != std::end(names);
}

class AxisFinder {
 public:
  AxisFinder(const ProgramGraph& graph, const SampleSymbols& symbols, const std::vector<SampleAxis>& given)
      : graph_(graph), symbols_(symbols), axes_(graph.values.size()), others_(symbols.values) {
    others_.erase(symbols.batch);
    for (const ProgramArgument& input : graph.inputs) each_value(input, [&](int value) { axes_[as_index(value)] = of(value, given); });
  }

  std::vector<Axis> find() {
    for (const ProgramNode& node : graph_.nodes) {
      std::vector<SampleAxis> read;
      for (const NamedArgument& input : node.inputs)
        each_value(input.argument, [&](int value) {
          if (const Axis& axis = axes_[as_index(value)]) read.push_back(*axis);
        });
      for (const ProgramArgument& output : node.outputs)
        each_value(output, [&](int value) { axes_[as_index(value)] = made(node, value, read); });
    }
    return std::move(axes_);
  }

 private:
  [[nodiscard]] const TensorDescription* tensor(int value) const {
    const auto& about = graph_.values[as_index(value)].tensor;
    return about ? &*about : nullptr;
  }

  /// Finds a value's sample axis from its sizes; if those are ambiguous, from the axes of the values that it was computed from (`read`).
  [[nodiscard]] Axis of(int value, const std::vector<SampleAxis>& read) const {
    const TensorDescription* about = tensor(value);
    if (about == nullptr) return {};
    SampleAxis axis{-1, 1, 1};
    std::int64_t times = 0;
    for (std::size_t d = 0; d < about->sizes.size(); ++d) {
      if (about->sizes[d].value(others_)) continue;
      times = about->sizes[d].multiple_of(symbols_.batch);
      if (times == 0 || axis.dimension >= 0) return {};
      axis.dimension = static_cast<int>(d);
    }
    if (axis.dimension < 0 || times == 1) return axis;
    Axis found;
    for (const SampleAxis& one : read) {
      if (one.dimension < 0 || one.outer * one.inner != times) continue;
      if (found && (found->outer != one.outer || found->inner != one.inner)) return {};
      found = SampleAxis{axis.dimension, one.outer, one.inner};
    }
    return found;
  }

  [[nodiscard]] Axis made(const ProgramNode& node, int value, const std::vector<SampleAxis>& read) const {
    const auto* source = node.inputs.empty() ? nullptr : std::get_if<ProgramValue>(&node.inputs[0].argument);
    Axis axis = of(value, read);
    if (!reshapes(node.target) || source == nullptr || (axis && axis->outer * axis->inner == 1)) return axis;
    const Axis& from = axes_[as_index(source->index)];
    const auto before = numbers(source->index), after = numbers(value);
    return from && before && after ? through_reshape(*from, *before, *after) : Axis{};
  }

  [[nodiscard]] std::optional<std::vector<std::int64_t>> numbers(int value) const {
    const TensorDescription* about = tensor(value);
    if (about == nullptr) return {};
    std::vector<std::int64_t> sizes;
    for (const SymbolicSize& size : about->sizes) {
      const auto number = size.value(symbols_.values);
      if (!number || *number < 1 || *number > (std::int64_t{1} << 20)) return {};
      sizes.push_back(*number);
    }
    return sizes;
  }

  // A reshape keeps the distance between adjacent samples, in elements.
  [[nodiscard]] Axis through_reshape(const SampleAxis& from, const std::vector<std::int64_t>& before,
                                     const std::vector<std::int64_t>& after) const {
    if (from.dimension < 0) return {};
    const std::int64_t samples = symbols_.values.at(symbols_.batch);
    std::int64_t apart = from.inner, behind = 1;
    for (std::size_t d = as_index(from.dimension) + 1; d < before.size(); ++d)
      if (__builtin_mul_overflow(apart, before[d], &apart)) return {};
    for (std::size_t d = after.size(); d-- > 0;) {
      std::int64_t with = 0;
      if (__builtin_mul_overflow(behind, after[d], &with)) return {};
      if (apart < with) {
        const std::int64_t inner = apart / behind, outer = after[d] / (inner * samples);
        if (apart % behind != 0 || after[d] != outer * samples * inner) return {};
        return SampleAxis{static_cast<int>(d), outer, inner};
      }
      behind = with;
    }
    return {};
  }

  const ProgramGraph& graph_;
  const SampleSymbols& symbols_;
  std::vector<Axis> axes_;
  SymbolValues others_;
};

}  // namespace

SampleSymbols sample_symbols(const ExportedProgram& program) {
  SampleSymbols symbols;
  for (const auto& [symbol, range] : program.symbols)
    symbols.values[symbol] =
        std::clamp(kOtherSize, range.least.value_or(1), std::max(range.least.value_or(1), range.most.value_or(kOtherSize)));
  for (std::size_t i = 0; i < program.inputs.size() && symbols.batch.empty(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i]);
    if (value == nullptr || program.inputs[i].kind != ProgramInput::Kind::user) continue;
    const auto& about = program.graph.values[as_index(value->index)].tensor;
    if (!about || about->sizes.empty()) continue;
    for (const auto& [symbol, range] : program.symbols)
      if (about->sizes[0].multiple_of(symbol) == 1) symbols.batch = symbol;
  }
  if (!symbols.batch.empty()) symbols.values[symbols.batch] = kSamples;
  return symbols;
}

std::vector<std::optional<SampleAxis>> sample_axes(const ProgramGraph& graph, const SampleSymbols& symbols,
                                                   const std::vector<SampleAxis>& given) {
  return AxisFinder(graph, symbols, given).find();
}

}  // namespace mptune::profiler
