// Cuts of programs that write in place, and what is made again behind cuts: each against the step that is not cut.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "exported_chain.h"
#include "small_program.h"

#include "profiler/base/index.h"

namespace mptune::testing {
using namespace profiler;
namespace {

constexpr std::int64_t kSamples = 3;

class Cuts : public ::testing::Test {
 protected:
  Cuts() {
    at::manual_seed(1);
    x = small.input("x", {-1, 4});
    w = small.parameter("w", at::randn({4}));
    a = small.two("aten.mul.Tensor", x, w, {-1, 4});
  }

  std::shared_ptr<const BoundProgram> bound(std::int64_t samples = kSamples) const {
    return std::make_shared<const BoundProgram>(small.program, "small", samples);
  }

  /// The un-cut step against the step cut at every position that is allowed; those that are not.
  std::vector<int> forbidden_while_others_agree(std::int64_t samples = kSamples) {
    small.output(small.one("aten.sin.default", result, {-1, 4}));
    const auto program = bound(samples);
    const Tensors inputs{at::randn({kSamples, 4})};
    std::vector<int> forbidden;
    for (const bool recompute : {false, true}) {
      for (const Boundary boundary : {Boundary::shared, Boundary::copied}) {
        ExportedChain whole(program, small.tensors, {});
        whole.step(inputs);
        forbidden.clear();
        for (int cut = 1; cut < program->graph.nodes(); ++cut) {
          if (!program->cuts.at(cut).forbidden.empty()) {
            forbidden.push_back(cut);
            continue;
          }
          ExportedChain chain(program, small.tensors, {cut});
          chain.set_boundary(boundary);
          chain.step(inputs, recompute);
          expect_equal(chain, whole, "cut at " + std::to_string(cut) + (recompute ? ", recomputed" : ""));
        }
      }
    }
    return forbidden;
  }

  static void expect_equal(const ExportedChain& chain, const ExportedChain& whole, const std::string& what) {
    EXPECT_TRUE(at::allclose(chain.loss(), whole.loss())) << what << ": loss";
    const auto gradients = chain.gradients();
    for (const auto& [name, gradient] : whole.gradients()) EXPECT_TRUE(at::allclose(gradients.at(name), gradient)) << what << ": " << name;
    const auto buffers = chain.buffers();
    for (const auto& [name, buffer] : whole.buffers()) EXPECT_TRUE(at::allclose(buffers.at(name), buffer)) << what << ": " << name;
  }

  SmallProgram small;
  int x = 0, w = 0, a = 0, result = 0;
};

using Forbidden = std::vector<int>;

TEST_F(Cuts, ViewsOfViewsShareMemory) {
  const int flat = small.call("aten.view.default", {{"self", ProgramValue{a}}, {"size", ProgramInts{{-1, {}}}}}, {-1});
  const int back = small.call("aten.view.default", {{"self", ProgramValue{flat}}, {"size", ProgramInts{{-1, {}}, {4, {}}}}}, {-1, 4});
  const int part =
      small.call("aten.slice.Tensor", {{"self", ProgramValue{back}}, {"dim", std::int64_t{1}}, {"end", std::int64_t{2}}}, {-1, 2});
  (void)small.number("aten.mul_.Tensor", part, 3, {-1, 2});
  result = small.two("aten.add.Tensor", a, back, {-1, 4});
  EXPECT_EQ(forbidden_while_others_agree(), (Forbidden{2, 3, 4}));
}

TEST_F(Cuts, ValuesWrittenThroughAnAliasAreCloned) {
  const int view = small.call("aten.view.default", {{"self", ProgramValue{a}}, {"size", ProgramInts{{-1, {}}, {4, {}}}}}, {-1, 4});
  (void)small.number("aten.add_.Tensor", view, 1, {-1, 4});
  result = small.two("aten.mul.Tensor", a, a, {-1, 4});
  EXPECT_TRUE(bound()->cuts.at(1).writes_to_carried);
  EXPECT_EQ(forbidden_while_others_agree(), (Forbidden{2}));
}

TEST_F(Cuts, AnInputOfTheProgramStaysAsItIs) {
  const int view = small.call("aten.view.default", {{"self", ProgramValue{x}}, {"size", ProgramInts{{-1, {}}, {4, {}}}}}, {-1, 4});
  (void)small.number("aten.add_.Tensor", view, 1, {-1, 4});
  result = small.two("aten.mul.Tensor", x, w, {-1, 4});
  const Tensors inputs{at::ones({kSamples, 4})};
  small.output(result);
  ExportedChain chain(bound(), small.tensors, {});
  chain.step(inputs);
  EXPECT_TRUE(at::equal(inputs[0], at::ones({kSamples, 4})));
  small.program.outputs.clear();
  small.program.graph.outputs.clear();
  EXPECT_EQ(forbidden_while_others_agree(), (Forbidden{2}));
}

TEST_F(Cuts, ABufferThatIsWrittenIsUsedOnOneSide) {
  const int buffer = small.buffer("average", at::ones({4}));
  const int view = small.call("aten.view.default", {{"self", ProgramValue{buffer}}, {"size", ProgramInts{{4, {}}}}}, {4});
  const int y = small.two("aten.add.Tensor", a, buffer, {-1, 4});
  (void)small.number("aten.mul_.Tensor", view, 2, {4});
  const int z = small.one("aten.cos.default", y, {-1, 4});
  result = small.two("aten.add.Tensor", z, buffer, {-1, 4});
  EXPECT_EQ(forbidden_while_others_agree(), (Forbidden{2, 3, 4, 5}));
}

TEST_F(Cuts, NoneWhereTheLayoutDecidesWhatIsWritten) {
  const int turned =
      small.call("aten.slice.Tensor", {{"self", ProgramValue{a}}, {"dim", std::int64_t{1}}, {"step", std::int64_t{2}}}, {-1, 2});
  const int solid = small.one("aten.contiguous.default", turned, {-1, 2});
  (void)small.number("aten.add_.Tensor", solid, 1, {-1, 2});
  const int sum = small.two("aten.mul.Tensor", turned, solid, {-1, 2});
  result = small.call("aten.repeat.default", {{"self", ProgramValue{sum}}, {"repeats", ProgramInts{{1, {}}, {2, {}}}}}, {-1, 4});
  EXPECT_EQ(forbidden_while_others_agree(), (Forbidden{1, 2, 3}));
}

TEST_F(Cuts, TransposesByEinsumAreViews) {
  const int turned = small.call("aten.einsum.default", {{"equation", std::string("ij->ji")}, {"tensors", ProgramTensors{{a}}}}, {4, -1});
  (void)small.number("aten.mul_.Tensor", turned, 2, {4, -1});
  result = small.one("aten.cos.default", a, {-1, 4});
  EXPECT_EQ(forbidden_while_others_agree(), (Forbidden{1, 2}));
}

TEST_F(Cuts, ProductsByEinsumAreTensorsOfTheirOwn) {
  const int matrix = small.parameter("matrix", at::randn({4, 4}));
  const int product =
      small.call("aten.einsum.default", {{"equation", std::string("ij,jk->ik")}, {"tensors", ProgramTensors{{a}, {matrix}}}}, {-1, 4});
  result = small.two("aten.add_.Tensor", product, w, {-1, 4});
  EXPECT_EQ(forbidden_while_others_agree(), Forbidden{});
}

TEST_F(Cuts, WeightsThatAreWrittenKeepTheirGradientWhenRunAgain) {
  const int detached = small.one("aten.detach.default", w, {4});
  (void)small.number("aten.mul_.Tensor", detached, 1, {4});
  result = small.two("aten.mul.Tensor", a, w, {-1, 4});
  (void)forbidden_while_others_agree();
}

TEST_F(Cuts, TensorsThatShareMemoryMayCrossWhereNothingIsWritten) {
  const int view = small.call("aten.view.default", {{"self", ProgramValue{a}}, {"size", ProgramInts{{-1, {}}, {4, {}}}}}, {-1, 4});
  const int y = small.one("aten.cos.default", a, {-1, 4});
  const int z = small.two("aten.mul.Tensor", view, y, {-1, 4});
  result = small.two("aten.add.Tensor", z, a, {-1, 4});
  EXPECT_EQ(forbidden_while_others_agree(), Forbidden{});
}

TEST_F(Cuts, ARegionsResultMayBeWhatItWasGiven) {
  ProgramGraph region;
  region.values = {{"g", ValueDescription::Kind::tensor, small.program.graph.values[as_index(a)].tensor, {}}};
  region.inputs = {ProgramValue{0}};
  region.outputs = {ProgramValue{0}};
  small.program.graph.graphs.push_back(region);
  const std::vector<NamedArgument> off{{"", std::string("cpu")}, {"", ProgramNone{}}, {"", false}, {"", ProgramNone{}}};
  std::vector<NamedArgument> arguments = off;
  arguments.insert(arguments.end(), {{"", ProgramRegion{0}}, {"", ProgramValue{a}}});
  const int same = small.call("higher_order.wrap_with_autocast", std::move(arguments), {-1, 4});
  (void)small.number("aten.mul_.Tensor", same, 2, {-1, 4});
  result = small.one("aten.cos.default", a, {-1, 4});
  EXPECT_EQ(forbidden_while_others_agree(), (Forbidden{1, 2}));
}

// A mask of times x times for each sample, made of one number a sample.
TEST_F(Cuts, ValuesWithoutGradientAreRecomputedIfThatIsCheaper) {
  const int seen = small.call("aten.select.int", {{"self", ProgramValue{x}}, {"dim", std::int64_t{1}}, {"index", std::int64_t{0}}}, {-1});
  const int positive = small.number("aten.gt.Scalar", seen, 0, {-1});
  const int wide = small.call("aten.view.default", {{"self", ProgramValue{positive}}, {"size", ProgramInts{{-1, {}}, {1, {}}}}}, {-1, 1});
  const int mask = small.call("aten.expand.default", {{"self", ProgramValue{wide}}, {"size", ProgramInts{{-1, {}}, {4, {}}}}}, {-1, 4});
  const int y = small.one("aten.sin.default", a, {-1, 4});
  result = small.two("aten.mul.Tensor", y, mask, {-1, 4});
  // The mask's 4 bytes a sample cost more than a view of 1 byte a sample that is carried instead; for few samples all is the same.
  EXPECT_EQ(bound(100'000)->cuts.at(6).carried, (std::vector<int>{wide, y}));
  EXPECT_EQ(bound(100'000)->cuts.at(6).recomputed, std::vector<int>{mask});
  EXPECT_EQ(forbidden_while_others_agree(100'000), Forbidden{});
}

TEST_F(Cuts, RandomOrWrittenValuesAreNeverRecomputed) {
  const int noise = small.one("aten.rand_like.default", x, {-1, 4});
  const int doubled = small.number("aten.mul.Tensor", noise, 2, {-1, 4});
  const int copy = small.one("aten.clone.default", x, {-1, 4});
  (void)small.number("aten.add_.Tensor", copy, 1, {-1, 4});
  const int y = small.two("aten.add.Tensor", doubled, copy, {-1, 4});
  result = small.two("aten.mul.Tensor", a, y, {-1, 4});
  small.output(result);
  const auto program = bound(100'000);
  for (int cut = 2; cut < program->graph.nodes(); ++cut)
    for (const int again : program->cuts.at(cut).recomputed) EXPECT_TRUE(again != noise && again != copy && again != y) << cut;
}

}  // namespace
}  // namespace mptune::testing
