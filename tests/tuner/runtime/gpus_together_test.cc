// Plans over two GPUs to eight: each changes nothing of the result.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gpu_training.h"
#include "profiler/device/list/gpu_driver.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

class GpusTogether : public GpuTraining {
 protected:
  void SetUp() override {
    GpuTraining::SetUp();
    if (!IsSkipped() && profiler::gpu_driver().gpus < 2) {
      GTEST_SKIP() << "needs two GPUs";
    }
  }
};

TEST_F(GpusTogether, EverySchedule) {
  for (const int gpus : gpu_counts())
    for (const std::string& schedule : schedules_of_microbatches())
      check_on_gpus(kGpuLongMlp, {.devices = gpu_names(gpus), .schedule = schedule, .microbatches = 5, .recompute = gpus == 3});
  for (const std::string& schedule : schedules_of_microbatches())
    check_on_gpus(kGpuBert, {.devices = gpu_names(2), .schedule = schedule, .microbatches = 3, .recompute = true});
  check_on_gpus(kGpuLongMlp, {.devices = gpu_names(gpu_counts().back()), .schedule = "naive", .microbatches = 1});
}

TEST_F(GpusTogether, Replicas) {
  for (const int gpus : gpu_counts())
    for (const GpuSubject& subject : {kGpuMlp, kGpuBert}) {
      check_on_gpus(subject, {.devices = gpu_names(gpus), .schedule = "gpipe", .microbatches = gpus, .replicas = {gpus}});
      if (gpus == 2) continue;
      check_on_gpus(subject, {.devices = gpu_names(gpus), .microbatches = gpus, .replicas = {gpus - 1, 1}});
      check_on_gpus(
          subject,
          {.devices = gpu_names(gpus), .schedule = "zb1p", .microbatches = gpus + 1, .replicas = {1, gpus - 1}, .recompute = true});
    }
}

TEST_F(GpusTogether, MixedWithTheCpu) {
  for (const GpuSubject& subject : {kGpuLongMlp, kGpuTransformer}) {
    check_on_gpus(subject, {.devices = {"cuda:0", cpu, "cuda:1"}});
    check_on_gpus(subject, {.devices = {cpu, "cuda:0", "cuda:1"}, .schedule = "zb1p", .recompute = true});
    check_on_gpus(subject, {.devices = {"cuda:1", cpu, "cuda:0"}, .schedule = "gpipe", .replicas = {3}});
    check_on_gpus(subject, {.devices = {cpu, "cuda:0", "cuda:1"}, .schedule = "gpipe", .replicas = {3}});
    check_on_gpus(subject, {.devices = {"cuda:0", cpu, "cuda:1"}, .replicas = {2, 1}, .offload = true});
  }
  check_on_gpus(kGpuLongMlp, {.devices = {"cuda:0", cpu, "cuda:1"}, .schedule = "interleaved", .microbatches = 6});
}

TEST_F(GpusTogether, PartsOfSeveralGpus) {
  const std::vector<std::string> parts{"cuda:0/1of2", "cuda:1/1of2", "cuda:0/2of2", "cuda:1/2of2"};
  for (const GpuSubject& subject : {kGpuLongMlp, kGpuTransformer}) {
    check_on_gpus(subject, {.devices = parts});
    check_on_gpus(subject, {.devices = parts, .schedule = "zb2p", .replicas = {2, 2}});
    check_on_gpus(subject, {.devices = {"cuda:0/1of2", "cuda:1", "cuda:0/2of2"}, .schedule = "gpipe", .offload = true});
    check_on_gpus(subject, {.devices = {"cuda:1/2of2", "cuda:0", cpu, "cuda:1/1of2"}, .recompute = true});
  }
}

TEST_F(GpusTogether, SavedActivationsInHostMemory) {
  for (const int gpus : gpu_counts())
    for (const char* schedule : {"gpipe", "1f1b", "zb1p", "interleaved"})
      check_on_gpus(kGpuLongMlp, {.devices = gpu_names(gpus), .schedule = schedule, .microbatches = 10, .offload = true});
  check_on_gpus(kGpuBert, {.devices = gpu_names(2), .microbatches = 10, .replicas = {2}, .offload = true});
}

TEST_F(GpusTogether, OverAThrottledLink) {
  const LinkThrottle link{1e9, 100e-6};
  check_on_gpus(kGpuTransformer, {.devices = gpu_names(2), .microbatches = 5, .link = link});
  check_on_gpus(kGpuMlp, {.devices = gpu_names(2), .schedule = "gpipe", .replicas = {2}, .link = link});
  check_on_gpus(kGpuLongMlp, {.devices = gpu_names(gpu_counts().back()), .schedule = "interleaved", .offload = true, .link = link});
}

TEST_F(GpusTogether, BatchNormsCommitOnce) {
  check_on_gpus(kGpuUnet, {.devices = gpu_names(2), .recompute = true});
  check_on_gpus(kGpuUnet, {.devices = gpu_names(2), .schedule = "gpipe", .replicas = {2}});
}

TEST_F(GpusTogether, SixteenBits) {
  for (const Precision precision : {Precision::bf16, Precision::fp16})
    for (const GpuSubject& subject : {kGpuLongMlp, kGpuTransformer}) {
      check_on_gpus(subject, {.devices = gpu_names(2), .schedule = "zb1p", .precision = precision});
      check_on_gpus(subject, {.devices = gpu_names(2), .replicas = {2}, .recompute = true, .precision = precision});
      check_on_gpus(subject, {.devices = {"cuda:0", cpu, "cuda:1"}, .offload = true, .precision = precision});
    }
}

TEST_F(GpusTogether, OverflowIsSeenOnAnyGpu) {
  const int gpus = gpu_counts().back();
  const Model model = load_model(kGpuLongMlp.model, "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kGpuBatch, 3);
  Pipeline pipeline(load_model(kGpuLongMlp.model, "", 0).model,
                    gpu_plan({.devices = gpu_names(gpus), .precision = Precision::fp16}, model.size()));
  (void)pipeline.step(batch.inputs, batch.target);
  const double norm = pipeline.gradient_norm();
  pipeline.set_loss_scale(1024);
  (void)pipeline.step(batch.inputs, batch.target);
  EXPECT_TRUE(pipeline.unscale_gradients());
  EXPECT_NEAR(pipeline.gradient_norm(), norm, norm * 1e-2);
  pipeline.set_loss_scale(std::pow(2.0, 40));  // beyond fp16
  (void)pipeline.step(batch.inputs, batch.target);
  EXPECT_FALSE(pipeline.unscale_gradients());
  pipeline.set_loss_scale(1);
  for (int stage = 0; stage < gpus; ++stage) {
    (void)pipeline.step(batch.inputs, batch.target);
    const auto spoil = [&](int at) {
      if (at == stage) pipeline.parameters(at).front().grad().fill_(INFINITY);
    };
    pipeline.on_stages(spoil);
    EXPECT_FALSE(pipeline.unscale_gradients()) << "stage " << stage;
  }
}

/// From GPUs to the CPU and back: what a step computes depends on no plan before it.
TEST_F(GpusTogether, AnotherPlanGoesOnWithTheSameTraining) {
  const Model model = load_model(kGpuBert.model, "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kGpuBatch, 3);
  const std::vector<Plan> plans{gpu_plan({.devices = gpu_names(2)}, model.size()),
                                gpu_plan({.devices = {cpu, "cuda:1"}, .schedule = "zb1p"}, model.size()),
                                gpu_plan({.devices = {"cuda:1", "cuda:0"}, .replicas = {2}}, model.size()),
                                gpu_plan({.devices = {cpu}, .schedule = "gpipe"}, model.size()),
                                gpu_plan({.devices = gpu_names(gpu_counts().back()), .replicas = {gpu_counts().back()}}, model.size())};
  const auto losses = [&](bool changing) {
    Pipeline pipeline(load_model(kGpuBert.model, "", 0).model, plans[3]);
    std::vector<double> all;
    for (const Plan& plan : plans) {
      if (changing) pipeline.replan(plan);
      all.push_back(pipeline.step(batch.inputs, batch.target).loss);
      pipeline.on_stages([&](int stage) {
        const at::NoGradGuard no_gradients;
        for (const at::Tensor& parameter : pipeline.parameters(stage)) parameter.sub_(parameter.grad(), 0.1);
      });
    }
    return all;
  };
  const std::vector<double> expected = losses(false), changed = losses(true);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(changed[i], expected[i], kGpuTolerance * std::abs(expected[i])) << i;
  EXPECT_NE(expected.front(), expected.back());
}

}  // namespace
}  // namespace mptune::testing
