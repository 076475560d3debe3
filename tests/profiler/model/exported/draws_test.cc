// What exported programs draw at random depends on no cut, split or recomputation.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "exported_chain.h"
#include "profiler/base/index.h"
#include "profiler/model/exported/load_exported.h"
#include "profiler/model/random/randomness.h"
#include "tests/support/error_of.h"

namespace mptune::testing {
using namespace profiler;
namespace {

class ExportedDraws : public ::testing::Test {
 protected:
  ExportedDraws()
      : archive_(read_exported_archive(MPTUNE_SOURCE_DIR "/tests/golden/exported/sequence.pt2")),
        step_(read_eager_step(MPTUNE_SOURCE_DIR "/tests/golden/exported/sequence.pt")),
        program_(std::make_shared<const profiler::BoundProgram>(archive_.program, "sequence", 4)) {
    at::set_num_threads(1);
  }

  /// The sum of all micro-batches' gradients of the sum of squares, by parameter.
  std::map<std::string, at::Tensor> gradients(const std::vector<int>& cuts, const std::vector<std::int64_t>& split, bool recompute = false,
                                              std::int64_t step = 0) {
    ExportedChain chain(program_, archive_.tensors, cuts);
    chain.draw(/*seed=*/3, step);
    std::int64_t first = 0;
    for (const std::int64_t samples : split) {
      chain.step({step_.inputs[0].narrow(0, first, samples)}, recompute, first, LossOf::sum_of_squares);
      first += samples;
    }
    return chain.gradients();
  }

  void expect_equal(const std::map<std::string, at::Tensor>& gradients, const std::map<std::string, at::Tensor>& expected,
                    const std::string& what) {
    ASSERT_EQ(gradients.size(), expected.size());
    for (const auto& [name, tensor] : expected) EXPECT_TRUE(at::allclose(gradients.at(name), tensor, 1e-5, 1e-5)) << name << " " << what;
  }

  ExportedArchive archive_;
  EagerStep step_;
  std::shared_ptr<const profiler::BoundProgram> program_;
};

TEST_F(ExportedDraws, DependOnNoSplitOfTheBatch) {
  program_->graph.check_draws();
  const auto whole = gradients({}, {4});
  expect_equal(gradients({}, {2, 2}), whole, "2, 2");
  expect_equal(gradients({}, {1, 3}), whole, "1, 3");
  expect_equal(gradients({}, {1, 1, 1, 1}), whole, "1, 1, 1, 1");
  EXPECT_FALSE(at::allclose(gradients({}, {4}, false, 1).at("head.weight"), whole.at("head.weight"), 1e-3))
      << "the next step draws the same";
}

TEST_F(ExportedDraws, DependOnNoCutAndNoRecomputation) {
  const auto whole = gradients({}, {4});
  std::vector<int> allowed;
  for (int cut = 1; cut < program_->graph.nodes(); ++cut) {
    if (!program_->cuts.at(cut).forbidden.empty()) continue;
    allowed.push_back(cut);
    expect_equal(gradients({cut}, {1, 3}), whole, "cut at " + std::to_string(cut));
    expect_equal(gradients({cut}, {2, 2}, /*recompute=*/true), whole, "recomputed, cut at " + std::to_string(cut));
  }
  EXPECT_GT(allowed.size(), 20U);
  expect_equal(gradients(allowed, {3, 1}), whole, "all cuts at once");
}

TEST_F(ExportedDraws, UnknownSampleAxesAreRefusedWithModuleAndLine) {
  const auto refused = [&](const std::function<void(profiler::ProgramGraph&)>& change) {
    profiler::ExportedProgram program = archive_.program;
    change(program.graph);
    return refusal_of([&] { profiler::ExportedGraph(program, "model.pt2").check_draws(); });
  };
  const auto node = [](profiler::ProgramGraph& graph, const std::string& target, std::size_t nth = 0) -> ProgramNode& {
    for (profiler::ProgramNode& one : graph.nodes)
      if (one.target == target && nth-- == 0) return one;
    throw std::out_of_range(target);
  };
  // Times x samples, of which nobody says in which order.
  const std::string unknown = refused([&](profiler::ProgramGraph& graph) {
    node(graph, "torch.ops.aten.reshape.default", 1).target = "torch.ops.aten.clone.default";
    node(graph, "torch.ops.aten.clone.default").inputs.resize(1);
  });
  EXPECT_NE(unknown.find("aten.dropout.default (make_files.py:"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("where the samples lie"), std::string::npos) << unknown;
  const std::string integers = refused([&](profiler::ProgramGraph& graph) {
    profiler::ProgramNode& like = node(graph, "torch.ops.aten.randn_like.default");
    like.target = "torch.ops.aten.randint_like.default";
    like.inputs.push_back({"high", std::int64_t{3}});
  });
  EXPECT_NE(integers.find("aten.randint_like.default (make_files.py:"), std::string::npos) << integers;
  EXPECT_NE(integers.find("can't be drawn sample by sample"), std::string::npos) << integers;
  // In a region too.
  const std::string inner = refused([&](profiler::ProgramGraph& graph) {
    profiler::ProgramNode& dropout = graph.graphs.at(0).nodes.at(0);
    dropout.target = "torch.ops.aten.rrelu.default";
    dropout.inputs = {dropout.inputs[0], {"training", true}};
  });
  EXPECT_NE(inner.find("aten.rrelu.default"), std::string::npos) << inner;
}

TEST_F(ExportedDraws, DisabledDropoutDrawsNothing) {
  profiler::ExportedProgram program = archive_.program;
  for (profiler::ProgramNode& node : program.graph.nodes)
    for (profiler::NamedArgument& input : node.inputs)
      if (input.name == "p" || input.name == "dropout_p") input.argument = 0.0;
  const profiler::ExportedGraph graph(program, "model.pt2");
  for (int node = 0; node < graph.nodes(); ++node) {
    const std::string target = program.graph.nodes[as_index(node)].target;
    if (target.find("dropout") != std::string::npos || target.find("attention") != std::string::npos) {
      EXPECT_FALSE(graph.random(node)) << target;
    }
  }
}

}  // namespace
}  // namespace mptune::testing
