// A plan changes nothing of the result on parts of a GPU, on whole ones and on GPUs mixed with the CPU.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <torch/optim/optimizer.h>
#include "fragile_layer.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"
#include "profiler/device/device_list.h"
#include "profiler/device/gpu_driver.h"
#include "profiler/loading/load_model.h"
#include "profiler/measure/optimizer.h"
#include "profiler/randomness/randomness.h"
#include "reference.h"
#include "tuner/runtime/capabilities.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kGpuTransparencyBatch = 10;
constexpr double kGpuTransparencyTolerance = 1e-4;
// Batch norms over 20 values magnify what a CPU and a GPU round differently; the loop on the GPU rounds as the pipeline does.
constexpr double kToleranceOfBatchNorms = 2e-3;

struct GpuSubject {
  std::string model;
  std::string input;
  bool has_batch_norms = false;
};
const GpuSubject kGpuMlp{"mlp:layers=4,width=64", ""};
const GpuSubject kGpuTransformer{"transformer:d=32,layers=2,heads=2,seq=8,vocab=40", ""};
const GpuSubject kGpuResnet18{"resnet18", "3x64x64", true};

class GpuTransparency : public ::testing::Test {
 protected:
  void SetUp() override {
    if (profiler::gpu_driver().gpus == 0) {
      GTEST_SKIP() << profiler::gpu_driver().problem;
    }
    // Convolutions would round their inputs to 10 bits.
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
    cpu = "cpu:" + std::to_string(available_cores()[0]);
  }

  struct Choice {
    std::vector<std::string> devices;
    std::string schedule = "1f1b";
    int microbatches = 4;
    int replicas = 1;
    bool recompute = false;
    LinkThrottle link;
    bool offload = false;
  };

  static Plan plan_of(const Choice& choice, int layers) {
    PlanOptions options;
    options.devices = choice.devices;
    options.batch = kGpuTransparencyBatch;
    options.layers = layers;
    options.stages =
        static_cast<int>(choice.devices.size()) / choice.replicas * planner::schedule_info(choice.schedule).least_virtual_stages;
    options.microbatches = choice.microbatches;
    options.schedule = choice.schedule;
    options.recompute = choice.recompute ? "all" : "none";
    options.offload = choice.offload ? "all" : "none";
    if (choice.replicas > 1) options.replicas.assign(as_index(options.stages), choice.replicas);
    return make_plan(options);
  }

  /// What PyTorch's plain loop computes on the CPU, or with `on_gpu` on the first GPU.
  static ReferenceStep plain_loop(const GpuSubject& subject, Batch batch, const std::vector<int>& sizes, bool on_gpu) {
    Model model = load_model(subject.model, subject.input, 0).model;
    if (on_gpu) {
      const at::NoGradGuard no_grad;
      for (const auto& tensors : {model.parameters(), model.buffers()})
        for (const NamedTensor& named : tensors) named.tensor.set_data(named.tensor.detach().to(at::kCUDA));
      for (at::Tensor& input : batch.inputs) input = input.to(at::kCUDA);
      if (batch.target.defined()) batch.target = batch.target.to(at::kCUDA);
    }
    return run_reference(std::move(model), batch, sizes);
  }

  /// Against the loop on the CPU and the one on the GPU.
  static void check(const GpuSubject& subject, const Choice& choice) {
    for (const bool on_gpu : {false, true}) check_against(subject, choice, on_gpu);
  }

  /// Two steps, so that the second works in the memory of the first.
  static void check_against(const GpuSubject& subject, const Choice& choice, bool on_gpu) {
    std::string devices;
    for (const std::string& name : choice.devices) devices += " " + name;
    SCOPED_TRACE(subject.model + " " + choice.schedule + devices +
                 (on_gpu ? " against the loop on the GPU" : " against the loop on the CPU"));
    const Model model = load_model(subject.model, subject.input, 0).model;
    const Plan plan = plan_of(choice, model.size());
    const Batch batch = synthetic_batch(model.sample(), kGpuTransparencyBatch, 3);
    const ReferenceStep expected = plain_loop(subject, batch, plan.microbatch_sizes, on_gpu);
    auto sums = sum_in_plan_order(expected, plan, model);
    for (at::Tensor& sum : sums) sum = sum.cpu();
    PipelineOptions options;
    options.link = choice.link;
    const double tolerance = subject.has_batch_norms && !on_gpu ? kToleranceOfBatchNorms : kGpuTransparencyTolerance;
    Pipeline pipeline(load_model(subject.model, subject.input, 0).model, plan, options);
    for (int step = 0; step < 2; ++step) {
      const StepResult result = pipeline.step(batch.inputs, batch.target);
      EXPECT_NEAR(result.loss, expected.loss, tolerance * std::max(1.0, std::abs(expected.loss)));
      std::vector<at::Tensor> gradients;
      for (const NamedTensor& parameter : pipeline.named_parameters()) {
        ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
        gradients.push_back(parameter.tensor.grad().cpu());
      }
      ASSERT_EQ(gradients.size(), sums.size());
      EXPECT_LT(relative_difference(gradients, sums), tolerance);
      if (step > 0) continue;
      const auto buffers = pipeline.named_buffers();
      for (std::size_t i = 0; i < buffers.size(); ++i)
        EXPECT_TRUE(at::allclose(buffers[i].tensor.cpu(), expected.buffers[i].cpu(), 1e-3, 1e-4)) << buffers[i].name;
    }
  }

  std::string cpu;
  std::vector<std::string> halves{"cuda:0/1of2", "cuda:0/2of2"};
};

TEST_F(GpuTransparency, PartsUnderEverySchedule) {
  for (const GpuSubject& subject : {kGpuMlp, kGpuTransformer})
    for (const std::string& schedule : planner::schedule_names()) {
      if (!why_schedule_not_executable(schedule, 0, tuner::kRuntime).empty()) continue;
      const int microbatches = schedule == "naive" ? 1 : 5;
      for (const bool recompute : {false, true}) check(subject, {halves, schedule, microbatches, 1, recompute, {}});
    }
}

/// So many weights of a sample that they are computed in blocks, and masks that are the CPU's.
TEST_F(GpuTransparency, AttentionWithDropoutOverLongSequences) {
  const at::Tensor input = at::sin(at::arange(2 * 2 * 1500 * 8, at::kFloat) * 0.73).view({2, 2, 1500, 8});
  const auto gradient_on = [&](at::Device device) {
    const profiler::DrawScope scope({.seed = 1, .step = 0, .layer = 2, .name = "layer", .first_sample = 0, .samples = 2});
    const at::Tensor x = input.to(device).requires_grad_();
    at::scaled_dot_product_attention(x, x, x, {}, 0.3).square().sum().backward();
    return x.grad().cpu();
  };
  EXPECT_LT(relative_difference({gradient_on(at::kCUDA)}, {gradient_on(at::kCPU)}), kGpuTransparencyTolerance);
}

TEST_F(GpuTransparency, ReplicasOnParts) {
  for (const GpuSubject& subject : {kGpuMlp, kGpuTransformer})
    for (const char* schedule : {"gpipe", "1f1b"})
      for (const bool recompute : {false, true}) check(subject, {halves, schedule, 5, 2, recompute, {}});
}

TEST_F(GpuTransparency, WholeGpuAndFourParts) {
  check(kGpuTransformer, {{"cuda:0"}, "gpipe", 3, 1, false, {}});
  check(kGpuMlp, {{"cuda:0/1of4", "cuda:0/2of4", "cuda:0/3of4", "cuda:0/4of4"}, "1f1b", 8, 1, false, {}});
}

TEST_F(GpuTransparency, MixedWithTheCpu) {
  for (const GpuSubject& subject : {kGpuMlp, kGpuTransformer}) {
    check(subject, {{cpu, "cuda:0"}, "1f1b", 4, 1, false, {}});
    check(subject, {{"cuda:0", cpu}, "gpipe", 4, 1, false, {}});
    check(subject, {{"cuda:0/1of2", cpu, "cuda:0/2of2"}, "1f1b", 4, 1, true, {}});
    check(subject, {{cpu, "cuda:0"}, "gpipe", 4, 2, false, {}});
  }
}

TEST_F(GpuTransparency, SavedActivationsInHostMemory) {
  for (const GpuSubject& subject : {kGpuMlp, kGpuTransformer})
    for (const char* schedule : {"gpipe", "zb1p"}) {
      check(subject, {{"cuda:0"}, schedule, 10, 1, false, {}, true});
      check(subject, {halves, schedule, 10, 1, false, {}, true});
    }
  check(kGpuTransformer, {halves, "gpipe", 10, 1, false, {1e9, 100e-6}, true});
}

TEST_F(GpuTransparency, OverAThrottledLink) {
  check(kGpuTransformer, {halves, "1f1b", 5, 1, false, {1e9, 100e-6}});
}

TEST_F(GpuTransparency, SeveralGpus) {
  if (profiler::gpu_driver().gpus < 2) {
    GTEST_SKIP() << "needs two GPUs";
  }
  check(kGpuTransformer, {{"cuda:0", "cuda:1"}, "1f1b", 5, 1, false, {}});
  check(kGpuTransformer, {{"cuda:0", "cuda:1"}, "gpipe", 4, 2, false, {}});
}

TEST_F(GpuTransparency, BatchNormsCommitOnce) {
  check(kGpuResnet18, {halves, "1f1b", 2, 1, false, {}});
}

TEST_F(GpuTransparency, OutOfMemoryIsThrownOnceAndTheNextStepWorks) {
  const Model model = load_model(kGpuMlp.model, "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kGpuTransparencyBatch, 3);
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : halves) devices.push_back(make_device(parse_device(name)));
  Pipeline pipeline(load_model(kGpuMlp.model, "", 0).model, plan_of({halves, "1f1b", 4, 1, false, {}}, model.size()), {}, devices);
  const double loss = pipeline.step(batch.inputs, batch.target).loss;
  devices[1]->set_memory_cap(1);
  EXPECT_THROW((void)pipeline.step(batch.inputs, batch.target), c10::OutOfMemoryError);
  EXPECT_EQ(pipeline.out_of_memory_device(), halves[1]);
  EXPECT_GT(pipeline.refused_bytes(), 0);
  devices[1]->set_memory_cap(0);
  EXPECT_NEAR(pipeline.step(batch.inputs, batch.target).loss, loss, kGpuTransparencyTolerance);
}

TEST_F(GpuTransparency, ExceptionOfAStageIsThrownOnceAndTheNextStepWorks) {
  const auto switches = std::make_shared<FragileLayer::Switches>();
  Pipeline pipeline(fragile_model(2, switches), plan_of({halves, "1f1b", 5, 1, false, {}}, 2));
  const at::Tensor data = at::ones({kGpuTransparencyBatch, FragileLayer::kWidth});
  const double loss = pipeline.step(data, {}).loss;
  const at::Tensor gradient = pipeline.named_parameters()[0].tensor.grad().cpu();
  for (int repeat = 0; repeat < 3; ++repeat) {
    switches->fail_at = 2;
    EXPECT_THROW((void)pipeline.step(data, {}), std::runtime_error);
    switches->fail_at = -1;
    EXPECT_NEAR(pipeline.step(data, {}).loss, loss, kGpuTransparencyTolerance * std::abs(loss));
    EXPECT_LT(relative_difference({pipeline.named_parameters()[0].tensor.grad().cpu()}, {gradient}), kGpuTransparencyTolerance);
  }
}

TEST_F(GpuTransparency, OptimizersOfTheCallersThreadAreWaitedFor) {
  const Model model = load_model(kGpuTransformer.model, "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kGpuTransparencyBatch, 3);
  const auto losses_of = [&](bool on_stages) {
    Pipeline pipeline(load_model(kGpuTransformer.model, "", 0).model, plan_of({halves, "1f1b", 4, 1, false, {}}, model.size()));
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
  const Batch batch = synthetic_batch(model.sample(), kGpuTransparencyBatch, 3);
  Pipeline pipeline(load_model(kGpuMlp.model, "", 0).model, plan_of({halves, "1f1b", 4, 1, false, {}}, model.size()));
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
