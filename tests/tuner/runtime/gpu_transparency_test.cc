// A plan changes nothing of the result on parts of a GPU, on whole ones and on GPUs mixed with the CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/optim/optimizer.h>
#include "fragile_layer.h"
#include "gpu_training.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"
#include "profiler/measure/optimizer.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/model/random/randomness.h"
#include "reference.h"
#include "tuner/runtime/graph/capabilities.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

class GpuTransparency : public GpuTraining {};

TEST_F(GpuTransparency, PartsUnderEverySchedule) {
  for (const GpuSubject& subject : {kGpuMlp, kGpuTransformer})
    for (const std::string& schedule : planner::schedule_names()) {
      if (!why_schedule_not_executable(schedule, 0, tuner::kRuntime).empty()) continue;
      const int microbatches = schedule == "naive" ? 1 : 5;
      for (const bool recompute : {false, true})
        check_on_gpus(subject, {.devices = halves, .schedule = schedule, .microbatches = microbatches, .recompute = recompute});
    }
}

/// So many weights of a sample that they are computed in blocks, and masks that are the CPU's.
TEST_F(GpuTransparency, AttentionWithDropoutOverLongSequences) {
  const at::Tensor input = at::sin(at::arange(2 * 2 * 1500 * 8, at::kFloat) * 0.73).view({2, 2, 1500, 8});
  const auto gradient_on = [&](at::Device device) {
    const profiler::DrawScope scope({.seed = 1, .step = 0, .layer = 2, .name = "layer", .first_sample = 0, .samples = 2});
    const at::Tensor x = input.clone().to(device).requires_grad_();
    at::scaled_dot_product_attention(x, x, x, {}, 0.3).square().sum().backward();
    return x.grad().cpu();
  };
  EXPECT_LT(relative_difference({gradient_on(at::kCUDA)}, {gradient_on(at::kCPU)}), kGpuTolerance);
}

TEST_F(GpuTransparency, ReplicasOnParts) {
  for (const GpuSubject& subject : {kGpuMlp, kGpuTransformer})
    for (const char* schedule : {"gpipe", "1f1b"})
      for (const bool recompute : {false, true})
        check_on_gpus(subject, {.devices = halves, .schedule = schedule, .microbatches = 5, .replicas = {2}, .recompute = recompute});
}

TEST_F(GpuTransparency, WholeGpuAndFourParts) {
  check_on_gpus(kGpuTransformer, {.devices = {"cuda:0"}, .schedule = "gpipe", .microbatches = 3});
  check_on_gpus(kGpuMlp, {.devices = {"cuda:0/1of4", "cuda:0/2of4", "cuda:0/3of4", "cuda:0/4of4"}, .microbatches = 8});
}

TEST_F(GpuTransparency, MixedWithTheCpu) {
  for (const GpuSubject& subject : {kGpuMlp, kGpuTransformer}) {
    check_on_gpus(subject, {.devices = {cpu, "cuda:0"}});
    check_on_gpus(subject, {.devices = {"cuda:0", cpu}, .schedule = "gpipe"});
    check_on_gpus(subject, {.devices = {"cuda:0/1of2", cpu, "cuda:0/2of2"}, .recompute = true});
    check_on_gpus(subject, {.devices = {cpu, "cuda:0"}, .schedule = "gpipe", .replicas = {2}});
  }
}

TEST_F(GpuTransparency, SavedActivationsInHostMemory) {
  for (const GpuSubject& subject : {kGpuMlp, kGpuTransformer})
    for (const char* schedule : {"gpipe", "zb1p"}) {
      for (const auto& devices : {std::vector<std::string>{"cuda:0"}, halves})
        check_on_gpus(subject, {.devices = devices, .schedule = schedule, .microbatches = 10, .offload = true});
    }
  check_on_gpus(kGpuTransformer, {.devices = halves, .schedule = "gpipe", .microbatches = 10, .offload = true, .link = {1e9, 100e-6}});
}

TEST_F(GpuTransparency, OverAThrottledLink) {
  check_on_gpus(kGpuTransformer, {.devices = halves, .microbatches = 5, .link = {1e9, 100e-6}});
}

TEST_F(GpuTransparency, BatchNormsCommitOnce) {
  check_on_gpus(kGpuResnet18, {.devices = halves, .microbatches = 2});
}

TEST_F(GpuTransparency, OutOfMemoryIsThrownOnceAndTheNextStepWorks) {
  const Model model = load_model(kGpuMlp.model, "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kGpuBatch, 3);
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : halves) devices.push_back(make_device(parse_device(name)));
  Pipeline pipeline(load_model(kGpuMlp.model, "", 0).model, gpu_plan({.devices = halves}, model.size()), {}, devices);
  const double loss = pipeline.step(batch.inputs, batch.target).loss;
  devices[1]->set_memory_cap(1);
  EXPECT_THROW((void)pipeline.step(batch.inputs, batch.target), c10::OutOfMemoryError);
  EXPECT_EQ(pipeline.out_of_memory_device(), halves[1]);
  EXPECT_GT(pipeline.refused_bytes(), 0);
  devices[1]->set_memory_cap(0);
  EXPECT_NEAR(pipeline.step(batch.inputs, batch.target).loss, loss, kGpuTolerance);
}

TEST_F(GpuTransparency, ExceptionOfAStageIsThrownOnceAndTheNextStepWorks) {
  const auto switches = std::make_shared<FragileLayer::Switches>();
  Pipeline pipeline(fragile_model(2, switches), gpu_plan({.devices = halves, .microbatches = 5}, 2));
  const at::Tensor data = at::ones({kGpuBatch, FragileLayer::kWidth});
  const double loss = pipeline.step(data, {}).loss;
  const at::Tensor gradient = pipeline.named_parameters()[0].tensor.grad().cpu();
  for (int repeat = 0; repeat < 3; ++repeat) {
    switches->fail_at = 2;
    EXPECT_THROW((void)pipeline.step(data, {}), std::runtime_error);
    switches->fail_at = -1;
    EXPECT_NEAR(pipeline.step(data, {}).loss, loss, kGpuTolerance * std::abs(loss));
    EXPECT_LT(relative_difference({pipeline.named_parameters()[0].tensor.grad().cpu()}, {gradient}), kGpuTolerance);
  }
}

TEST_F(GpuTransparency, OptimizersOfTheCallersThreadAreWaitedFor) {
  const Model model = load_model(kGpuTransformer.model, "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kGpuBatch, 3);
  const auto losses_of = [&](bool on_stages) {
    Pipeline pipeline(load_model(kGpuTransformer.model, "", 0).model, gpu_plan({.devices = halves}, model.size()));
    std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
    for (int stage = 0; stage < 2; ++stage)
      optimizers.push_back(profiler::make_optimizer(parse_optimizer("sgd"), 0.1, pipeline.parameters(stage)));
    std::vector<double> losses;
    for (int i = 0; i < 5; ++i) {
      losses.push_back(pipeline.step(batch.inputs, batch.target).loss);
      const auto step = [&](int stage) { optimizers[as_index(stage)]->step(); };
      if (on_stages) pipeline.on_stages(step);
      for (int stage = 0; !on_stages && stage < 2; ++stage) step(stage);
    }
    return losses;
  };
  const std::vector<double> theirs = losses_of(true), ours = losses_of(false);
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-3 * std::abs(theirs[i])) << "step " << i;
}

TEST_F(GpuTransparency, TrainingLowersTheLossAndStateComesBack) {
  Model model = load_model(kGpuMlp.model, "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kGpuBatch, 3);
  Pipeline pipeline(load_model(kGpuMlp.model, "", 0).model, gpu_plan({.devices = halves}, model.size()));
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers(2);
  pipeline.on_stages([&](int stage) {
    optimizers[as_index(stage)] = profiler::make_optimizer(parse_optimizer("adam"), 1e-3, pipeline.parameters(stage));
  });
  const double first = pipeline.step(batch.inputs, batch.target).loss;
  double last = first;
  for (int i = 0; i < 10; ++i) {
    pipeline.on_stages([&](int stage) { optimizers[as_index(stage)]->step(); });
    last = pipeline.step(batch.inputs, batch.target).loss;
  }
  EXPECT_LT(last, first);
  pipeline.copy_state_to(model);
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    EXPECT_TRUE(model.parameters()[i].tensor.is_cpu());
    EXPECT_TRUE(at::equal(model.parameters()[i].tensor, pipeline.named_parameters()[i].tensor.cpu()));
  }
  for (const std::int64_t peak : pipeline.peak_bytes()) EXPECT_GT(peak, 0);
}

}  // namespace
}  // namespace mptune::testing
