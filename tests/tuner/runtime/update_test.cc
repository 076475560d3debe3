// Optimizers that stages run with the next step change nothing but when they run.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/optimizer.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

#include "fragile_layer.h"
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/measure/optimizer.h"
#include "profiler/model/exported/load_exported.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kUpdateBatch = 8;

Plan update_plan(int layers, const std::string& schedule, std::vector<int> replicas, int microbatches, int virtual_stages = 1) {
  PlanOptions options;
  int devices = 0;
  for (const int count : replicas) devices += count;
  options.devices = device_names(devices);
  options.batch = kUpdateBatch;
  options.layers = layers;
  options.microbatches = microbatches;
  options.schedule = schedule;
  options.virtual_stages = virtual_stages;
  if (virtual_stages == 1) options.replicas = std::move(replicas);
  return make_plan(options);
}

struct Learned {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;
};

Learned learned(const std::function<Model()>& load, const Plan& plan, bool with_next_step) {
  Pipeline pipeline(load(), plan, {}, shared_core_devices(plan));
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  for (int stage = 0; stage < plan.num_stages(); ++stage)
    optimizers.push_back(profiler::make_optimizer(parse_optimizer("adam"), 0.01, pipeline.parameters(stage)));
  const auto work = [&](int stage) { optimizers[as_index(stage)]->step(); };
  const Model model = load();
  SampleDescription sample = model.sample();
  if (model.loss().name() == "cross_entropy") sample.target = {.shape = sample.inputs[0].shape, .classes = sample.inputs[0].classes};
  const Batch batch = synthetic_batch(sample, kUpdateBatch, 3);
  Learned result;
  for (int step = 0; step < 5; ++step) {
    result.losses.push_back(pipeline.step(batch.inputs, batch.target).loss);
    with_next_step ? pipeline.update_with_next_step(work) : pipeline.on_stages(work);
  }
  for (const NamedTensor& parameter : pipeline.named_parameters()) result.parameters.push_back(parameter.tensor.detach().clone());
  return result;
}

void expect_updates_equal(const std::function<Model()>& load, const Plan& plan) {
  SCOPED_TRACE(plan.schedule + ", stages " + std::to_string(plan.num_stages()) + ", devices " + std::to_string(plan.devices.size()));
  const Learned at_once = learned(load, plan, false), later = learned(load, plan, true);
  EXPECT_EQ(at_once.losses, later.losses);
  EXPECT_NE(later.losses.front(), later.losses.back());
  ASSERT_EQ(at_once.parameters.size(), later.parameters.size());
  for (std::size_t i = 0; i < later.parameters.size(); ++i) EXPECT_TRUE(at::equal(at_once.parameters[i], later.parameters[i])) << i;
}

TEST(UpdateWithNextStep, ChangesNoBit) {
  const auto load = [] { return load_model("mlp:layers=6,width=16", "", 0).model; };
  const int layers = load().size();
  expect_updates_equal(load, update_plan(layers, "naive", {1}, 1));
  expect_updates_equal(load, update_plan(layers, "1f1b", {1, 1}, 4));
  expect_updates_equal(load, update_plan(layers, "zb1p", {1, 1, 1}, 4));
  expect_updates_equal(load, update_plan(layers, "interleaved", {1, 1}, 4, 2));
  expect_updates_equal(load, update_plan(layers, "1f1b", {3}, 4));
  expect_updates_equal(load, update_plan(layers, "1f1b", {2, 1}, 4));
}

// Copies of a weight are refreshed when the stage that trains it has updated it.
TEST(UpdateWithNextStep, ChangesNoBitOfTiedWeights) {
  const auto load = [] { return profiler::load_exported(MPTUNE_SOURCE_DIR "/tests/golden/exported/language.pt2").model; };
  const int layers = load().size();
  expect_updates_equal(load, update_plan(layers, "1f1b", {1, 1}, 4));
  expect_updates_equal(load, update_plan(layers, "gpipe", {2, 1}, 4));
}

/// True if it happens within half a minute.
bool happens(const std::function<bool()>& event) {
  for (int i = 0; i < 3000 && !event(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return event();
}

/// Two layers, of which the first has the switches.
Model fragile_first(const std::shared_ptr<FragileLayer::Switches>& switches) {
  std::vector<ModelLayer> layers;
  layers.push_back({"first", {}, std::make_unique<FragileLayer>("first", switches)});
  layers.push_back({"last", {}, std::make_unique<FragileLayer>("last", std::make_shared<FragileLayer::Switches>())});
  SampleDescription sample;
  sample.inputs = {{.shape = {FragileLayer::kWidth}}};
  return {"fragile", std::move(layers), Loss::mean_square(), sample, kUpdateBatch};
}

TEST(UpdateWithNextStep, RunsWhileEarlierStagesCompute) {
  auto switches = std::make_shared<FragileLayer::Switches>();
  const Plan plan = update_plan(2, "1f1b", {1, 1}, 4);
  Pipeline pipeline(fragile_first(switches), plan, {}, shared_core_devices(plan));
  const at::Tensor data = at::ones({kUpdateBatch, FragileLayer::kWidth});
  (void)pipeline.step(data, {});
  const int before = switches->forwards;
  std::atomic<bool> overlapped{false};
  pipeline.update_with_next_step([&](int stage) {
    if (stage == 1) overlapped = happens([&] { return switches->forwards > before; });
  });
  (void)pipeline.step(data, {});
  EXPECT_TRUE(overlapped);
}

TEST(UpdateWithNextStep, IsDoneBeforeAnythingElseReadsParameters) {
  const Plan plan = update_plan(2, "1f1b", {1, 1}, 4);
  Pipeline pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), plan, {}, shared_core_devices(plan));
  const at::Tensor data = at::ones({kUpdateBatch, FragileLayer::kWidth});
  std::atomic<int> updated{0};
  const auto leave_work = [&] {
    updated = 0;
    (void)pipeline.step(data, {});
    pipeline.update_with_next_step([&](int stage) {
      (void)pipeline.parameters(stage);  // may be asked for here, too
      ++updated;
    });
    EXPECT_EQ(updated, 0);
  };
  const std::vector<std::function<void()>> readers = {
      [&] { (void)pipeline.parameters(0); },       [&] { (void)pipeline.named_parameters(); },
      [&] { (void)pipeline.forward(data); },       [&] { (void)pipeline.gradient_norm(); },
      [&] { pipeline.on_stages([](int) {}); },     [&] { pipeline.update_with_next_step([](int) {}); },
      [&] { pipeline.replan(pipeline.plan()); },   [&] { pipeline.finish_update(); },
      [&] { (void)pipeline.step(data, {}).loss; }, [&] { (void)pipeline.named_parameters(1); }};
  for (std::size_t i = 0; i < readers.size(); ++i) {
    leave_work();
    readers[i]();
    EXPECT_EQ(updated, 2) << i;
  }
}

TEST(UpdateWithNextStep, FailsTheStepThatRunsIt) {
  const Plan plan = update_plan(2, "1f1b", {1, 1}, 4);
  Pipeline pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), plan, {}, shared_core_devices(plan));
  const at::Tensor data = at::ones({kUpdateBatch, FragileLayer::kWidth});
  (void)pipeline.step(data, {});
  std::atomic<int> updated{0};
  pipeline.update_with_next_step([&](int stage) {
    if (stage == 1) throw std::runtime_error("broken on purpose");
    ++updated;
  });
  EXPECT_THAT([&] { (void)pipeline.step(data, {}); }, ::testing::ThrowsMessage<std::runtime_error>("broken on purpose"));
  EXPECT_EQ(pipeline.failed_at(), "stage 1, optimizer");
  (void)pipeline.step(data, {});
  EXPECT_EQ(updated, 1);
}

TEST(UpdateWithNextStep, IsNotLostWhereTheStepFailsBefore) {
  auto switches = std::make_shared<FragileLayer::Switches>();
  const Plan plan = update_plan(2, "1f1b", {1, 1}, 4);
  Pipeline pipeline(fragile_first(switches), plan, {}, shared_core_devices(plan));
  const at::Tensor data = at::ones({kUpdateBatch, FragileLayer::kWidth});
  (void)pipeline.step(data, {});
  const at::Tensor gradient = pipeline.parameters(1)[0].grad().clone();
  std::atomic<int> updated{0};
  pipeline.update_with_next_step([&](int) { ++updated; });
  switches->fail_at = 0;
  EXPECT_THROW((void)pipeline.step(data, {}), std::runtime_error);
  switches->fail_at = -1;
  EXPECT_GE(updated, 1);
  if (updated == 1) {
    EXPECT_TRUE(at::equal(pipeline.parameters(1)[0].grad(), gradient));
  }
  pipeline.finish_update();
  EXPECT_EQ(updated, 2);
}

}  // namespace
}  // namespace mptune::testing
