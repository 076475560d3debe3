#include "profiler/model/program/sample_axes.h"

#include <gtest/gtest.h>

namespace mptune::profiler {
namespace {

using Sizes = std::vector<SymbolicSize>;

SymbolicSize times(std::int64_t factor) {
  const std::string symbol = "Symbol('s1', positive=True, integer=True)";
  return SymbolicSize::parse(factor == 1 ? symbol : "Mul(Integer(" + std::to_string(factor) + "), " + symbol + ")");
}
SymbolicSize fixed(std::int64_t number) {
  return SymbolicSize(number);
}

/// A program that takes a tensor of the first sizes and calls one operator after another, each on what the one before made.
ExportedProgram chain(const std::vector<std::pair<std::string, Sizes>>& steps) {
  ExportedProgram program;
  program.symbols["s1"] = {1, {}};
  program.inputs = {{}};
  program.outputs = {{}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    TensorDescription about;
    about.sizes = steps[i].second;
    program.graph.values.push_back({"v" + std::to_string(i), ValueDescription::Kind::tensor, about, {}});
    const ProgramValue made{static_cast<int>(i)};
    if (i == 0) {
      program.graph.inputs = {made};
      continue;
    }
    ProgramNode node;
    node.target = "torch.ops.aten." + steps[i].first;
    node.inputs = {{"self", ProgramValue{made.index - 1}}};
    node.outputs = {made};
    program.graph.nodes.push_back(node);
  }
  return program;
}

std::vector<std::optional<SampleAxis>> axes_of(const ExportedProgram& program) {
  return sample_axes(program.graph, sample_symbols(program), {});
}

/// The sample of every element of a tensor of `sizes`, in order.
std::vector<std::int64_t> samples_by_axis(const std::vector<std::int64_t>& sizes, const SampleAxis& axis, std::int64_t samples) {
  std::int64_t behind = 1, all = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    all *= sizes[d];
    if (static_cast<int>(d) > axis.dimension) behind *= sizes[d];
  }
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < all; ++i) result.push_back(i / behind / axis.inner % samples);
  return result;
}

TEST(SampleAxes, TheFirstDimensionOfTheFirstInputIsTheBatch) {
  const ExportedProgram program = chain({{"", {times(1), fixed(3)}}, {"relu.default", {times(1), fixed(3)}}, {"sum.default", {}}});
  const SampleSymbols symbols = sample_symbols(program);
  EXPECT_EQ(symbols.batch, "s1");
  const auto axes = axes_of(program);
  EXPECT_EQ(axes[1], (SampleAxis{0, 1, 1}));
  EXPECT_EQ(axes[2], (SampleAxis{-1, 1, 1}));
}

// A reshape keeps the order of elements, so the sample of each is known from the shape before.
TEST(SampleAxes, AreFollowedThroughReshapes) {
  const std::vector<std::pair<Sizes, Sizes>> cases{
      {{fixed(5), times(1), fixed(8)}, {times(5), fixed(8)}},  {{fixed(5), times(1), fixed(8)}, {fixed(5), times(2), fixed(4)}},
      {{fixed(5), times(1), fixed(2), fixed(3)}, {times(30)}}, {{times(1), fixed(4), fixed(3)}, {times(4), fixed(3)}},
      {{fixed(2), times(1)}, {fixed(1), times(2), fixed(1)}},
  };
  for (const auto& [before, after] : cases) {
    const ExportedProgram program =
        chain({{"", {times(1)}}, {"mystery.default", before}, {"view.default", after}, {"view.default", before}});
    const SampleSymbols symbols = sample_symbols(program);
    const auto axes = axes_of(program);
    ASSERT_TRUE(axes[1] && axes[2]);
    const auto numbers = [&](const Sizes& sizes) {
      std::vector<std::int64_t> result;
      for (const SymbolicSize& size : sizes) result.push_back(size.value(symbols.values).value());
      return result;
    };
    const std::int64_t samples = symbols.values.at("s1");
    EXPECT_EQ(samples_by_axis(numbers(after), *axes[2], samples), samples_by_axis(numbers(before), *axes[1], samples));
    EXPECT_EQ(axes[3], axes[1]);
  }
}

TEST(SampleAxes, AreEmptyIfUnknown) {
  const Sizes rows{times(6), fixed(2)};
  EXPECT_FALSE(axes_of(chain({{"", {times(1)}}, {"repeat.default", rows}, {"relu.default", rows}}))[2]);
  EXPECT_FALSE(axes_of(chain({{"", {times(1)}}, {"mm.default", {times(1), times(1)}}}))[1]);
  EXPECT_FALSE(axes_of(chain({{"", {times(1)}}, {"nonzero.default", {SymbolicSize::parse("Symbol('u0', integer=True)")}}}))[1]);
  // What keeps the dimension keeps its order.
  const auto axes = axes_of(chain({{"", {times(1), fixed(6)}}, {"view.default", {times(6)}}, {"relu.default", {fixed(4), times(6)}}}));
  EXPECT_EQ(axes[1], (SampleAxis{0, 1, 6}));
  EXPECT_EQ(axes[2], (SampleAxis{1, 1, 6}));
}

}  // namespace
}  // namespace mptune::profiler
