// Programs of torch.export against the steps that eager PyTorch made of the same models (make_files.py).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "exported_chain.h"
#include "mptune/profiler/model/exported_model.h"
#include "mptune/tests/support/error_of.h"
#include "mptune/tests/support/files.h"

namespace mptune::testing {
namespace {

constexpr int kSeed = 7;

std::string golden(const std::string& name) {
  return std::string(MPTUNE_SOURCE_DIR "/tests/golden/exported/") + name;
}

struct Subject {
  explicit Subject(const std::string& name)
      : archive(read_exported_archive(golden(name + ".pt2"))),
        expected(read_eager_step(golden(name + ".pt"))),
        program(std::make_shared<const BoundProgram>(archive.program, name, expected.inputs.at(0).size(0))) {
    at::set_num_threads(1);
  }
  [[nodiscard]] Agreement run(const std::vector<int>& cuts, bool recompute = false) const {
    ExportedChain chain(program, archive.tensors, cuts);
    at::manual_seed(kSeed);
    chain.step(expected.inputs, recompute);
    return chain.compare(expected);
  }

  ExportedArchive archive;
  EagerStep expected;
  std::shared_ptr<const BoundProgram> program;
};

class Exported : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, Exported, ::testing::Values("residual", "language", "regions", "sequence"));

TEST_P(Exported, OnePieceEqualsEagerPyTorchBitForBit) {
  const Agreement agreement = Subject(GetParam()).run({});
  EXPECT_EQ(agreement.different, 0) << agreement.worst_name << " " << agreement.worst;
  EXPECT_GT(agreement.equal, 4);
}

TEST_P(Exported, EveryCutGivesTheSameGradients) {
  const Subject subject(GetParam());
  int cuts = 0;
  for (int position = 1; position < subject.program->graph.nodes(); ++position) {
    if (!subject.program->cuts.at(position).forbidden.empty()) continue;
    const Agreement agreement = subject.run({position});
    EXPECT_LE(agreement.worst, 1e-5) << "cut at " << position << " " << subject.program->graph.describe(position) << ": "
                                     << agreement.worst_name;
    ++cuts;
  }
  EXPECT_GT(cuts, subject.program->graph.nodes() / 3);
}

TEST_P(Exported, TheFinestUsefulCutsGiveTheSameGradients) {
  const Subject subject(GetParam());
  const std::vector<int> cuts = subject.program->cuts.useful();
  EXPECT_FALSE(cuts.empty());
  const Agreement agreement = subject.run(cuts);
  EXPECT_LE(agreement.worst, 1e-5) << agreement.worst_name;
}

TEST(ExportedRecomputation, GradientsAndBuffersStayTheSame) {
  // Masks are the runner's business (run_layer); these two draw none.
  for (const char* name : {"residual", "regions"}) {
    const Subject subject(name);
    const Agreement agreement = subject.run({}, /*recompute=*/true);
    EXPECT_EQ(agreement.different, 0) << name << ": " << agreement.worst_name << " " << agreement.worst;
  }
}

TEST(ExportedCuts, TensorsThatAnInPlaceOperatorWritesToAreClonedOnEntry) {
  const Subject subject("residual");
  int written = 0;
  for (int position = 1; position < subject.program->graph.nodes(); ++position)
    written += subject.program->cuts.at(position).writes_to_carried ? 1 : 0;
  EXPECT_GT(written, 0);
}

TEST(ExportedCuts, WhatDependsOnNothingIsMadeAgainInsteadOfSent) {
  const Subject subject("language");
  bool recomputed = false;
  for (int position = 1; position < subject.program->graph.nodes(); ++position) {
    const CutPosition& cut = subject.program->cuts.at(position);
    recomputed = recomputed || !cut.recomputed.empty();
    for (const int value : cut.carried) EXPECT_NE(subject.archive.program.graph.values[static_cast<std::size_t>(value)].name, "arange");
  }
  EXPECT_TRUE(recomputed);
}

TEST(ExportedModel, LayersAreNamedAfterTheirModules) {
  const Model model = load_exported(golden("residual.pt2"));
  std::vector<std::string> names;
  for (const ModelLayer& layer : model.layers()) names.push_back(layer.name);
  EXPECT_EQ(names.front(), "stem");
  EXPECT_NE(std::find(names.begin(), names.end(), "conv2"), names.end()) << ::testing::PrintToString(names);
  EXPECT_EQ(model.sample().input_shape, (std::vector<std::int64_t>{3, 6, 6}));
}

TEST(ExportedModel, TiedWeightsStayInOneLayerAndWordsAreAsManyAsTheTableHasRows) {
  const Model model = load_exported(golden("language.pt2"));
  EXPECT_EQ(model.size(), 1);
  EXPECT_EQ(model.sample().input_classes, 11);
}

TEST(ExportedArchive, SampleInputsAreThoseOfTheExport) {
  const ExportedArchive archive = read_exported_archive(golden("regions.pt2"));
  ASSERT_EQ(archive.sample_inputs.size(), 2U);
  EXPECT_EQ(archive.sample_inputs[0].sizes(), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(archive.sample_inputs[1].scalar_type(), at::kLong);
  EXPECT_EQ(archive.reference, "");
}

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(ExportedArchive, DamagedAndForeignFilesEndInOneLine) {
  const TestFolder folder("exported");
  const std::string whole = content_of(golden("residual.pt2"));
  const auto refuse = [&](const std::string& content) {
    const std::string path = folder.path("model.pt2");
    std::ofstream(path, std::ios::binary) << content;
    return refusal_of([&] { (void)read_exported_archive(path); });
  };
  for (std::size_t size = 0; size < whole.size(); size += 997) EXPECT_NE(refuse(whole.substr(0, size)), "") << size;
  EXPECT_NE(refuse("no archive at all"), "");
  EXPECT_NE(refuse(content_of(golden("residual.pt"))).find("checkpoint"), std::string::npos);
  EXPECT_NE(refusal_of([&] { (void)read_exported_archive(folder.path("missing.pt2")); }).find("no such file"), std::string::npos);
}

ExportedProgram with_target(const std::string& target) {
  ExportedProgram program = read_exported_archive(golden("residual.pt2")).program;
  program.graph.nodes[1].target = target;
  return program;
}

TEST(ExportedGraph, OperatorsThatCannotRunAreNamedWithModuleAndLine) {
  for (const char* target : {"torch.ops.mylib.fancy.default", "torch.ops.aten.add.NoSuch", "_operator.nothing",
                             "torch.ops.higher_order.while_loop", "nonsense"}) {
    const ExportedProgram program = with_target(target);
    const std::string error = refusal_of([&] { const ExportedGraph graph(program, "model.pt2"); });
    EXPECT_NE(error.find("make_files.py:"), std::string::npos) << error;
  }
}

TEST(ExportedGraph, ArgumentsThatDoNotFitAreRefused) {
  ExportedProgram program = read_exported_archive(golden("residual.pt2")).program;
  program.graph.nodes[0].inputs[0].name = "surprise";
  const std::string error = refusal_of([&] { const ExportedGraph graph(program, "model.pt2"); });
  EXPECT_NE(error.find("no argument 'surprise'"), std::string::npos) << error;
}

}  // namespace
}  // namespace mptune::testing
