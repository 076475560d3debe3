// Buffers that forward assigns: written where they were last used, so that the program can be cut behind it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "exported_chain.h"
#include "profiler/model/exported/early_writes.h"
#include "profiler/model/exported/layer_ends.h"
#include "small_program.h"

namespace mptune::testing {
using namespace profiler;
namespace {

std::vector<std::string> targets(const ExportedProgram& program) {
  std::vector<std::string> names;
  for (const ProgramNode& node : program.graph.nodes) {
    const std::string name = node.target.substr(std::string("torch.ops.aten.").size());
    names.push_back(name.substr(0, name.find('.')));
  }
  return names;
}

/// Three products of a 4x4 weight each. A buffer is used `first` products in, and written at the end.
struct Counting {
  explicit Counting(int first, bool in_place = false) {
    at::manual_seed(1);
    int x = small.input("x", {-1, 4});
    const int buffer = small.buffer("average", at::zeros({4}));
    int sum = -1;
    for (int i = 0; i < 3; ++i) {
      if (i == first) {
        sum = small.two(in_place ? "aten.add_.Tensor" : "aten.add.Tensor", buffer, buffer, {4});
        x = small.two("aten.add.Tensor", x, sum, {-1, 4});
      }
      x = small.two("aten.matmul.default", x, small.parameter("w" + std::to_string(i), at::eye(4) + 0.1 * at::randn({4, 4})), {-1, 4});
    }
    small.call("aten.copy_.default", {{"self", ProgramValue{buffer}}, {"src", ProgramValue{sum}}}, {4});
    small.output(x);
  }
  SmallProgram small;
};

TEST(EarlyWrites, MoveBehindTheLastUse) {
  const Counting counting(0);
  EXPECT_EQ(targets(counting.small.program), (std::vector<std::string>{"add", "add", "matmul", "matmul", "matmul", "copy_"}));
  EXPECT_EQ(targets(with_early_writes(counting.small.program, "small")),
            (std::vector<std::string>{"add", "copy_", "add", "matmul", "matmul", "matmul"}));
  // The second addition reads what the first has returned, the buffer.
  EXPECT_EQ(targets(with_early_writes(Counting(1, true).small.program, "small")),
            (std::vector<std::string>{"matmul", "add_", "add", "copy_", "matmul", "matmul"}));
}

TEST(EarlyWrites, TheProgramIsCutBehindThem) {
  for (const int first : {0, 1, 2}) {
    const auto bound = std::make_shared<const BoundProgram>(Counting(first).small.program, "small", 2);
    EXPECT_EQ(exported_layer_ends(*bound).size(), 4U) << first;
  }
}

TEST(EarlyWrites, SourcesThatAreWrittenLaterAreWaitedFor) {
  SmallProgram small;
  const int x = small.input("x", {-1, 4});
  const int buffer = small.buffer("average", at::zeros({4})), other = small.buffer("other", at::ones({4}));
  const int made = small.one("aten.neg.default", other, {4});
  const int y = small.one("aten.sin.default", x, {-1, 4});
  small.one("aten.sin_.default", made, {4});
  const int z = small.one("aten.cos.default", y, {-1, 4});
  small.call("aten.copy_.default", {{"self", ProgramValue{buffer}}, {"src", ProgramValue{made}}}, {4});
  small.call("aten.copy_.default", {{"self", ProgramValue{other}}, {"src", ProgramValue{buffer}}}, {4});
  small.output(z);
  EXPECT_EQ(targets(with_early_writes(small.program, "small")), (std::vector<std::string>{"neg", "sin", "sin_", "copy_", "cos", "copy_"}))
      << "the second copy reads what the first has written, by its old place";
}

TEST(EarlyWrites, CopiesIntoOtherTensorsStay) {
  SmallProgram small;
  const int x = small.input("x", {-1, 4});
  const int y = small.one("aten.sin.default", x, {-1, 4}), z = small.one("aten.cos.default", x, {-1, 4});
  small.one("aten.neg.default", z, {-1, 4});
  small.call("aten.copy_.default", {{"self", ProgramValue{z}}, {"src", ProgramValue{y}}}, {-1, 4});
  small.output(z);
  EXPECT_EQ(targets(with_early_writes(small.program, "small")), targets(small.program));
}

/// The output and the buffers after one run of the nodes as they are listed.
Tensors run_as_listed(const ExportedProgram& program, const std::map<std::string, at::Tensor>& tensors, const at::Tensor& x) {
  std::vector<c10::IValue> inputs;
  Tensors results;
  for (const ProgramInput& input : program.inputs) {
    if (input.kind == ProgramInput::Kind::user) {
      inputs.emplace_back(x);
      continue;
    }
    results.push_back(tensors.at(input.name).clone());
    inputs.emplace_back(results.back());
  }
  const at::NoGradGuard no_gradients;
  results.push_back(ExportedGraph(program, "small").run(inputs, {})[0].toTensor());
  return results;
}

/// Random programs that read, view and write two buffers, against their nodes in the order of the file.
TEST(EarlyWrites, ComputeWhatTheProgramComputes) {
  std::mt19937 random(3);
  int moved = 0;
  for (int test = 0; test < 2000; ++test) {
    SmallProgram small;
    const int x = small.input("x", {4});
    const std::vector<int> buffers{small.buffer("a", at::arange(4, at::kFloat)), small.buffer("b", at::arange(4, at::kFloat) + 5)};
    std::vector<int> values{x, buffers[0], buffers[1]};
    const auto any = [&](const std::vector<int>& of) { return of[random() % of.size()]; };
    for (int node = static_cast<int>(2 + random() % 8); node > 0; --node) {
      switch (random() % 6) {
        case 0:
          values.push_back(small.two("aten.add.Tensor", any(values), any(values), {4}));
          break;
        case 1:
          values.push_back(small.one("aten.sin.default", any(values), {4}));
          break;
        case 2:
          values.push_back(small.call("aten.view.default", {{"self", ProgramValue{any(values)}}, {"size", ProgramInts{{4, {}}}}}, {4}));
          break;
        case 3:
          values.push_back(small.number("aten.add_.Tensor", any(values), 1, {4}));
          break;
        default:
          values.push_back(
              small.call("aten.copy_.default", {{"self", ProgramValue{any(buffers)}}, {"src", ProgramValue{any(values)}}}, {4}));
      }
    }
    small.output(small.two("aten.add.Tensor", any(values), any(values), {4}));
    const ExportedProgram early = with_early_writes(small.program, "small");
    moved += targets(early) == targets(small.program) ? 0 : 1;
    const Tensors expected = run_as_listed(small.program, small.tensors, at::ones({4}));
    const Tensors found = run_as_listed(early, small.tensors, at::ones({4}));
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(at::equal(expected[i], found[i])) << test << " " << i;
  }
  EXPECT_GT(moved, 200);
}

/// Layers between all cuts against one layer of all.
TEST(EarlyWrites, LayersTrainAndCountAsOne) {
  for (const int first : {0, 1, 2}) {
    for (const bool in_place : {false, true}) {
      Counting counting(first, in_place);
      counting.small.tensors["average"].fill_(0.25);
      const auto bound = std::make_shared<const BoundProgram>(counting.small.program, "small", 2);
      const std::vector<int> ends = exported_layer_ends(*bound);
      ExportedChain whole(bound, counting.small.tensors, {}), layers(bound, counting.small.tensors, {ends.begin() + 1, ends.end() - 1});
      EXPECT_GE(layers.size(), 2U);
      const Tensors inputs{at::randn({2, 4})};
      for (int step = 0; step < 2; ++step) {
        whole.step(inputs);
        layers.step(inputs);
      }
      const Agreement agreement = layers.compare({inputs, whole.loss(), whole.gradients(), whole.buffers()});
      EXPECT_EQ(agreement.different, 0) << agreement.worst_name << " " << agreement.worst;
      EXPECT_TRUE(at::equal(whole.buffers().at("average"), at::full({4}, 1.0F))) << "doubled twice";
    }
  }
}

}  // namespace
}  // namespace mptune::testing
