#include "gpu_training.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/device/list/gpu_driver.h"
#include "profiler/model/layers/autocast_scope.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/runtime/graph/capabilities.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

// Batch norms over 20 values magnify what a CPU and a GPU round differently; the loop on the GPU rounds as the pipeline does.
constexpr double kToleranceOfBatchNorms = 2e-3;
constexpr double kToleranceOf16Bits = 5e-2;
constexpr double kLossScale = 1024;

void move_to_gpu(const Model& model, Batch& batch) {
  const at::NoGradGuard no_grad;
  for (const auto& tensors : {model.parameters(), model.buffers()})
    for (const NamedTensor& named : tensors) named.tensor.set_data(named.tensor.detach().to(at::kCUDA));
  for (at::Tensor& input : batch.inputs) input = input.to(at::kCUDA);
  if (batch.target.defined()) batch.target = batch.target.to(at::kCUDA);
}

/// What PyTorch's plain loop computes.
ReferenceStep plain_loop(const GpuSubject& subject, Batch batch, const Plan& plan, bool on_gpu) {
  Model model = load_model(subject.model, subject.input, 0).model;
  if (on_gpu) move_to_gpu(model, batch);
  RunForward run;
  if (plan.options.precision != Precision::float32)
    run = [&](const std::function<at::Tensor()>& forward) {
      const AutocastByHand autocast(on_gpu ? at::kCUDA : at::kCPU, profiler::computed_type(plan.options.precision));
      return forward();
    };
  return run_reference(std::move(model), batch, plan.microbatch_sizes, run, plan.options.precision == Precision::float32 ? 1 : kLossScale);
}

/// Relative.
double tolerance_of(const GpuSubject& subject, const GpuChoice& choice, bool on_gpu) {
  if (choice.precision != Precision::float32) return kToleranceOf16Bits;
  return subject.has_batch_norms && !on_gpu ? kToleranceOfBatchNorms : kGpuTolerance;
}

bool uses_the_cpu(const GpuChoice& choice) {
  return std::ranges::any_of(choice.devices, [](const std::string& name) { return name.starts_with("cpu"); });
}

/// Attention is computed by other operators on a GPU, and autocast chooses others.
bool equals_bit_for_bit(const GpuSubject& subject, const GpuChoice& choice, bool on_gpu) {
  if (!gpus_round_as_one_thread()) return false;
  const bool same_operators = subject.model.starts_with("mlp") && choice.precision == Precision::float32;
  return same_operators || (on_gpu && !uses_the_cpu(choice));
}

void expect_gradients(const std::vector<NamedTensor>& parameters, const std::vector<at::Tensor>& expected, bool exactly, double tolerance) {
  ASSERT_EQ(parameters.size(), expected.size());
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_TRUE(parameters[i].tensor.grad().defined()) << parameters[i].name;
    gradients.push_back(parameters[i].tensor.grad().cpu());
    EXPECT_TRUE(!exactly || at::equal(gradients[i], expected[i])) << parameters[i].name << " has other bits";
  }
  EXPECT_LT(relative_difference(gradients, expected), tolerance);
}

void check_against(const GpuSubject& subject, const GpuChoice& choice, bool on_gpu) {
  std::string devices;
  for (const std::string& name : choice.devices) devices += " " + name;
  SCOPED_TRACE(subject.model + " " + choice.schedule + devices + " against the loop on the " + (on_gpu ? "GPU" : "CPU"));
  const Model model = load_model(subject.model, subject.input, 0).model;
  const Plan plan = gpu_plan(choice, model.size());
  const Batch batch = synthetic_batch(model.sample(), kGpuBatch, 3);
  const ReferenceStep expected = plain_loop(subject, batch, plan, on_gpu);
  auto sums = sum_in_plan_order(expected, plan, model);
  for (at::Tensor& sum : sums) sum = sum.cpu();
  const bool exactly = equals_bit_for_bit(subject, choice, on_gpu);
  const double tolerance = tolerance_of(subject, choice, on_gpu);
  PipelineOptions options;
  options.link = choice.link;
  Pipeline pipeline(load_model(subject.model, subject.input, 0).model, plan, options);
  if (choice.precision != Precision::float32) pipeline.set_loss_scale(kLossScale);
  for (int step = 0; step < 2; ++step) {
    pipeline.set_steps(0);  // random masks are the first step's
    const StepResult result = pipeline.step(batch.inputs, batch.target);
    EXPECT_NEAR(result.loss, expected.loss, exactly ? 0 : tolerance * std::max(1.0, std::abs(expected.loss)));
    expect_gradients(pipeline.named_parameters(), sums, exactly, tolerance);
    if (step > 0) continue;
    const auto buffers = pipeline.named_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i)
      EXPECT_TRUE(at::allclose(buffers[i].tensor.cpu(), expected.buffers[i].cpu(), 1e-3, 1e-4)) << buffers[i].name;
  }
}

}  // namespace

Plan gpu_plan(const GpuChoice& choice, int layers) {
  PlanOptions options;
  options.devices = choice.devices;
  options.batch = kGpuBatch;
  options.layers = layers;
  options.microbatches = choice.microbatches;
  options.schedule = choice.schedule;
  options.recompute = choice.recompute ? "all" : "none";
  options.offload = choice.offload ? "all" : "none";
  options.replicas = choice.replicas;
  options.precision = choice.precision;
  return make_plan(options);
}

void check_on_gpus(const GpuSubject& subject, const GpuChoice& choice) {
  for (const bool on_gpu : {false, true}) check_against(subject, choice, on_gpu);
}

bool gpus_round_as_one_thread() {
  return std::getenv("EMULATED_MACHINE") != nullptr;
}

std::vector<std::string> gpu_names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("cuda:" + std::to_string(i));
  return names;
}

std::vector<int> gpu_counts() {
  const int all = std::min(profiler::gpu_driver().gpus, 8);
  std::set<int> counts;
  for (const int count : {2, 3, all})
    if (count > 1 && count <= all) counts.insert(count);
  return {counts.begin(), counts.end()};
}

std::vector<std::string> schedules_of_microbatches() {
  std::vector<std::string> names;
  for (const planner::ScheduleInfo& schedule : planner::schedules())
    if (!schedule.one_microbatch && why_schedule_not_executable(schedule.name, 0, tuner::kRuntime).empty())
      names.emplace_back(schedule.name);
  return names;
}

void GpuTraining::SetUp() {
  if (profiler::gpu_driver().gpus == 0) {
    GTEST_SKIP() << profiler::gpu_driver().problem;
  }
  // Convolutions would round their inputs to 10 bits.
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
  cpu = "cpu:" + std::to_string(available_cores()[0]);
}

}  // namespace mptune::testing
