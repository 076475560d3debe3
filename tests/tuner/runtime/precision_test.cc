// Plans in bf16 and fp16: every bit that of the un-pipelined loop under autocast, which this file switches on by hand.
#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "planner/plan/plan_words.h"
#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/layers/autocast_scope.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "small_models.h"
#include "tuner/check/check.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kPrecisionBatch = 7;  // unequal micro-batches
constexpr double kScale = 1024;

bool equal_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return false;
    if (b[i].defined() && (a[i].scalar_type() != b[i].scalar_type() || !at::equal(a[i], b[i]))) return false;
  }
  return a.size() == b.size();
}

/// Every schedule of two devices, with recomputation and without, and replicas.
std::vector<Plan> plans_of(int layers, Precision precision) {
  std::vector<Plan> plans = two_device_plans(layers, kPrecisionBatch, 3, false);
  for (Plan& plan : two_device_plans(layers, kPrecisionBatch, 3, true)) plans.push_back(std::move(plan));
  PlanOptions replicated;
  replicated.devices = device_names(3);
  replicated.batch = kPrecisionBatch;
  replicated.layers = layers;
  replicated.microbatches = 4;
  replicated.replicas = {2, 1};
  plans.push_back(make_plan(replicated));
  for (Plan& plan : plans) plan.options.precision = precision;
  return plans;
}

class PrecisionTest : public ::testing::TestWithParam<Precision> {};

TEST_P(PrecisionTest, EveryScheduleEqualsTheLoopUnderAutocast) {
  const Precision precision = GetParam();
  for (const char* text : {"transformer:d=32,layers=2,heads=2,seq=8,vocab=40",
                           "bert:d=16,layers=3,heads=2,seq=6,vocab=12,classes=3,dropout=10", "vgg16:width=2,hidden=16,classes=5"}) {
    const std::string input = std::string(text).starts_with("vgg") ? "3x32x32" : "";
    const Model model = load_model(text, input, 0).model;
    const Batch batch = synthetic_batch(model.sample(), kPrecisionBatch, 3);
    for (const Plan& plan : plans_of(model.size(), precision)) {
      SCOPED_TRACE(std::string(text) + ", " + describe(plan));
      const auto under_autocast = [&](const std::function<at::Tensor()>& forward) {
        const AutocastByHand autocast(at::kCPU, profiler::computed_type(precision));
        return forward();
      };
      const ReferenceStep reference = run_reference(load_model(text, input, 0).model, batch, plan.microbatch_sizes, under_autocast, kScale);
      Pipeline pipeline(load_model(text, input, 0).model, plan, {}, shared_core_devices(plan));
      pipeline.set_loss_scale(kScale);
      EXPECT_EQ(pipeline.step(batch.inputs, batch.target).loss, reference.loss);
      EXPECT_TRUE(equal_bits(gradients_of(pipeline), sum_in_plan_order(reference, plan, model)));
    }
  }
}

/// As in PyTorch: an autograd function casts for itself or its backward meets two types, and oneDNN has no LSTM in fp16 on most CPUs, nor
/// in bf16 on those without AVX512.
bool suits(const SmallModel& model, Precision precision) {
  const bool has_lstm = precision == Precision::bf16 && at::get_cpu_capability().starts_with("AVX512");
  return model.name != "functions of one's own" && (model.name != "recurrent layers" || has_lstm);
}

class PrecisionOfLayers : public PrecisionTest {};

TEST_P(PrecisionOfLayers, EveryKindTrainsUnderEverySchedule) {
  const Precision precision = GetParam();
  for (const SmallModel& small : small_models()) {
    if (!suits(small, precision)) continue;
    const Model model = small.make();
    const Batch batch = synthetic_batch(model.sample(), kPrecisionBatch, 3);
    std::vector<Plan> plans = two_device_plans(model.size(), kPrecisionBatch, 3, false);
    for (Plan& plan : two_device_plans(model.size(), kPrecisionBatch, 3, true)) plans.push_back(std::move(plan));
    for (Plan& plan : plans) {
      SCOPED_TRACE(small.name + ", " + describe(plan));
      plan.options.precision = precision;
      Model own = small.make();
      own.compute_in(precision);
      const tuner::ModelCheck check(own, batch, 0);
      const tuner::CheckPart part = check.plan(plan);
      EXPECT_EQ(part.bit_equal, part.tensors) << part.largest_at << " differs by " << part.largest;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PrecisionTest, ::testing::Values(Precision::bf16, Precision::fp16),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });
INSTANTIATE_TEST_SUITE_P(Slow, PrecisionOfLayers, ::testing::Values(Precision::bf16),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });
INSTANTIATE_TEST_SUITE_P(Nightly, PrecisionOfLayers, ::testing::Values(Precision::fp16),
                         [](const auto& parameter) { return std::string(name_of(parameter.param)); });

Plan two_stages(int layers, Precision precision) {
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kPrecisionBatch;
  options.layers = layers;
  options.microbatches = 3;
  options.precision = precision;
  return make_plan(options);
}

TEST(Precision, ParametersAndGradientsStayInFloat32AndNothingIsLeftOn) {
  const Model model = load_model("mlp:layers=4,width=16", "", 0).model;
  const Plan plan = two_stages(model.size(), Precision::bf16);
  Pipeline pipeline(load_model("mlp:layers=4,width=16", "", 0).model, plan, {}, shared_core_devices(plan));
  const Batch batch = synthetic_batch(model.sample(), kPrecisionBatch, 3);
  (void)pipeline.step(batch.inputs, batch.target);
  for (const NamedTensor& parameter : pipeline.named_parameters()) {
    EXPECT_EQ(parameter.tensor.scalar_type(), at::kFloat);
    EXPECT_EQ(parameter.tensor.grad().scalar_type(), at::kFloat);
  }
  const at::Tensor before = at::ones({2, 2});
  {
    const profiler::AutocastScope scope(Precision::bf16);
    EXPECT_EQ(before.mm(before).scalar_type(), at::kBFloat16);
    const profiler::AutocastScope inner(Precision::fp16);
    EXPECT_EQ(before.mm(before).scalar_type(), at::kHalf);
  }
  EXPECT_EQ(before.mm(before).scalar_type(), at::kFloat);
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

TEST(Precision, DiffersFromFloat32AndByLittle) {
  const Model model = load_model("transformer:d=32,layers=2,heads=2,seq=8,vocab=40", "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kPrecisionBatch, 3);
  const auto gradients = [&](Precision precision) {
    const Plan plan = two_stages(model.size(), precision);
    Pipeline pipeline(load_model("transformer:d=32,layers=2,heads=2,seq=8,vocab=40", "", 0).model, plan, {}, shared_core_devices(plan));
    (void)pipeline.step(batch.inputs, batch.target);
    return gradients_of(pipeline);
  };
  const auto exact = gradients(Precision::float32), rounded = gradients(Precision::bf16);
  EXPECT_GT(relative_difference(rounded, exact), 1e-4);
  EXPECT_LT(relative_difference(rounded, exact), 0.2);
}

TEST(Precision, GradientsAreUnscaledOnAllDevicesAndOverflowIsSeenOnAny) {
  const Model model = load_model("mlp:layers=4,width=16", "", 0).model;
  const Plan plan = two_stages(model.size(), Precision::fp16);
  Pipeline pipeline(load_model("mlp:layers=4,width=16", "", 0).model, plan, {}, shared_core_devices(plan));
  const Batch batch = synthetic_batch(model.sample(), kPrecisionBatch, 3);
  const double loss = pipeline.step(batch.inputs, batch.target).loss;
  EXPECT_TRUE(pipeline.unscale_gradients());
  const double norm = pipeline.gradient_norm();
  pipeline.set_loss_scale(kScale);
  EXPECT_EQ(pipeline.step(batch.inputs, batch.target).loss, loss) << "the loss itself is not scaled";
  EXPECT_NEAR(pipeline.gradient_norm() / norm, kScale, kScale * 1e-2);
  EXPECT_TRUE(pipeline.unscale_gradients());
  EXPECT_NEAR(pipeline.gradient_norm(), norm, norm * 1e-2);

  pipeline.set_loss_scale(std::pow(2.0, 40));  // beyond fp16
  (void)pipeline.step(batch.inputs, batch.target);
  EXPECT_FALSE(pipeline.unscale_gradients());
  for (const int stage : {0, 1}) {
    pipeline.set_loss_scale(1);
    (void)pipeline.step(batch.inputs, batch.target);
    pipeline.parameters(stage).front().grad().view(-1)[3] = INFINITY;
    EXPECT_FALSE(pipeline.unscale_gradients()) << "stage " << stage;
  }
}

TEST(Precision, ReplanKeepsTheLossScale) {
  const Model model = load_model("mlp:layers=4,width=16", "", 0).model;
  const Plan plan = two_stages(model.size(), Precision::fp16);
  Pipeline pipeline(load_model("mlp:layers=4,width=16", "", 0).model, plan, {}, shared_core_devices(plan));
  const Batch batch = synthetic_batch(model.sample(), kPrecisionBatch, 3);
  pipeline.set_loss_scale(kScale);
  (void)pipeline.step(batch.inputs, batch.target);
  const double norm = pipeline.gradient_norm();
  Plan other = plan;
  other.stages[0].last_layer = other.stages[1].first_layer = 1;
  pipeline.replan(other);
  EXPECT_EQ(pipeline.loss_scale(), kScale);
  (void)pipeline.step(batch.inputs, batch.target);
  EXPECT_EQ(pipeline.gradient_norm(), norm);
}

TEST(Precision, CheckSaysHowLargeTheDifferenceIsAndAllowsIt) {
  Model model = load_model("transformer:d=32,layers=2,heads=2,seq=8,vocab=40", "", 0).model;
  model.compute_in(Precision::bf16);
  const Batch batch = synthetic_batch(model.sample(), 4, 3);
  tuner::ModelCheck check(model, batch, 0);
  const tuner::CheckPart part = check.precision();
  EXPECT_FALSE(part.difference);
  EXPECT_TRUE(part.only_measures);
  EXPECT_GT(part.largest, 1e-4);
  EXPECT_LT(part.largest, 0.5);
  EXPECT_FALSE(part.largest_at.empty());
  for (const tuner::CheckPart& other : check.pieces()) EXPECT_EQ(other.bit_equal, other.tensors) << other.name;
  EXPECT_FALSE(check.microbatches({2, 2}).difference);
}

}  // namespace
}  // namespace mptune::testing
