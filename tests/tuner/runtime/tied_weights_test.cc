// Parameters that layers of several stages use: trained as one, bit for bit as the un-pipelined loop that sums in the plan's order.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/optim/optimizer.h>
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/measure/describe_model.h"
#include "profiler/measure/optimizer.h"
#include "profiler/model/exported/load_exported.h"
#include "profiler/model/files/state.h"
#include "reference.h"
#include "tests/support/files.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kTiedWeightsBatch = 10;

std::string tied_file(const std::string& name) {
  return std::string(MPTUNE_SOURCE_DIR "/tests/golden/exported/") + name + ".pt2";
}

Model tied_model(const std::string& name) {
  return profiler::load_exported(tied_file(name)).model;
}

/// The batch of a step; a target where the loss needs one.
Batch batch_for(const Model& model) {
  SampleDescription sample = model.sample();
  if (model.loss().name() == "cross_entropy") sample.target = {.shape = sample.inputs[0].shape, .classes = sample.inputs[0].classes};
  return synthetic_batch(sample, kTiedWeightsBatch, 3);
}

using Gradients = std::map<std::string, at::Tensor>;

void add_to(Gradients& sums, const std::string& name, const at::Tensor& gradient) {
  at::Tensor& sum = sums[name];
  sum = sum.defined() ? sum.add(gradient) : gradient.clone();
}

/// The un-pipelined loop. Layers of a stage share their tied parameters, those of different stages have copies, so that every gradient can
/// be summed in the plan's order.
class SplitLoop {
 public:
  SplitLoop(const Model& model, const Plan& plan) : model_(model), plan_(plan) {
    for (const Stage& stage : plan.stages) {
      auto& layers = stages_.emplace_back();
      for (int i = stage.first_layer; i < stage.last_layer; ++i) {
        const ModelLayer& source = model.layers()[as_index(i)];
        layers.push_back({source.name, source.modules, source.layer->clone()});
      }
      tie_layers(layers);
    }
  }

  /// Gradients by name of one step.
  Gradients step(const Batch& batch, std::int64_t number) {
    at::set_num_threads(1);
    std::vector<std::vector<Gradients>> parts(stages_.size());  // [stage][micro-batch]
    std::int64_t first = 0;
    loss = 0;
    for (int m = 0; m < plan_.num_microbatches(); ++m) {
      const std::int64_t samples = plan_.microbatch_sizes[as_index(m)];
      run(samples_of(batch, first, samples), {.step = number, .microbatch = m, .first_sample = first, .samples = samples});
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        auto& found = parts[s].emplace_back();
        for (const NamedTensor& parameter : parameters_of(stages_[s]))
          found[parameter.name] = std::exchange(at::Tensor(parameter.tensor).mutable_grad(), {});
      }
      first += samples;
    }
    Gradients sums;
    for (const Stage& stage : plan_.stages)
      for (const auto& [name, gradient] : sum_of(stage, parts)) add_to(sums, name, gradient);
    return sums;
  }

  double loss = 0;

 private:
  void run(const Batch& part, const RunContext& context) {
    Tensors values = part.inputs;
    int index = 0;
    for (const auto& layers : stages_)
      for (const ModelLayer& layer : layers) values = run_layer(layer, index++, values, context);
    const at::Tensor mean = model_.loss()(values, part.target);
    const double weight = static_cast<double>(context.samples) / kTiedWeightsBatch;
    mean.backward(at::full_like(mean, weight));
    loss += mean.item<double>() * weight;
  }

  /// Micro-batches in the order of each replica's actions, then the replicas.
  [[nodiscard]] Gradients sum_of(const Stage& stage, const std::vector<std::vector<Gradients>>& parts) const {
    const auto index = static_cast<int>(&stage - plan_.stages.data());
    Gradients sums;
    for (const int device : stage.devices) {
      Gradients replica;
      for (const Action& action : plan_.actions[as_index(device)]) {
        if (action.stage != index || (action.kind != ActionKind::backward && action.kind != ActionKind::backward_weight)) continue;
        for (const auto& [name, gradient] : parts[as_index(index)][as_index(action.microbatch)]) add_to(replica, name, gradient);
      }
      for (const auto& [name, gradient] : replica) add_to(sums, name, gradient);
    }
    return sums;
  }

  const Model& model_;
  const Plan& plan_;
  std::vector<std::vector<ModelLayer>> stages_;
};

void expect_gradients(const Pipeline& pipeline, const Gradients& expected) {
  const auto parameters = pipeline.named_parameters();
  EXPECT_EQ(parameters.size(), expected.size());
  for (const NamedTensor& parameter : parameters) {
    ASSERT_TRUE(expected.count(parameter.name) > 0 && parameter.tensor.grad().defined()) << parameter.name;
    EXPECT_TRUE(at::equal(parameter.tensor.grad(), expected.at(parameter.name))) << parameter.name;
  }
}

/// Two steps of a plan with an optimizer between them.
void check(const std::string& name, const Plan& plan) {
  SCOPED_TRACE(name + " " + plan.schedule + ", stages " + std::to_string(plan.num_stages()));
  Model model = tied_model(name);
  const Batch batch = batch_for(model);
  Pipeline pipeline(tied_model(name), plan, {}, shared_core_devices(plan));
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  for (int stage = 0; stage < plan.num_stages(); ++stage)
    optimizers.push_back(profiler::make_optimizer(parse_optimizer("adam"), 0.1, pipeline.parameters(stage)));
  for (int step = 0; step < 2; ++step) {
    SplitLoop loop(model, plan);
    const Gradients expected = loop.step(batch, step);
    EXPECT_NEAR(pipeline.step(batch.inputs, batch.target).loss, loop.loss, 1e-12 * std::max(1.0, loop.loss));
    expect_gradients(pipeline, expected);
    pipeline.on_stages([&](int stage) { optimizers[as_index(stage)]->step(); });
    pipeline.copy_state_to(model);  // the copies of other stages follow at the next step
  }
}

Plan plan_of(int layers, const std::string& schedule, std::vector<int> replicas, int microbatches, const std::string& recompute) {
  PlanOptions options;
  int devices = 0;
  for (const int count : replicas) devices += count;
  options.devices = device_names(devices);
  options.batch = kTiedWeightsBatch;
  options.layers = layers;
  options.stages = static_cast<int>(replicas.size());
  options.microbatches = microbatches;
  options.schedule = schedule;
  options.recompute = recompute;
  options.replicas = std::move(replicas);
  return make_plan(options);
}

class TiedWeights : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, TiedWeights, ::testing::Values("language", "tied"));

TEST_P(TiedWeights, PipelinesEqualTheLoopBitForBit) {
  const int layers = tied_model(GetParam()).size();
  for (const char* recompute : {"none", "all"}) {
    check(GetParam(), plan_of(layers, "naive", {1}, 1, recompute));
    check(GetParam(), plan_of(layers, "1f1b", {1}, 3, recompute));
    check(GetParam(), plan_of(layers, "1f1b", {1, 1}, 4, recompute));
    check(GetParam(), plan_of(layers, "gpipe", {1, 1, 1}, 3, recompute));
  }
}

TEST_P(TiedWeights, EveryScheduleEqualsTheLoopBitForBit) {
  for (const bool recompute : {false, true})
    for (const Plan& plan : two_device_plans(tied_model(GetParam()).size(), kTiedWeightsBatch, 3, recompute)) check(GetParam(), plan);
}

TEST_P(TiedWeights, ReplicasAndHybridsEqualTheLoopBitForBit) {
  const int layers = tied_model(GetParam()).size();
  for (const auto& replicas : {std::vector<int>{2}, {2, 2}, {2, 1}, {1, 2}, {1, 2, 1}})
    check(GetParam(), plan_of(layers, "1f1b", replicas, 4, "none"));
  check(GetParam(), plan_of(layers, "gpipe", {2, 1}, 4, "all"));
}

TEST_P(TiedWeights, SeveralStagesOnOneDevice) {
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kTiedWeightsBatch;
  options.layers = tied_model(GetParam()).size();
  options.stages = 4;
  options.virtual_stages = 2;
  options.microbatches = 4;
  options.schedule = "interleaved";
  check(GetParam(), make_plan(options));
}

TEST_P(TiedWeights, GradientsAreThoseOfTheUnpipelinedModel) {
  Model whole = tied_model(GetParam());
  const Batch batch = batch_for(whole);
  whole.loss()(forward_all(whole, batch.inputs, {.samples = kTiedWeightsBatch}), batch.target).backward();
  const Plan plan = plan_of(whole.size(), "1f1b", {1, 1, 1}, 5, "none");
  Pipeline pipeline(tied_model(GetParam()), plan, {}, shared_core_devices(plan));
  (void)pipeline.step(batch.inputs, batch.target);
  std::vector<at::Tensor> ours, expected;
  for (const NamedTensor& parameter : whole.parameters()) expected.push_back(parameter.tensor.grad());
  for (const NamedTensor& parameter : pipeline.named_parameters()) ours.push_back(parameter.tensor.grad().clone());
  ASSERT_EQ(ours.size(), expected.size());
  EXPECT_LT(relative_difference(ours, expected), 1e-5);

  if (std::string(GetParam()) == "language") return;  // the next step draws other masks
  (void)pipeline.step(batch.inputs, batch.target, Accumulate::yes);
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i] = pipeline.named_parameters()[i].tensor.grad() / 2;
  EXPECT_LT(relative_difference(ours, expected), 1e-5);
}

TEST_P(TiedWeights, SingleLayersAgainInOneStageSumInAnotherOrderAlone) {
  const int layers = tied_model(GetParam()).size();
  const Model model = tied_model(GetParam());
  const Batch batch = batch_for(model);
  Plan plan = plan_of(layers, "1f1b", {1}, 3, "none");
  plan.stages[0].recompute = {Recompute::Mode::some, {0, layers - 1}, {0, 2}};
  Pipeline pipeline(tied_model(GetParam()), plan, {}, shared_core_devices(plan));
  (void)pipeline.step(batch.inputs, batch.target);
  const Gradients expected = SplitLoop(model, plan).step(batch, 0);
  std::vector<at::Tensor> ours, theirs;
  for (const NamedTensor& parameter : pipeline.named_parameters()) {
    ours.push_back(parameter.tensor.grad());
    theirs.push_back(expected.at(parameter.name));
  }
  EXPECT_LT(relative_difference(ours, theirs), 1e-6);
}

TEST_P(TiedWeights, EveryParameterIsListedCountedAndSavedOnce) {
  const Model model = tied_model(GetParam());
  std::map<std::string, int> names;
  std::int64_t numbers = 0, counted = 0;
  for (const NamedTensor& parameter : model.parameters()) {
    ++names[parameter.name];
    numbers += parameter.tensor.numel();
  }
  for (const auto& [name, times] : names) EXPECT_EQ(times, 1) << name;
  for (const ProfileLayer& layer : profiler::describe_layers(model)) counted += layer.parameters;
  EXPECT_EQ(counted, numbers);
  EXPECT_EQ(state_of(model).size(), model.parameters().size() + model.buffers().size());

  const Plan plan = plan_of(model.size(), "1f1b", {1, 1}, 2, "none");
  const Pipeline pipeline(tied_model(GetParam()), plan, {}, shared_core_devices(plan));
  EXPECT_EQ(pipeline.named_parameters().size(), model.parameters().size());
  EXPECT_EQ(pipeline.parameters(0).size() + pipeline.parameters(1).size(), model.parameters().size());
}

TEST(TiedState, WhatIsLoadedIsEveryHoldersAndComesBack) {
  const TestFolder folder("tied");
  LoadedModel trained = profiler::load_exported(tied_file("tied"));
  const at::NoGradGuard no_gradients;
  for (const NamedTensor& parameter : trained.model.parameters()) at::Tensor(parameter.tensor).add_(0.5);
  save_state(trained.model, folder.path("state.pt"), trained.extras);
  LoadedModel loaded = profiler::load_exported(tied_file("tied"));
  load_state(loaded.model, folder.path("state.pt"), loaded.extras);
  const Batch batch = batch_for(loaded.model);
  EXPECT_TRUE(at::equal(forward_all(loaded.model, batch.inputs, {})[0], forward_all(trained.model, batch.inputs, {})[0]));
}

}  // namespace
}  // namespace mptune::testing
