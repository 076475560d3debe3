// Checks of models against themselves: those that agree, and one that fails for every part.
#include "tuner/check/check.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "planner/search/make_plan.h"
#include "profiler/model/exported/load_exported.h"
#include "profiler/model/loading/load_model.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "tuner/check/check_operation.h"
#include "tuner/check/compared_tensors.h"

namespace mptune::testing {
using namespace tuner;
namespace {

std::string golden(const std::string& name) {
  return std::string(MPTUNE_SOURCE_DIR "/tests/golden/exported/") + name;
}

Plan plan_of(int batch, int layers, const std::string& recompute = "none") {
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  options.batch = batch;
  options.layers = layers;
  options.split_size = 2;
  options.recompute = recompute;
  return make_plan(options);
}

/// All parts of a check; the last is the plan's.
std::vector<tuner::CheckPart> check_all(const Model& model, int samples = 4) {
  tuner::ModelCheck check(model, synthetic_batch(model.sample(), samples, 0), 0);
  std::vector<tuner::CheckPart> parts = check.pieces();
  parts.push_back(check.microbatches({samples - samples / 2, samples / 2}));
  parts.push_back(check.plan(plan_of(samples, model.size())));
  return parts;
}

std::string named(const tuner::CheckPart& part) {
  return part.name + ": " + (part.difference ? tuner::difference_text(part) : part.left_out);
}

class BuiltInModels : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Tiny, BuiltInModels,
                         ::testing::Values(std::pair("mlp", ""), std::pair("transformer:d=16,layers=2,heads=2,vocab=31", "8"),
                                           std::pair("resnet18", "3x32x32")));

TEST_P(BuiltInModels, AgreeInEveryBit) {
  const Model model = load_model(GetParam().first, GetParam().second, 1).model;
  const std::vector<tuner::CheckPart> parts = check_all(model);
  ASSERT_EQ(parts.size(), 4U);
  for (const tuner::CheckPart& part : parts) EXPECT_FALSE(part.difference) << named(part);
  for (const std::size_t exact : {0U, 1U, 3U}) {
    EXPECT_EQ(parts[exact].bit_equal, parts[exact].tensors) << parts[exact].name << " " << parts[exact].largest_at;
    EXPECT_GE(parts[exact].tensors, model.size());
  }
  const bool norms = std::any_of(model.layers().begin(), model.layers().end(),
                                 [](const ModelLayer& layer) { return layer.layer->has_batch_statistics(); });
  EXPECT_EQ(!parts[2].left_out.empty(), norms);
  EXPECT_EQ(parts[2].tensors > 2, !norms);
}

TEST(CheckedPlans, RecomputationAgrees) {
  const Model model = load_model("transformer:d=16,layers=2,heads=2,vocab=31", "8", 1).model;
  const tuner::ModelCheck check(model, synthetic_batch(model.sample(), 8, 0), 0);
  const tuner::CheckPart part = check.plan(plan_of(8, model.size(), "all"));
  EXPECT_FALSE(part.difference) << named(part);
  EXPECT_EQ(part.bit_equal, part.tensors);
}

/// A linear layer, and something that it should not do.
class OddLayer final : public Layer {
 public:
  using Trick = std::function<at::Tensor(const at::Tensor& x, int call)>;
  explicit OddLayer(std::string name, Trick trick = nullptr) : name_(std::move(name)), trick_(std::move(trick)) {
    weight_ = at::eye(3) + 0.1 * at::arange(9, at::kFloat).view({3, 3});
    weight_.requires_grad_();
  }
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    const at::Tensor result = inputs.at(0).matmul(weight_).tanh();
    return {trick_ ? trick_(result, calls_++) : result};
  }
  std::vector<NamedTensor> parameters() const override { return {{name_ + ".weight", weight_}}; }
  std::vector<NamedTensor> buffers() const override { return {}; }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<OddLayer>(name_, trick_); }
  std::string kind() const override { return "Odd"; }

 private:
  std::string name_;
  Trick trick_;
  at::Tensor weight_;
  int calls_ = 0;
};

/// Three layers, the second of which is odd.
Model odd_model(const OddLayer::Trick& trick, Loss loss = Loss::mean_square()) {
  std::vector<ModelLayer> layers;
  for (int i = 0; i < 3; ++i) {
    const std::string name = "part" + std::to_string(i);
    layers.push_back({name, {name}, std::make_unique<OddLayer>(name, i == 1 ? trick : nullptr)});
  }
  SampleDescription sample;
  sample.inputs = {{.shape = {3}}};
  return {"odd", std::move(layers), std::move(loss), sample, 4};
}

void expect_difference(const tuner::CheckPart& part, const std::string& what, int layer) {
  ASSERT_TRUE(part.difference) << part.name;
  EXPECT_EQ(part.difference->what, what) << named(part);
  EXPECT_EQ(part.difference->layer, layer) << named(part);
  EXPECT_GT(part.difference->relative, part.tolerance);
  EXPECT_FALSE(part.remedy.empty());
}

TEST(CheckedModels, OneWithoutTricksAgrees) {
  for (const tuner::CheckPart& part : check_all(odd_model(nullptr))) EXPECT_FALSE(part.difference) << named(part);
}

TEST(CheckedModels, HiddenStateIsFoundByASecondRun) {
  const auto parts = check_all(odd_model([](const at::Tensor& x, int call) { return x * (1 + 0.01 * call); }));
  expect_difference(parts[0], "output", 1);
  EXPECT_EQ(parts[0].difference->layer_name, "part1");
  EXPECT_FALSE(parts[1].difference) << "a copy begins as the model did: " << named(parts[1]);
}

TEST(CheckedModels, StateThatCopiesShareIsFoundInThePieces) {
  const auto count = std::make_shared<int>(0);
  const auto parts = check_all(odd_model([count](const at::Tensor& x, int) { return x * (1 + 0.01 * ++*count); }));
  expect_difference(parts[0], "output", 1);
  expect_difference(parts[1], "output", 1);
}

TEST(CheckedModels, NumbersFromAGeneratorOfItsOwnAreFound) {
  const auto noise = [](const at::Tensor& x, int) { return x + at::randint(1 << 20, x.sizes()).to(at::kFloat) * 1e-7; };
  const auto parts = check_all(odd_model(noise));
  for (const std::size_t part : {0U, 1U}) expect_difference(parts[part], "output", 1);
}

TEST(CheckedModels, AGradientThatDependsOnTheBoundaryIsNamedFromTheBack) {
  // Its backward differs where its input has no history: the outputs agree, the gradients do not.
  class Odd final : public Layer {
   public:
    Odd() { weight_ = at::ones({3}).requires_grad_(); }
    Tensors forward(const Tensors& inputs, const RunContext&) override {
      const at::Tensor x = inputs.at(0);
      return {x * (x.grad_fn() ? weight_ : weight_.detach())};
    }
    std::vector<NamedTensor> parameters() const override { return {{"odd.weight", weight_}}; }
    std::vector<NamedTensor> buffers() const override { return {}; }
    std::unique_ptr<Layer> clone() const override { return std::make_unique<Odd>(); }
    std::string kind() const override { return "Odd"; }

   private:
    at::Tensor weight_;
  };
  Model model = odd_model(nullptr);
  model.layers()[1].layer = std::make_unique<Odd>();
  const auto parts = check_all(model);
  EXPECT_FALSE(parts[0].difference);
  expect_difference(parts[1], "gradient of odd.weight", 1);
}

TEST(CheckedModels, SamplesThatCoupleAreNamed) {
  const auto parts = check_all(odd_model([](const at::Tensor& x, int) { return x - x.mean(0, true); }));
  EXPECT_FALSE(parts[0].difference);
  EXPECT_FALSE(parts[1].difference);
  expect_difference(parts[2], "output", 1);
  EXPECT_FALSE(parts[3].difference) << "a plan's micro-batches are compared with the same micro-batches";
}

// Samples that couple by how many of them are positive: in both halves of four samples the same share.
TEST(CheckedModels, SamplesThatCoupleAreFoundWhateverTheData) {
  const auto balanced = [](const at::Tensor& x, int) { return x * (1 + x.select(1, 0).gt(0).to(at::kFloat).mean()); };
  const Model model = odd_model(balanced);
  for (const std::vector<float>& signs :
       {std::vector<float>{1, -1, 1, -1}, {1, 1, 1, 1, 1, 1, -1, -1, 1, 1, 1, -1, -1, 1, 1, 1, 1, 1, 1, 1}}) {
    const auto samples = static_cast<std::int64_t>(signs.size());
    const at::Tensor first = 10 * at::tensor(signs).unsqueeze(1);
    Batch batch{{at::cat({first, at::rand({samples, 2})}, 1)}, {}};
    tuner::ModelCheck check(model, batch, 0);
    const auto half = static_cast<int>(samples / 2);
    expect_difference(check.microbatches({half, half}), "output", 1);
  }
}

/// Counts its forwards, and divides by their number where it `uses` it, as a moving average would.
class CountingLayer final : public Layer {
 public:
  explicit CountingLayer(bool uses) : uses_(uses) {}
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    runs_.add_(1);
    const at::Tensor result = inputs.at(0) * weight_;
    return {uses_ ? result / runs_ : result};
  }
  std::vector<NamedTensor> parameters() const override { return {{"counting.weight", weight_}}; }
  std::vector<NamedTensor> buffers() const override { return {{"counting.runs", runs_}}; }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<CountingLayer>(uses_); }
  std::string kind() const override { return "Counting"; }
  std::string written_buffer() const override { return "counting.runs"; }

 private:
  bool uses_;
  at::Tensor weight_ = at::ones({3}).requires_grad_(), runs_ = at::zeros({});
};

TEST(CheckedModels, MicrobatchesThatDifferByAWrittenBufferAreLeftOut) {
  Model model = odd_model(nullptr);
  model.layers()[1].layer = std::make_unique<CountingLayer>(true);
  tuner::ModelCheck check(model, synthetic_batch(model.sample(), 4, 0), 0);
  const tuner::CheckPart part = check.microbatches({2, 2});
  EXPECT_FALSE(part.difference) << named(part);
  EXPECT_NE(part.left_out.find("part1 writes its buffer counting.runs once a micro-batch"), std::string::npos) << part.left_out;
}

TEST(CheckedModels, AWrittenBufferThatExplainsNothingHidesNothing) {
  const Loss sum = Loss::custom("sum", [](const Tensors& outputs, const at::Tensor&) { return outputs.at(0).square().sum(); });
  Model model = odd_model(nullptr, sum);
  model.layers()[1].layer = std::make_unique<CountingLayer>(false);
  tuner::ModelCheck check(model, synthetic_batch(model.sample(), 4, 0), 0);
  expect_difference(check.microbatches({2, 2}), "loss", -1);
}

TEST(CheckedModels, WhatFailsOnFewSamplesIsNamed) {
  const Model model = odd_model([](const at::Tensor& x, int) { return x.squeeze(0) * at::ones({3}); },
                                Loss::custom("mine", [](const Tensors& outputs, const at::Tensor&) {
                                  if (outputs.at(0).dim() < 2) throw Error("not a batch", "mine", "give more");
                                  return outputs.at(0).square().mean();
                                }));
  tuner::ModelCheck check(model, synthetic_batch(model.sample(), 4, 0), 0);
  const tuner::CheckPart part = check.microbatches({2, 2});
  EXPECT_FALSE(part.difference) << named(part);
  EXPECT_EQ(part.compared, "2 micro-batches of 2 with the whole batch: loss, gradients; the model fails on 2 micro-batches of 1, 3");
  EXPECT_EQ(check.microbatches({2, 2}, [] { return false; }).compared, "2 micro-batches of 2 with the whole batch: loss, gradients");
}

TEST(CheckedModels, SplitsThatAgreeAreAllNamed) {
  const Model model = odd_model(nullptr);
  const auto compared = [&](int samples, const std::vector<int>& sizes) {
    tuner::ModelCheck check(model, synthetic_batch(model.sample(), samples, 0), 0);
    const tuner::CheckPart part = check.microbatches(sizes);
    EXPECT_FALSE(part.difference) << named(part);
    return part.compared;
  };
  EXPECT_EQ(compared(4, {2, 2}),
            "2 micro-batches of 2; 4 micro-batches of 1; 2 micro-batches of 1, 3 with the whole batch: loss, gradients");
  EXPECT_EQ(compared(2, {1, 1}), "2 micro-batches of 1 with the whole batch: loss, gradients");
  EXPECT_EQ(compared(20, {10, 10}), "2 micro-batches of 10; 5 micro-batches of 1, 1, 1, 1, 16 with the whole batch: loss, gradients");
}

TEST(CheckedModels, ALossThatIsNoMeanOverSamplesIsNamed) {
  const Loss sum = Loss::custom("sum", [](const Tensors& outputs, const at::Tensor&) { return outputs.at(0).square().sum(); });
  const auto parts = check_all(odd_model(nullptr, sum));
  EXPECT_FALSE(parts[1].difference);
  expect_difference(parts[2], "loss", -1);
}

TEST(CheckedModels, ALossThatIsNotFiniteAgreesWithNothing) {
  const Model model = load_model("mlp:layers=4", "", 1).model;
  for (const NamedTensor& parameter : model.layers()[2].layer->parameters()) {
    const at::NoGradGuard no_gradients;
    at::Tensor(parameter.tensor).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const Error error = error_of([&] { (void)check_all(model); });
  EXPECT_EQ(error.code(), ExitCode::infeasible);
  EXPECT_EQ(error.where(), model.layers()[2].name);
}

TEST(CheckedModels, OneSampleHasNoMicrobatchesToCompare) {
  const Model model = odd_model(nullptr);
  tuner::ModelCheck check(model, synthetic_batch(model.sample(), 1, 0), 0);
  EXPECT_NE(check.microbatches({1}).left_out, "");
}

// ---- tensors ----

TEST(ComparedTensors, RelativeToTheLargestValue) {
  const at::Tensor a = at::tensor({1.0F, -4.0F}), b = at::tensor({1.5F, -4.0F});
  EXPECT_EQ(tuner::relative_difference(a, a.clone()), 0);
  EXPECT_DOUBLE_EQ(tuner::relative_difference(b, a), 0.125);
  EXPECT_DOUBLE_EQ(tuner::relative_difference(b, a, 10), 0.05);
  EXPECT_DOUBLE_EQ(tuner::relative_difference({}, a), 1);
  EXPECT_EQ(tuner::relative_difference({}, at::zeros({2})), 0);
  EXPECT_EQ(tuner::relative_difference({}, {}), 0);
  EXPECT_GT(tuner::relative_difference(a, {}), 1e20);
  EXPECT_EQ(tuner::relative_difference(a, at::ones({3})), std::numeric_limits<double>::infinity());
  EXPECT_EQ(tuner::relative_difference(a, a.to(at::kDouble)), std::numeric_limits<double>::infinity());
}

TEST(ComparedTensors, NumbersThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(tuner::relative_difference(at::tensor({nan, 1.0F}), at::tensor({nan, 1.0F})), 0);
  EXPECT_EQ(tuner::relative_difference(at::tensor({infinite, 1.0F}), at::tensor({infinite, 1.0F})), 0);
  EXPECT_EQ(tuner::relative_difference(at::tensor({nan, 1.0F}), at::tensor({2.0F, 1.0F})), std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(tuner::relative_difference(at::tensor({nan, 3.0F}), at::tensor({nan, 2.0F})), 0.5);
}

// ---- exported programs ----

TEST(CheckedPrograms, AgreeWithTheirPiecesAndTheirReference) {
  for (const char* name : {"residual", "language"}) {
    const tuner::CheckPart reference = tuner::check_reference(golden(std::string(name) + ".pt2"));
    EXPECT_FALSE(reference.difference) << named(reference);
    EXPECT_EQ(reference.left_out, "");
    EXPECT_GT(reference.tensors, 8);
    for (const tuner::CheckPart& part : check_all(load_model(golden(std::string(name) + ".pt2"), "", 0).model))
      EXPECT_FALSE(part.difference) << name << " " << named(part);
  }
}

TEST(CheckedPrograms, TheOperatorWhereSamplesCoupleIsNamed) {
  // A branch of it depends on the sum over the batch.
  const auto parts = check_all(load_model(golden("regions.pt2"), "", 0).model);
  EXPECT_FALSE(parts[0].difference) << named(parts[0]);
  EXPECT_FALSE(parts[1].difference) << named(parts[1]);
  ASSERT_TRUE(parts[2].difference);
  EXPECT_NE(parts[2].difference->operation, "") << named(parts[2]);
}

TEST(CheckedPrograms, OperatorsAreNamedWithModuleAndLine) {
  const Model model = load_model(golden("residual.pt2"), "", 0).model;
  const ModelLayer& layer = model.layers().front();
  const profiler::ExportedRange range = profiler::exported_range(*layer.layer).value();
  tuner::WatchedNodes one(range), other(range), same(range);
  const Tensors inputs = synthetic_batch(model.sample(), 2, 0).inputs;
  for (const auto& [watch, given] : {std::pair(&one, inputs), std::pair(&other, Tensors{inputs[0] + 1}), std::pair(&same, inputs)}) {
    profiler::observe_nodes(*layer.layer, watch->observer());
    (void)run_layer(layer, 0, given, {.samples = 2});
  }
  const std::string operation = one.first_difference(other, 1e-5);
  EXPECT_NE(operation.find("conv2d"), std::string::npos) << operation;
  EXPECT_NE(operation.find("stem"), std::string::npos) << operation;
  EXPECT_NE(operation.find("make_files.py:"), std::string::npos) << operation;
  EXPECT_EQ(one.first_difference(same, 1e-5), "");
  EXPECT_NE(tuner::reader_of(range, "stem.weight").find("conv2d"), std::string::npos);
  EXPECT_EQ(tuner::reader_of(range, "no such"), "");
}

using Edit = std::function<std::string(std::string)>;

/// The archive with other text in its extra/mptune.json; without one where it is empty.
std::string with_reference(const TestFolder& folder, const std::string& name, const Edit& edit) {
  caffe2::serialize::PyTorchStreamReader reader(golden(name));
  std::string path = folder.path(name);
  caffe2::serialize::PyTorchStreamWriter writer(path);
  for (const std::string& record : reader.getAllRecords()) {
    if (record.starts_with(".data/")) continue;
    const auto [data, size] = reader.getRecord(record);
    std::string content(static_cast<const char*>(data.get()), size);
    if (record == "extra/mptune.json") content = edit(content);
    if (!content.empty()) writer.writeRecord(record, content.data(), content.size());
  }
  writer.writeEndOfFile();
  return path;
}

Edit replaced(const std::string& from, const std::string& to) {
  return [=](std::string text) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
}

TEST(CheckedReferences, AnotherLossGradientOrBufferIsFound) {
  const TestFolder folder("references");
  const auto difference = [&](const Edit& edit) {
    const tuner::CheckPart part = tuner::check_reference(with_reference(folder, "residual.pt2", edit));
    EXPECT_TRUE(part.difference);
    return part.difference.value_or(tuner::CheckDifference{});
  };
  EXPECT_FALSE(tuner::check_reference(with_reference(folder, "residual.pt2", [](std::string text) { return text; })).difference);
  EXPECT_EQ(difference(replaced("\"loss\": 0.2", "\"loss\": 0.3")).what, "loss");
  const tuner::CheckDifference gradient = difference(replaced("\"conv1.weight\": 0.06", "\"conv1.weight\": 0.07"));
  EXPECT_EQ(gradient.what, "norm of the gradient of conv1.weight");
  EXPECT_NE(gradient.operation.find("make_files.py:"), std::string::npos) << gradient.operation;
  EXPECT_EQ(difference(replaced("\"conv1.weight\"", "\"no.such.weight\"")).what, "norm of the gradient of no.such.weight");
  EXPECT_EQ(difference(replaced("\"norm1.running_mean\": 0.0", "\"norm1.running_mean\": 1.0")).what, "norm of buffer norm1.running_mean");
  // Backward meets what is used last first.
  const Edit both = [](std::string text) {
    return replaced("\"head.bias\": 0.", "\"head.bias\": 3.")(replaced("\"stem.bias\": 0.", "\"stem.bias\": 3.")(text));
  };
  EXPECT_EQ(difference(both).what, "norm of the gradient of head.bias");
}

TEST(CheckedReferences, WhatIsNoReferenceEndsInOneLine) {
  const TestFolder folder("references");
  for (const Edit& edit :
       {Edit([](const std::string&) { return "no JSON"; }), Edit([](const std::string&) { return "[1, 2]"; }),
        Edit([](const std::string&) { return std::string(100000, '['); }), replaced("mptune.export/1", "mptune.export/2"),
        replaced("\"threads\": 1", "\"threads\": 0"), replaced("\"device\": \"cpu\"", "\"device\": 7"),
        replaced("\"seed\": 2", "\"seed\": -1.5e3"), replaced("\"loss\": 0.2", "\"loss\": 1e999"), replaced("\"loss\"", "\"lost\""),
        replaced("\"loss_in_program\": false", "\"loss_in_program\": 1"),
        replaced("\"loss_in_program\": false", "\"loss_in_program\": true"), replaced("\"stem.bias\": 0", "\"stem.bias\": \"a\", \"x\": 0"),
        replaced("\"gradient_norms\": {", "\"gradient_norms\": [], \"x\": {"),
        replaced("\"buffer_norms\": {", "\"buffer_norms\": null, \"x\": {")}) {
    const std::string path = with_reference(folder, "residual.pt2", edit);
    EXPECT_NE(refusal_of([&] { (void)tuner::check_reference(path); }), "");
  }
}

TEST(CheckedReferences, FilesWithoutOneAreSaidToBe) {
  const TestFolder folder("references");
  EXPECT_NE(tuner::check_reference(golden("regions.pt2")).left_out.find("no reference"), std::string::npos);
  EXPECT_NE(tuner::check_reference(with_reference(folder, "residual.pt2", [](const std::string&) { return ""; })).left_out, "");
  const Edit on_gpu = replaced("\"device\": \"cpu\"", "\"device\": \"cuda\"");
  EXPECT_NE(tuner::check_reference(with_reference(folder, "residual.pt2", on_gpu)).left_out.find("cuda"), std::string::npos);
}

}  // namespace
}  // namespace mptune::testing
