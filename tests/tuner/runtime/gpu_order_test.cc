// On a GPU: what devices write for each other is read after it was written. The race check of emulated GPUs sees it without luck.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/optimizer.h>

#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/list/gpu_driver.h"
#include "profiler/measure/optimizer.h"
#include "profiler/model/exported/load_exported.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kGpuOrderBatch = 8;

class GpuOrder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (profiler::gpu_driver().gpus == 0) {
      GTEST_SKIP() << profiler::gpu_driver().problem;
    }
  }
};

/// Who calls the optimizers, and when.
enum class Updates { at_once, with_next_step, by_caller };

Model tied() {
  return profiler::load_exported(MPTUNE_SOURCE_DIR "/tests/golden/exported/language.pt2").model;
}
Model untied() {
  return load_model("mlp:layers=4,width=64", "", 0).model;
}

/// On GPUs of their own where there are so many, else on parts of one.
Plan plan_in_order(const Model& model, const std::vector<int>& replicas) {
  const int count = std::accumulate(replicas.begin(), replicas.end(), 0);
  PlanOptions options;
  for (int i = 0; i < count; ++i)
    options.devices.push_back(profiler::gpu_driver().gpus >= count ? "cuda:" + std::to_string(i)
                                                                   : "cuda:0/" + std::to_string(i + 1) + "of" + std::to_string(count));
  options.batch = kGpuOrderBatch;
  options.layers = model.size();
  options.stages = static_cast<int>(replicas.size());
  options.microbatches = 4;
  options.replicas = replicas;
  return make_plan(options);
}

std::vector<std::shared_ptr<Device>> devices_of(const Plan& plan) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : plan.devices) devices.push_back(make_device(parse_device(name)));
  return devices;
}

Plan on_host(Plan plan) {
  plan.devices = device_names(static_cast<int>(plan.devices.size()));
  return plan;
}

Batch batch_of(const Model& model) {
  SampleDescription sample = model.sample();
  if (model.loss().name() == "cross_entropy") sample.target = {.shape = sample.inputs[0].shape, .classes = sample.inputs[0].classes};
  return synthetic_batch(sample, kGpuOrderBatch, 3);
}

std::vector<double> losses(const std::function<Model()>& load, const Plan& plan, Updates updates,
                           std::vector<std::shared_ptr<Device>> devices) {
  Pipeline pipeline(load(), plan, {}, std::move(devices));
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  for (int stage = 0; stage < plan.num_stages(); ++stage)
    optimizers.push_back(profiler::make_optimizer(parse_optimizer("sgd"), 0.05, pipeline.parameters(stage)));
  const auto work = [&](int stage) { optimizers[as_index(stage)]->step(); };
  const Batch batch = batch_of(load());
  std::vector<double> found;
  for (int step = 0; step < 4; ++step) {
    found.push_back(pipeline.step(batch.inputs, batch.target).loss);
    if (updates == Updates::at_once) pipeline.on_stages(work);
    if (updates == Updates::with_next_step) pipeline.update_with_next_step(work);
    for (int stage = 0; updates == Updates::by_caller && stage < plan.num_stages(); ++stage) work(stage);
  }
  return found;
}

/// Losses are those of CPU devices, whoever updates.
void check_order(const std::function<Model()>& load, const std::vector<int>& replicas) {
  const Plan plan = plan_in_order(load(), replicas), host = on_host(plan);
  const std::vector<double> expected = losses(load, host, Updates::at_once, shared_core_devices(host));
  for (const Updates updates : {Updates::at_once, Updates::with_next_step, Updates::by_caller}) {
    const std::vector<double> found = losses(load, plan, updates, devices_of(plan));
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-4 * std::abs(expected[i])) << "step " << i << ", updates " << static_cast<int>(updates);
  }
}

TEST_F(GpuOrder, ReplicasReadUpdatedParameters) {
  check_order(untied, {2});
  check_order(untied, {2, 1});
}

TEST_F(GpuOrder, TiedWeightsAreSummedAndCopiedInOrder) {
  check_order(tied, {1, 1});
  check_order(tied, {2, 1});
}

}  // namespace
}  // namespace mptune::testing
