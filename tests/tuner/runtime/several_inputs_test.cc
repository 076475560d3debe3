// A user's own layers that take several tensors of a sample, of which a later stage needs one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/device/list/device_list.h"
#include "profiler/measure/measure.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kSeveralInputsBatch = 10, kSeveralInputsLayers = 4;
constexpr std::int64_t kSeveralInputsWidth = 3, kSeveralInputsWords = 7;

/// The first layer takes features and a word, the others its result and the word, whose row of a table is added in the last.
class WordLayer final : public Layer {
 public:
  explicit WordLayer(int index) : index_(index) {
    const std::int64_t rows = index + 1 == kSeveralInputsLayers ? kSeveralInputsWords : kSeveralInputsWidth;
    weight_ = (at::arange(rows * kSeveralInputsWidth) * 0.1 / (index + 1)).sin().view({rows, kSeveralInputsWidth}).requires_grad_();
  }
  Tensors forward(const Tensors& inputs, const RunContext& /*context*/) override {
    if (index_ + 1 == kSeveralInputsLayers) return {inputs.at(0) + at::embedding(weight_, inputs.at(1))};
    return {inputs.at(0).matmul(weight_).tanh(), inputs.at(1)};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"layer" + std::to_string(index_) + ".w", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<WordLayer>(index_); }
  [[nodiscard]] std::string kind() const override { return "Word"; }

 private:
  int index_;
  at::Tensor weight_;
};

Model word_model(SampleDescription sample) {
  std::vector<ModelLayer> layers;
  for (int i = 0; i < kSeveralInputsLayers; ++i) layers.push_back({"layer" + std::to_string(i), {}, std::make_unique<WordLayer>(i)});
  return {"words", std::move(layers), Loss::cross_entropy(), std::move(sample), kSeveralInputsBatch};
}
Model word_model() {
  return word_model({.inputs = {{.name = "features", .shape = {kSeveralInputsWidth}}, {.name = "word", .classes = kSeveralInputsWords}},
                     .target = {.classes = kSeveralInputsWidth}});
}

Plan plan_of(const std::string& schedule, int stages, int microbatches, const std::string& recompute) {
  PlanOptions options;
  options.devices = device_names(stages);
  options.batch = kSeveralInputsBatch;
  options.layers = kSeveralInputsLayers;
  options.stages = stages;
  options.microbatches = microbatches;
  options.schedule = schedule;
  options.recompute = recompute;
  return make_plan(options);
}

TEST(SeveralInputs, AreDescribedDrawnAndNamed) {
  const Model model = word_model();
  EXPECT_EQ(model.input_text(), "features=3:float32,word=scalar:int64");
  const Batch batch = synthetic_batch(model.sample(), kSeveralInputsBatch, 1);
  ASSERT_EQ(batch.inputs.size(), 2U);
  EXPECT_EQ(batch.inputs[0].sizes(), (std::vector<std::int64_t>{kSeveralInputsBatch, kSeveralInputsWidth}));
  EXPECT_EQ(batch.inputs[1].sizes(), std::vector<std::int64_t>{kSeveralInputsBatch});
  EXPECT_EQ(batch.inputs[1].scalar_type(), at::kLong) << "classes are integers";
  EXPECT_LT(batch.inputs[1].max().item<std::int64_t>(), kSeveralInputsWords);
  EXPECT_EQ(batch.target.scalar_type(), at::kLong);
  const Model unnamed = word_model({.inputs = {{.shape = {kSeveralInputsWidth}}, {.classes = kSeveralInputsWords}}});
  EXPECT_EQ(unnamed.input_text(), "input0=3:float32,input1=scalar:int64");
}

TEST(SeveralInputs, EveryPlanEqualsTheLoopBitForBit) {
  const Batch batch = synthetic_batch(word_model().sample(), kSeveralInputsBatch, 1);
  for (const char* recompute : {"none", "all"})
    for (const int stages : {1, 2, 4}) {
      const Plan plan = plan_of("1f1b", stages, 4, recompute);
      const ReferenceStep expected = run_reference(word_model(), batch, plan.microbatch_sizes);
      Pipeline pipeline(word_model(), plan, {}, shared_core_devices(plan));
      EXPECT_NEAR(pipeline.step(batch.inputs, batch.target).loss, expected.loss, 1e-12);
      const auto sums = sum_in_plan_order(expected, plan, word_model());
      const auto parameters = pipeline.named_parameters();
      for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_TRUE(at::equal(parameters[i].tensor.grad(), sums[i])) << parameters[i].name;
    }
}

TEST(SeveralInputs, OfUnequalLengthsAreRefused) {
  const Batch batch = synthetic_batch(word_model().sample(), kSeveralInputsBatch, 1);
  const Plan plan = plan_of("1f1b", 1, 2, "none");
  Pipeline pipeline(word_model(), plan, {}, shared_core_devices(plan));
  EXPECT_THROW((void)pipeline.step(Tensors{}, batch.target), Error);
  EXPECT_THROW((void)pipeline.step({batch.inputs[0], batch.inputs[1].narrow(0, 0, 9)}, batch.target), Error);
  EXPECT_THROW((void)pipeline.step(batch.inputs, batch.target.narrow(0, 0, 9)), Error);
  EXPECT_NO_THROW((void)pipeline.step(batch.inputs, batch.target));
}

TEST(SeveralInputs, AreMeasured) {
  const Model model = word_model();
  profiler::MeasureOptions options;
  options.devices = parse_devices("cpu:" + std::to_string(available_cores()[0]));
  options.batch = kSeveralInputsBatch;
  options.budget_s = 0.1;
  const Profile profile = profiler::measure_profile(model, synthetic_batch(model.sample(), kSeveralInputsBatch, 0), options);
  EXPECT_EQ(profile.input, model.input_text());
  ASSERT_EQ(profile.edges.size(), 2U * (kSeveralInputsLayers - 1)) << "the features' gradient comes back, the word has none";
  EXPECT_EQ(profile.edges[0].bytes_per_sample, 4 * kSeveralInputsWidth);
  EXPECT_EQ(profile.edges[1].bytes_per_sample, 8);
}

}  // namespace
}  // namespace mptune::testing
