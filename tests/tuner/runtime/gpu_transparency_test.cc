// A plan changes nothing of the result on parts of a GPU, on whole ones and on GPUs mixed with the CPU.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <torch/optim/optimizer.h>
#include "mptune/planner/search/search.h"
#include "mptune/profiler/device/gpu_driver.h"
#include "mptune/profiler/measure/optimizer.h"
#include "mptune/tuner/runtime/pipeline.h"
#include "reference.h"

namespace mptune::testing {
namespace {

constexpr int kBatch = 10;
constexpr double kTolerance = 1e-4;

struct Subject {
  std::string model;
  std::string input;
};
const Subject kMlp{"mlp:layers=4,width=64", ""};
const Subject kTransformer{"transformer:d=32,layers=2,heads=2,seq=8,vocab=40", ""};
const Subject kResnet18{"resnet18", "3x64x64"};

class GpuTransparency : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_driver().gpus == 0) GTEST_SKIP() << gpu_driver().problem;
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
  };

  static Plan plan_of(const Choice& choice, int layers) {
    PlanOptions options;
    options.devices = choice.devices;
    options.batch = kBatch;
    options.layers = layers;
    options.stages = static_cast<int>(choice.devices.size()) / choice.replicas;
    options.microbatches = choice.microbatches;
    options.schedule = choice.schedule;
    options.recompute = choice.recompute ? "all" : "none";
    options.replicas.assign(static_cast<std::size_t>(options.stages), choice.replicas);
    return make_plan(options);
  }

  /// Two steps, so that the second works in the memory of the first.
  static void check(const Subject& subject, const Choice& choice) {
    std::string devices;
    for (const std::string& name : choice.devices) devices += " " + name;
    SCOPED_TRACE(subject.model + " " + choice.schedule + devices);
    const Model model = load_model(subject.model, subject.input, 0);
    const Plan plan = plan_of(choice, model.size());
    const Batch batch = synthetic_batch(model.sample(), kBatch, 3);
    const ReferenceStep expected = run_reference(subject.model, subject.input, batch, plan.microbatch_sizes);
    const auto sums = sum_in_plan_order(expected, plan, model);
    PipelineOptions options;
    options.link = choice.link;
    Pipeline pipeline(load_model(subject.model, subject.input, 0), plan, options);
    for (int step = 0; step < 2; ++step) {
      const StepResult result = pipeline.step(batch.inputs, batch.target);
      EXPECT_NEAR(result.loss, expected.loss, kTolerance * std::max(1.0, std::abs(expected.loss)));
      std::vector<at::Tensor> gradients;
      for (const NamedTensor& parameter : pipeline.named_parameters()) {
        ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
        gradients.push_back(parameter.tensor.grad().cpu());
      }
      ASSERT_EQ(gradients.size(), sums.size());
      EXPECT_LT(relative_difference(gradients, sums), kTolerance);
      if (step > 0) continue;
      const auto buffers = pipeline.named_buffers();
      for (std::size_t i = 0; i < buffers.size(); ++i)
        EXPECT_TRUE(at::allclose(buffers[i].tensor.cpu(), expected.buffers[i], 1e-3, 1e-4)) << buffers[i].name;
    }
  }

  std::string cpu;
  std::vector<std::string> halves{"cuda:0/1of2", "cuda:0/2of2"};
};

TEST_F(GpuTransparency, PartsUnderEverySchedule) {
  for (const Subject& subject : {kMlp, kTransformer})
    for (const char* schedule : {"naive", "gpipe", "1f1b"})
      for (const bool recompute : {false, true}) {
        const int microbatches = std::string(schedule) == "naive" ? 1 : 5;
        check(subject, {halves, schedule, microbatches, 1, recompute, {}});
        check(subject, {halves, schedule, microbatches, 2, recompute, {}});
      }
}

TEST_F(GpuTransparency, WholeGpuAndFourParts) {
  check(kTransformer, {{"cuda:0"}, "gpipe", 3, 1, false, {}});
  check(kMlp, {{"cuda:0/1of4", "cuda:0/2of4", "cuda:0/3of4", "cuda:0/4of4"}, "1f1b", 8, 1, false, {}});
}

TEST_F(GpuTransparency, MixedWithTheCpu) {
  for (const Subject& subject : {kMlp, kTransformer}) {
    check(subject, {{cpu, "cuda:0"}, "1f1b", 4, 1, false, {}});
    check(subject, {{"cuda:0", cpu}, "gpipe", 4, 1, false, {}});
    check(subject, {{"cuda:0/1of2", cpu, "cuda:0/2of2"}, "1f1b", 4, 1, true, {}});
    check(subject, {{cpu, "cuda:0"}, "gpipe", 4, 2, false, {}});
  }
}

TEST_F(GpuTransparency, OverAThrottledLink) {
  check(kTransformer, {halves, "1f1b", 5, 1, false, {1e9, 100e-6}});
}

TEST_F(GpuTransparency, SeveralGpus) {
  if (gpu_driver().gpus < 2) GTEST_SKIP() << "needs two GPUs";
  check(kTransformer, {{"cuda:0", "cuda:1"}, "1f1b", 5, 1, false, {}});
  check(kTransformer, {{"cuda:0", "cuda:1"}, "gpipe", 4, 2, false, {}});
}

TEST_F(GpuTransparency, BatchNormsCommitOnce) {
  check(kResnet18, {halves, "1f1b", 2, 1, false, {}});
}

TEST_F(GpuTransparency, OutOfMemoryIsThrownOnceAndTheNextStepWorks) {
  const Model model = load_model(kMlp.model, "", 0);
  const Batch batch = synthetic_batch(model.sample(), kBatch, 3);
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : halves) devices.push_back(make_device(parse_device(name)));
  Pipeline pipeline(load_model(kMlp.model, "", 0), plan_of({halves, "1f1b", 4, 1, false, {}}, model.size()), {}, devices);
  const double loss = pipeline.step(batch.inputs, batch.target).loss;
  devices[1]->set_memory_cap(1);
  EXPECT_THROW((void)pipeline.step(batch.inputs, batch.target), c10::OutOfMemoryError);
  EXPECT_EQ(pipeline.out_of_memory_device(), halves[1]);
  EXPECT_GT(pipeline.refused_bytes(), 0);
  devices[1]->set_memory_cap(0);
  EXPECT_NEAR(pipeline.step(batch.inputs, batch.target).loss, loss, kTolerance);
}

TEST_F(GpuTransparency, OptimizersOfTheCallersThreadAreWaitedFor) {
  const Model model = load_model(kTransformer.model, "", 0);
  const Batch batch = synthetic_batch(model.sample(), kBatch, 3);
  const auto losses_of = [&](bool on_stages) {
    Pipeline pipeline(load_model(kTransformer.model, "", 0), plan_of({halves, "1f1b", 4, 1, false, {}}, model.size()));
    std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
    for (int stage = 0; stage < 2; ++stage) optimizers.push_back(make_optimizer("sgd", 0.1, pipeline.parameters(stage)));
    std::vector<double> losses;
    for (int i = 0; i < 5; ++i) {
      losses.push_back(pipeline.step(batch.inputs, batch.target).loss);
      const auto step = [&](int stage) { optimizers[static_cast<std::size_t>(stage)]->step(); };
      if (on_stages) pipeline.on_stages(step);
      for (int stage = 0; !on_stages && stage < 2; ++stage) step(stage);
    }
    return losses;
  };
  const std::vector<double> theirs = losses_of(true), ours = losses_of(false);
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-3 * std::abs(theirs[i])) << "step " << i;
}

TEST_F(GpuTransparency, TrainingLowersTheLossAndStateComesBack) {
  Model model = load_model(kMlp.model, "", 0);
  const Batch batch = synthetic_batch(model.sample(), kBatch, 3);
  Pipeline pipeline(load_model(kMlp.model, "", 0), plan_of({halves, "1f1b", 4, 1, false, {}}, model.size()));
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers(2);
  pipeline.on_stages(
      [&](int stage) { optimizers[static_cast<std::size_t>(stage)] = make_optimizer("adam", 1e-3, pipeline.parameters(stage)); });
  const double first = pipeline.step(batch.inputs, batch.target).loss;
  double last = first;
  for (int i = 0; i < 10; ++i) {
    pipeline.on_stages([&](int stage) { optimizers[static_cast<std::size_t>(stage)]->step(); });
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
