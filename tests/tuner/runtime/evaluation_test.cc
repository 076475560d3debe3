// Evaluation, and steps of fewer samples than the plan's batch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/torch.h>

#include <algorithm>

#include "fragile_layer.h"
#include "planner/plan/plan_words.h"
#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/model/nn/nn.h"
#include "reference.h"
#include "small_models.h"
#include "tuner/runtime/pipeline.h"
#include "tuner/runtime/step/batch_parts.h"

namespace mptune::testing {
namespace {

namespace nn = torch::nn;

constexpr int kEvaluatedBatch = 8;

/// Everything that evaluation mode changes.
nn::Sequential net_of_modes() {
  torch::manual_seed(2);
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 6, 3).padding(1)), nn::BatchNorm2d(6), nn::Dropout2d(0.5), nn::ReLU(),
                        nn::Conv2d(nn::Conv2dOptions(6, 6, 3)), nn::InstanceNorm2d(nn::InstanceNorm2dOptions(6).track_running_stats(true)),
                        nn::AlphaDropout(0.3), nn::Flatten(), nn::Linear(54, 10), nn::BatchNorm1d(10), nn::Dropout(0.4), nn::Linear(10, 4));
}

Model model_of_modes() {
  return from_sequential(net_of_modes(), Loss::cross_entropy(),
                         {.inputs = {{.shape = {3, 5, 5}}}, .target = {.type = at::kLong, .classes = 4}});
}

Plan evaluated_plan(int layers, int devices, const std::string& schedule, std::vector<int> replicas = {}) {
  PlanOptions options;
  options.devices = device_names(devices);
  options.batch = kEvaluatedBatch;
  options.layers = layers;
  options.microbatches = 4;
  options.schedule = schedule;
  options.replicas = std::move(replicas);
  if (options.replicas.empty()) options.stages = devices;
  return make_plan(options);
}

void train(Pipeline& pipeline, const Batch& batch, int steps) {
  for (int i = 0; i < steps; ++i) {
    (void)pipeline.step(batch.inputs, batch.target);
    const at::NoGradGuard no_gradients;
    for (const NamedTensor& parameter : pipeline.named_parameters()) at::Tensor(parameter.tensor).sub_(parameter.tensor.grad(), 0.1);
  }
}

/// What torch::nn computes after its eval(), with the pipeline's parameters and buffers.
at::Tensor of_module_in_evaluation(const Pipeline& pipeline, const at::Tensor& input) {
  nn::Sequential net = net_of_modes();
  const at::NoGradGuard no_gradients;
  for (const auto& tensors : {pipeline.named_parameters(), pipeline.named_buffers()})
    for (const NamedTensor& named : tensors) {
      at::Tensor* parameter = net->named_parameters().find(named.name);
      (parameter != nullptr ? *parameter : *net->named_buffers().find(named.name)).copy_(named.tensor);
    }
  net->eval();
  return net->forward(input);
}

TEST(Evaluation, EqualsTheModuleInEvaluationMode) {
  const Model model = model_of_modes();
  const Batch batch = synthetic_batch(model.sample(), kEvaluatedBatch, 1);
  for (const Plan& plan :
       {evaluated_plan(model.size(), 1, "gpipe"), evaluated_plan(model.size(), 3, "1f1b"), evaluated_plan(model.size(), 2, "zb1p")}) {
    SCOPED_TRACE(describe(plan));
    Pipeline pipeline(model_of_modes(), plan, {}, shared_core_devices(plan));
    train(pipeline, batch, 3);
    const at::Tensor expected = of_module_in_evaluation(pipeline, batch.inputs[0]);
    const Evaluation evaluation = pipeline.evaluate(batch.inputs, batch.target);
    ASSERT_EQ(evaluation.outputs.size(), 1U);
    EXPECT_FALSE(evaluation.outputs[0].requires_grad());
    EXPECT_TRUE(at::allclose(evaluation.outputs[0], expected, 1e-5, 1e-6));
    EXPECT_NEAR(evaluation.loss, at::cross_entropy_loss(expected, batch.target).item<double>(), 1e-5);
    EXPECT_TRUE(at::equal(pipeline.forward(batch.inputs[0]), evaluation.outputs[0]));
  }
}

// Running statistics are committed to the first replica alone, and optimizers change its parameters alone.
TEST(Evaluation, ReplicasEvaluateWithTheStatisticsAndWeightsOfTheFirst) {
  const Model model = model_of_modes();
  const Batch batch = synthetic_batch(model.sample(), kEvaluatedBatch, 1);
  std::vector<ModelLayer> layers;
  Model without_instance_norm = model_of_modes();
  for (ModelLayer& layer : without_instance_norm.layers())
    if (layer.layer->kind().find("InstanceNorm") == std::string::npos) layers.push_back(std::move(layer));
  const Model own("replicated", std::move(layers), model.loss(), model.sample(), kEvaluatedBatch);
  const Plan plan = evaluated_plan(own.size(), 4, "1f1b", {2, 2});
  Pipeline pipeline({own.name(),
                     [&] {
                       std::vector<ModelLayer> copies;
                       for (const ModelLayer& layer : own.layers()) copies.push_back(copy_of(layer));
                       return copies;
                     }(),
                     own.loss(), own.sample(), kEvaluatedBatch},
                    plan, {}, shared_core_devices(plan));
  train(pipeline, batch, 3);
  const at::Tensor by_replicas = pipeline.forward(batch.inputs[0]);
  pipeline.replan(evaluated_plan(own.size(), 1, "gpipe"));
  EXPECT_TRUE(at::equal(by_replicas, pipeline.forward(batch.inputs[0])));
}

TEST(Evaluation, TakesAnyNumberOfSamples) {
  const Model model = model_of_modes();
  const Plan plan = evaluated_plan(model.size(), 2, "1f1b");
  Pipeline pipeline(model_of_modes(), plan, {}, shared_core_devices(plan));
  const Batch batch = synthetic_batch(model.sample(), 19, 1);
  const at::Tensor expected = of_module_in_evaluation(pipeline, batch.inputs[0]);
  for (const std::int64_t samples : {1, 3, 8, 9, 19}) {
    SCOPED_TRACE(samples);
    const Evaluation evaluation = pipeline.evaluate({batch.inputs[0].narrow(0, 0, samples)}, batch.target.narrow(0, 0, samples));
    EXPECT_TRUE(at::allclose(evaluation.outputs[0], expected.narrow(0, 0, samples), 1e-5, 1e-6));
    EXPECT_NEAR(evaluation.loss, at::cross_entropy_loss(expected.narrow(0, 0, samples), batch.target.narrow(0, 0, samples)).item<double>(),
                1e-5);
  }
  EXPECT_THROW((void)pipeline.forward(batch.inputs[0].narrow(0, 0, 0)), Error);
  EXPECT_THROW((void)pipeline.evaluate(batch.inputs, batch.target.narrow(0, 0, 3)), Error);
}

// Dropout goes on with the numbers of the next step; statistics, moving averages and gradients stay.
TEST(Evaluation, LeavesTheTrainingAsItIs) {
  for (const bool evaluates : {false, true}) {
    static std::vector<double> losses;
    static std::vector<at::Tensor> buffers;
    const Model model = model_of_modes();
    const Batch batch = synthetic_batch(model.sample(), kEvaluatedBatch, 1);
    const Plan plan = evaluated_plan(model.size(), 2, "1f1b");
    Pipeline pipeline(model_of_modes(), plan, {}, shared_core_devices(plan));
    std::vector<double> own;
    for (int step = 0; step < 4; ++step) {
      train(pipeline, batch, 1);
      const at::Tensor gradient = pipeline.named_parameters()[0].tensor.grad();
      if (evaluates) (void)pipeline.evaluate(batch.inputs, batch.target);
      EXPECT_TRUE(gradient.is_same(pipeline.named_parameters()[0].tensor.grad()));
      own.push_back(pipeline.step(batch.inputs, batch.target).loss);
    }
    if (!evaluates) {
      losses = own;
      for (const NamedTensor& buffer : pipeline.named_buffers()) buffers.push_back(buffer.tensor.clone());
      continue;
    }
    EXPECT_EQ(own, losses);
    for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(at::equal(pipeline.named_buffers()[i].tensor, buffers[i]));
  }
}

TEST(Evaluation, OfEveryKindOfLayerIsThatOfOneDevice) {
  for (const SmallModel& small : small_models()) {
    const Model model = small.make();
    const Batch batch = synthetic_batch(model.sample(), 7, 3);
    PlanOptions one;
    one.devices = device_names(1);
    one.batch = 7;
    one.layers = model.size();
    one.microbatches = 3;
    const Plan alone = make_plan(one);
    Pipeline reference(small.make(), alone, {}, shared_core_devices(alone));
    (void)reference.step(batch.inputs, batch.target);
    const Tensors expected = reference.forward(batch.inputs);
    for (const Plan& plan : two_device_plans(model.size(), 7, 3, false)) {
      SCOPED_TRACE(small.name + ", " + describe(plan));
      Pipeline pipeline(small.make(), plan, {}, shared_core_devices(plan));
      (void)pipeline.step(batch.inputs, batch.target);
      const Tensors outputs = pipeline.forward(batch.inputs);
      ASSERT_EQ(outputs.size(), expected.size());
      for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(at::equal(outputs[i], expected[i]));
    }
  }
}

TEST(Evaluation, AFailureNamesItsPlaceAndTheNextOneWorks) {
  auto switches = std::make_shared<FragileLayer::Switches>();
  const Plan plan = evaluated_plan(3, 3, "1f1b");
  Pipeline pipeline(fragile_model(3, switches), plan, {}, shared_core_devices(plan));
  const at::Tensor data = at::ones({kEvaluatedBatch, FragileLayer::kWidth});
  const double loss = pipeline.step(data, {}).loss;
  const at::Tensor outputs = pipeline.forward(data);
  switches->fail_at = 1;
  EXPECT_THROW((void)pipeline.forward(data), std::runtime_error);
  EXPECT_TRUE(pipeline.failed_at().starts_with("stage 2, forward of micro-batch 1, layer")) << pipeline.failed_at();
  switches->fail_at = -1;
  EXPECT_TRUE(at::equal(pipeline.forward(data), outputs));
  EXPECT_EQ(pipeline.step(data, {}).loss, loss);
}

TEST(BatchParts, FewerSamplesAreDividedEvenlyOverAsFewMicrobatchesAsHoldThem) {
  const Plan plan = evaluated_plan(4, 2, "1f1b");
  EXPECT_EQ(tuner::BatchParts(plan, 8).sizes(), (std::vector{2, 2, 2, 2}));
  EXPECT_EQ(tuner::BatchParts(plan, 7).sizes(), (std::vector{2, 2, 2, 1}));
  EXPECT_EQ(tuner::BatchParts(plan, 5).sizes(), (std::vector{2, 2, 1, 0}));
  EXPECT_EQ(tuner::BatchParts(plan, 1).sizes(), (std::vector{1, 0, 0, 0}));
  EXPECT_EQ(tuner::BatchParts(plan, 5).first(2), 4);
}

// The last batch of an epoch: every schedule, every number of samples.
TEST(SmallerBatch, EqualsTheLoopOverItsMicrobatches) {
  const char* text = "bert:d=16,layers=3,heads=2,seq=6,vocab=12,classes=3,dropout=10";
  const Model model = load_model(text, "", 0).model;
  std::vector<Plan> plans = two_device_plans(model.size(), kEvaluatedBatch, 4, false);
  for (Plan& plan : two_device_plans(model.size(), kEvaluatedBatch, 4, true)) plans.push_back(std::move(plan));
  plans.push_back(evaluated_plan(model.size(), 3, "1f1b", {2, 1}));
  const Batch whole = synthetic_batch(model.sample(), kEvaluatedBatch, 3);
  for (const Plan& plan : plans) {
    Pipeline pipeline(load_model(text, "", 0).model, plan, {}, shared_core_devices(plan));
    for (const int samples : {7, 3, 1, kEvaluatedBatch}) {
      SCOPED_TRACE(describe(plan) + ", " + std::to_string(samples) + " samples");
      const Batch batch = samples_of(whole, 0, samples);
      std::vector<int> sizes = tuner::BatchParts(plan, samples).sizes();
      std::erase(sizes, 0);
      ReferenceStep reference = run_reference(text, "", batch, sizes);
      const std::vector<at::Tensor> none(reference.gradients.front().size());
      reference.gradients.resize(as_index(plan.num_microbatches()), none);
      pipeline.set_steps(0);
      EXPECT_EQ(pipeline.step(batch.inputs, batch.target).loss, reference.loss);
      const std::vector<at::Tensor> expected = sum_in_plan_order(reference, plan, model);
      const std::vector<NamedTensor> parameters = pipeline.named_parameters();
      for (std::size_t p = 0; p < expected.size(); ++p)
        EXPECT_TRUE(at::equal(parameters[p].tensor.grad(), expected[p])) << parameters[p].name;
    }
  }
}

TEST(SmallerBatch, MoreSamplesThanThePlansBatchAreRefused) {
  const Model model = model_of_modes();
  const Plan plan = evaluated_plan(model.size(), 2, "1f1b");
  Pipeline pipeline(model_of_modes(), plan, {}, shared_core_devices(plan));
  const Batch batch = synthetic_batch(model.sample(), kEvaluatedBatch + 1, 1);
  EXPECT_THROW((void)pipeline.step(batch.inputs, batch.target), Error);
}

}  // namespace
}  // namespace mptune::testing
