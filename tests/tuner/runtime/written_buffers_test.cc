// Buffers that a forward writes change as in the loop over micro-batches, or the plan is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/nn/nn.h"
#include "profiler/model/script/layer.h"
#include "reference.h"
#include "tests/support/script_modules.h"
#include "tuner/check/check.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kChannels = 4;
constexpr int kSamples = 8;

/// Subtracts a moving average of what it saw.
struct MovingAverageImpl : nn::Cloneable<MovingAverageImpl> {
  MovingAverageImpl() { reset(); }
  void reset() override { average = register_buffer("average", at::zeros({kChannels})); }
  at::Tensor forward(const at::Tensor& x) {
    const at::NoGradGuard no_gradients;
    average.mul_(0.9).add_(x.mean(c10::IntArrayRef{0, 2}), 0.1);
    const at::AutoGradMode gradients(true);
    return x - average.clone().unsqueeze(1);
  }
  at::Tensor average;
};
TORCH_MODULE(MovingAverage);

SampleDescription images() {
  return {.inputs = {{.shape = {kChannels, 6}}}, .target = {}};
}

Model norms_of_modules() {
  at::manual_seed(1);
  const auto norm = [] { return nn::InstanceNorm1d(nn::InstanceNorm1dOptions(kChannels).affine(true).track_running_stats(true)); };
  const auto convolution = [] { return nn::Conv1d(kChannels, kChannels, 1); };
  return from_sequential(nn::Sequential(convolution(), norm(), MovingAverage(), convolution(), nn::BatchNorm1d(kChannels), norm(),
                                        MovingAverage(), convolution()),
                         Loss::mean_square(), images());
}

Model norms_of_scripts() {
  at::manual_seed(1);
  std::vector<ModelLayer> layers;
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i);
    const auto convolution = script_module("Convolution", {{"weight", at::randn({kChannels, kChannels, 1})}}, {}, {},
                                           "def forward(self, input):\n  return torch.conv1d(input, self.weight)\n");
    const auto norm =
        script_module("InstanceNorm", {}, {{"running_mean", at::zeros({kChannels})}, {"running_var", at::ones({kChannels})}}, {},
                      "def forward(self, input):\n"
                      "  return torch.instance_norm(input, None, None, self.running_mean, self.running_var, True, 0.1, "
                      "1e-05, False)\n");
    layers.push_back({name, {name}, profiler::make_script_layer(i % 2 == 0 ? convolution : norm, name)});
  }
  return {"scripts", std::move(layers), Loss::mean_square(), images(), kSamples};
}

class WrittenBuffersOf : public ::testing::TestWithParam<Model (*)()> {};
INSTANTIATE_TEST_SUITE_P(Forms, WrittenBuffersOf, ::testing::Values(&norms_of_modules, &norms_of_scripts));

TEST_P(WrittenBuffersOf, ChangeAsInTheLoopUnderEverySchedule) {
  const Model model = GetParam()();
  const Batch batch = synthetic_batch(model.sample(), kSamples, 1);
  const ReferenceStep reference = run_reference(GetParam()(), batch, {2, 2, 2, 2});
  for (const bool recompute : {false, true})
    for (const Plan& plan : two_device_plans(model.size(), kSamples, 4, recompute)) {
      SCOPED_TRACE(plan.schedule + (recompute ? ", recomputing" : ""));
      Pipeline pipeline(GetParam()(), plan, {}, shared_core_devices(plan));
      (void)pipeline.step(batch.inputs, batch.target);
      std::vector<at::Tensor> gradients, buffers;
      for (const NamedTensor& parameter : pipeline.named_parameters()) gradients.push_back(parameter.tensor.grad());
      for (const NamedTensor& buffer : pipeline.named_buffers()) buffers.push_back(buffer.tensor.to(at::kDouble));
      EXPECT_EQ(relative_difference(gradients, sum_in_plan_order(reference, plan, model)), 0);
      EXPECT_EQ(relative_difference(buffers, reference.buffers), 0);
    }
}

TEST_P(WrittenBuffersOf, PiecesAgreeWithTheWholeModel) {
  const Model model = GetParam()();
  for (const tuner::CheckPart& part : tuner::ModelCheck(model, synthetic_batch(model.sample(), kSamples, 1), 0).pieces())
    EXPECT_FALSE(part.difference) << part.name << ": " << part.difference->what << " of " << part.difference->layer_name;
}

Plan two_replicas(int layers) {
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kSamples;
  options.layers = layers;
  options.microbatches = 4;
  options.schedule = "gpipe";
  options.replicas = {2};
  return make_plan(options);
}

TEST_P(WrittenBuffersOf, ReplicasAreRefusedWithTheLayersName) {
  const Model model = GetParam()();
  const Plan plan = two_replicas(model.size());
  Pipeline pipeline(GetParam()(), plan, {}, shared_core_devices(plan));
  const Batch batch = synthetic_batch(model.sample(), kSamples, 1);
  for (int again = 0; again < 2; ++again) try {
      (void)pipeline.step(batch.inputs, batch.target);
      ADD_FAILURE() << "each replica saw its own micro-batches";
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "layer 1");
      EXPECT_EQ(error.problem(),
                "its forward writes the buffer 1.running_mean, and every replica would see some of the micro-batches only");
    }
}

TEST_P(WrittenBuffersOf, AnotherOrderOfMicrobatchesIsRefused) {
  const Model model = GetParam()();
  PlanOptions options;
  options.devices = device_names(1);
  options.batch = kSamples;
  options.layers = model.size();
  options.microbatches = 2;
  options.schedule = "gpipe";
  Plan plan = make_plan(options);
  std::swap(plan.actions[0][0].microbatch, plan.actions[0][1].microbatch);
  Pipeline pipeline(GetParam()(), plan, {}, shared_core_devices(plan));
  const Batch batch = synthetic_batch(model.sample(), kSamples, 1);
  try {
    (void)pipeline.step(batch.inputs, batch.target);
    ADD_FAILURE() << "micro-batch 1 came before micro-batch 0";
  } catch (const Error& error) {
    EXPECT_THAT(error.problem(), ::testing::HasSubstr("micro-batch 0 comes after micro-batch 1"));
  }
}

}  // namespace
}  // namespace mptune::testing
