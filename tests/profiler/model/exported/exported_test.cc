// Programs of torch.export against the steps that eager PyTorch made of the same models (make_files.py).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "exported_chain.h"
#include "profiler/base/index.h"
#include "profiler/model/exported/load_exported.h"
#include "profiler/model/files/batch_file.h"
#include "profiler/model/files/torch_file.h"
#include "profiler/model/loading/load_model.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace mptune::testing {
using namespace profiler;
namespace {

constexpr int kSeed = 7;

std::string golden(const std::string& name) {
  return std::string(MPTUNE_SOURCE_DIR "/tests/golden/exported/") + name;
}

struct Subject {
  explicit Subject(const std::string& name)
      : archive(read_exported_archive(golden(name + ".pt2"))),
        expected(read_eager_step(golden(name + ".pt"))),
        program(std::make_shared<const profiler::BoundProgram>(archive.program, name, expected.inputs.at(0).size(0))) {
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
  std::shared_ptr<const profiler::BoundProgram> program;
};

class Exported : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, Exported, ::testing::Values("residual", "language", "regions", "sequence", "tied"));

// The files were made on one CPU; others round differently. Bit for bit against eager PyTorch on the same machine: exported.public_models.
TEST_P(Exported, OnePieceEqualsEagerPyTorchWithinRounding) {
  const Agreement agreement = Subject(GetParam()).run({});
  EXPECT_LE(agreement.worst, 5e-6) << agreement.worst_name;
  EXPECT_GT(agreement.equal + agreement.different, 4);
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
    ExportedChain plain(subject.program, subject.archive.tensors, {});
    at::manual_seed(kSeed);
    plain.step(subject.expected.inputs);
    ExportedChain again(subject.program, subject.archive.tensors, {});
    at::manual_seed(kSeed);
    again.step(subject.expected.inputs, /*recompute=*/true);
    const Agreement agreement = again.compare({subject.expected.inputs, plain.loss(), plain.gradients(), plain.buffers()});
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

TEST(ExportedCuts, ConstantsAreRecomputedInsteadOfSent) {
  const Subject subject("language");
  bool recomputed = false;
  for (int position = 1; position < subject.program->graph.nodes(); ++position) {
    const profiler::CutPosition& cut = subject.program->cuts.at(position);
    recomputed = recomputed || !cut.recomputed.empty();
    for (const int value : cut.carried) EXPECT_NE(subject.program->program.graph.values[as_index(value)].name, "arange");
  }
  EXPECT_TRUE(recomputed);
}

TEST(ExportedModel, LayersAreNamedAfterTheirModules) {
  const Model model = profiler::load_exported(golden("residual.pt2")).model;
  std::vector<std::string> names;
  for (const ModelLayer& layer : model.layers()) names.push_back(layer.name);
  EXPECT_EQ(names.front(), "stem");
  EXPECT_NE(std::find(names.begin(), names.end(), "conv2"), names.end()) << ::testing::PrintToString(names);
  EXPECT_EQ(model.sample().inputs.at(0).shape, (std::vector<std::int64_t>{3, 6, 6}));
}

TEST(ExportedModel, TiedWeightsAreSharedByLayersAndWordsAreAsManyAsTheTableHasRows) {
  const Model model = profiler::load_exported(golden("language.pt2")).model;
  EXPECT_GE(model.size(), 4);
  const auto front = model.layers().front().layer->parameters(), back = model.layers().back().layer->parameters();
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(front.front().name, back.front().name);
  EXPECT_TRUE(front.front().tensor.is_same(back.front().tensor));
  EXPECT_EQ(model.sample().inputs.at(0).classes, 11);
}

TEST(ExportedArchive, SampleInputsAreThoseOfTheExport) {
  const ExportedArchive archive = read_exported_archive(golden("regions.pt2"));
  ASSERT_EQ(archive.sample_inputs.size(), 2U);
  EXPECT_EQ(archive.sample_inputs[0].sizes(), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(archive.sample_inputs[1].scalar_type(), at::kLong);
  EXPECT_FALSE(archive.reference);
}

TEST(ExportedModel, InputsAreNamedAndDescribed) {
  const Model model = profiler::load_exported(golden("regions.pt2")).model;
  EXPECT_EQ(model.loss().name(), "model");
  EXPECT_EQ(model.input_text(), "x=4:float32,target=scalar:int64");
  ASSERT_EQ(model.sample().inputs.size(), 2U);
  EXPECT_GE(model.sample().inputs[1].classes, 1) << "the largest label of the example, and one";
  EXPECT_LE(model.sample().inputs[1].classes, 3);
}

TEST(ExportedModel, OneStepOfAModelWithTwoInputsAndItsLossEqualsEagerPyTorch) {
  Model model = profiler::load_exported(golden("tied.pt2")).model;
  const EagerStep expected = read_eager_step(golden("tied.pt"));
  at::set_num_threads(1);
  const at::Tensor loss = model.loss()(forward_all(model, expected.inputs, {}), {});
  loss.backward();
  EXPECT_TRUE(at::equal(loss.detach(), expected.loss));
  int compared = 0;
  for (const NamedTensor& parameter : model.parameters()) {
    const auto found = expected.gradients.find(parameter.name == "head.weight" ? "word.weight" : parameter.name);
    ASSERT_NE(found, expected.gradients.end()) << parameter.name;
    EXPECT_LT((parameter.tensor.grad() - found->second).abs().max().item<double>(), 1e-6) << parameter.name;
    ++compared;
  }
  EXPECT_EQ(compared, static_cast<int>(expected.gradients.size()));
}

TEST(ExportedModel, InputsThatDoNotFitAreRefusedByName) {
  Model model = profiler::load_exported(golden("tied.pt2")).model;
  const at::Tensor words = at::zeros({2, 6}, at::kLong);
  const auto refusal = [&](const Tensors& inputs) { return refusal_of([&] { (void)forward_all(model, inputs, {}); }); };
  EXPECT_NO_THROW((void)forward_all(model, {words, words}, {}));
  EXPECT_NE(refusal({words}).find("takes 2 tensors, not 1"), std::string::npos);
  EXPECT_NE(refusal({words, at::zeros({2, 7}, at::kLong)}).find("'labels' is 2x7:int64, the program takes SAMPLESx6:int64"),
            std::string::npos);
  EXPECT_NE(refusal({words.to(at::kFloat), words}).find("'words' is 2x6:float32"), std::string::npos);
}

TEST(ExportedModel, ABatchOfSeveralInputsHasAKeyForEach) {
  const TestFolder folder("inputs");
  const std::string path = folder.path("batch.pt"), model = golden("tied.pt2");
  const at::Tensor words = at::zeros({3, 6}, at::kLong);
  const auto load = [&](const profiler::TensorDict& tensors) {
    profiler::write_torch_file(path, tensors);
    return load_batch(path, load_model(model, "", 0, {.loss = "", .data = path}).model.sample());
  };
  const Batch batch = load({{"labels", words + 20}, {"words", words}});
  ASSERT_EQ(batch.inputs.size(), 2U);
  EXPECT_TRUE(at::equal(batch.inputs[1], words + 20)) << "labels are as large as the user says";
  EXPECT_FALSE(batch.target.defined());
  const Error missing = error_of([&] { (void)load({{"words", words}}); });
  EXPECT_EQ(missing.problem(), "there is no 'labels'");
  EXPECT_NE(missing.remedy().find("'words' and 'labels'"), std::string::npos) << missing.remedy();
  EXPECT_NE(refusal_of([&] {
              (void)load({{"words", words}, {"labels", words.narrow(0, 0, 2)}});
            }).find("'words' has 3 samples, 'labels' 2"),
            std::string::npos);
}

TEST(ExportedModel, OptionsOfTheStepThatDoNotFitTheProgramAreRefused) {
  const auto refusal = [&](const std::string& input, const std::string& loss) {
    return refusal_of([&] { (void)load_model(golden("tied.pt2"), input, 0, {.loss = loss, .data = ""}); });
  };
  EXPECT_NE(refusal("6:int64", "").find("several inputs"), std::string::npos);
  EXPECT_NE(refusal("", "cross_entropy").find("computes its loss itself"), std::string::npos);
  const std::string wrong = refusal_of([&] { (void)load_model(golden("language.pt2"), "7:int64", 0); });
  EXPECT_NE(wrong.find("'words' is 2x7:int64"), std::string::npos) << wrong;
  EXPECT_EQ(load_model(golden("language.pt2"), "6:int64", 0).model.sample().target.classes, 11);
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

profiler::ExportedProgram with_target(const std::string& target) {
  profiler::ExportedProgram program = read_exported_archive(golden("residual.pt2")).program;
  program.graph.nodes[1].target = target;
  return program;
}

TEST(ExportedGraph, OperatorsThatCannotRunAreNamedWithModuleAndLine) {
  for (const char* target : {"torch.ops.mylib.fancy.default", "torch.ops.aten.add.NoSuch", "_operator.nothing",
                             "torch.ops.higher_order.while_loop", "nonsense"}) {
    const profiler::ExportedProgram program = with_target(target);
    const std::string error = refusal_of([&] { const profiler::ExportedGraph graph(program, "model.pt2"); });
    EXPECT_NE(error.find("make_files.py:"), std::string::npos) << error;
  }
}

TEST(ExportedGraph, ArgumentsThatDoNotFitAreRefused) {
  profiler::ExportedProgram program = read_exported_archive(golden("residual.pt2")).program;
  program.graph.nodes[0].inputs[0].name = "surprise";
  const std::string error = refusal_of([&] { const profiler::ExportedGraph graph(program, "model.pt2"); });
  EXPECT_NE(error.find("no argument 'surprise'"), std::string::npos) << error;
}

}  // namespace
}  // namespace mptune::testing
