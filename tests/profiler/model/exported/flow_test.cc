// What the layers of exported programs read and pass on.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "exported_chain.h"
#include "profiler/model/exported/load_exported.h"
#include "profiler/model/layers/model_flow.h"
#include "tests/support/declared_flow.h"

namespace mptune::testing {
namespace {

std::string program_path(const std::string& name) {
  return std::string(MPTUNE_SOURCE_DIR "/tests/golden/exported/") + name;
}

class ExportedFlow : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, ExportedFlow, ::testing::Values("residual", "language", "regions", "sequence", "tied"));

/// Counts what the layers pass on and do not read.
struct Counts {
  int passed = 0, unread = 0;
};

Counts check_layers(const std::vector<ModelLayer>& layers, const Tensors& inputs) {
  at::set_num_threads(1);
  const RunContext context{.seed = 1, .samples = inputs.at(0).size(0)};
  EXPECT_EQ(profiler::ModelFlow(layers).at(0).size(), inputs.size());
  Tensors values = inputs;
  Counts counts;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const bool gradients : {false, true}) expect_true_flow(layers[i], static_cast<int>(i), values, context, gradients);
    const TensorFlow flow = layers[i].layer->flow().value();
    counts.unread += static_cast<int>(std::ranges::count(flow.reads, 0));
    for (const int input : flow.passes) counts.passed += input >= 0 ? 1 : 0;
    values = run_layer(layers[i], static_cast<int>(i), values, context);
  }
  return counts;
}

TEST_P(ExportedFlow, IsTrueForTheLayersOfTheModel) {
  const Model model = profiler::load_exported(program_path(std::string(GetParam()) + ".pt2")).model;
  (void)check_layers(model.layers(), read_eager_step(program_path(std::string(GetParam()) + ".pt")).inputs);
}

// Cut wherever it may be cut, a tensor that is read later crosses many layers.
TEST_P(ExportedFlow, IsTrueForTheSmallestLayers) {
  const std::string name = GetParam();
  const profiler::ExportedArchive archive = profiler::read_exported_archive(program_path(name + ".pt2"));
  const Tensors inputs = read_eager_step(program_path(name + ".pt")).inputs;
  const auto program = std::make_shared<const profiler::BoundProgram>(archive.program, name, inputs.at(0).size(0));
  std::vector<ModelLayer> layers;
  int first = 0;
  for (int last = 1; last <= program->graph.nodes(); ++last) {
    // What aten.empty makes has values only behind the next operator.
    const bool empty = program->program.graph.nodes[as_index(last - 1)].target.starts_with("torch.ops.aten.empty.");
    if (last < program->graph.nodes() && (empty || !program->cuts.at(last).forbidden.empty())) continue;
    layers.push_back({"from " + std::to_string(first), {}, profiler::make_exported_layer(program, first, last, archive.tensors)});
    first = last;
  }
  const Counts counts = check_layers(layers, inputs);
  EXPECT_GT(counts.passed, 0);
  EXPECT_GT(counts.unread, 0);
}

}  // namespace
}  // namespace mptune::testing
