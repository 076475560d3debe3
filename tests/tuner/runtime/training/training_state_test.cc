// A training that stops and goes on, under the same or another plan, is the training that was not interrupted.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <filesystem>
#include <fstream>
#include <tuple>

#include "planner/plan/plan_words.h"
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/model/loading/load_model.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "tests/support/thread_ranks.h"
#include "tuner/runtime/between/remote_device.h"
#include "tuner/runtime/training/checkpoint.h"

namespace mptune::testing {
namespace {

constexpr int kBatch = 8;
constexpr int kMicrobatches = 4;

Model model() {
  // Dropout draws other numbers in every step.
  return load_model("bert:d=16,layers=3,heads=2,seq=6,vocab=11,dropout=20", "", 3).model;
}

Plan plan_of(int layers, const std::string& schedule, int devices, const std::string& recompute = "none") {
  PlanOptions options;
  for (int d = 0; d < devices; ++d) options.devices.push_back("cpu:" + std::to_string(d));
  options.batch = kBatch;
  options.layers = layers;
  options.stages = devices;
  options.microbatches = kMicrobatches;
  options.schedule = schedule;
  options.recompute = recompute;
  return make_plan(options);
}

std::vector<std::shared_ptr<Device>> one_core_each(const Plan& plan, const RankGroup* ranks = nullptr) {
  const std::vector<int> cores = available_cores();
  std::vector<std::shared_ptr<Device>> devices;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    DeviceSpec spec = parse_device(plan.devices[d]);
    spec.cores = {cores[d % cores.size()]};
    devices.push_back(tuner::make_device_of(spec, ranks));
  }
  return devices;
}

PipelineOptions seeded() {
  PipelineOptions options;
  options.seed = 5;
  return options;
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

/// A pipeline with an optimizer per stage.
struct Training {
  Training(const Plan& plan, MakeOptimizer the_make, const PipelineOptions& options = seeded())
      : pipeline(model(), plan, options, one_core_each(plan, options.ranks.get())), make(std::move(the_make)) {
    make_optimizers();
  }
  void make_optimizers() {
    optimizers.clear();
    for (int stage = 0; stage < pipeline.plan().num_stages(); ++stage) optimizers.push_back(make(pipeline.parameters(stage)));
  }
  [[nodiscard]] Optimizers all() const {
    Optimizers pointers;
    for (const auto& optimizer : optimizers) pointers.push_back(optimizer.get());
    return pointers;
  }
  std::vector<double> run(int steps) {
    const Batch batch = synthetic_batch(model().sample(), kBatch, 1);
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) {
      losses.push_back(pipeline.step(batch.inputs, batch.target).loss);
      pipeline.on_stages([&](int stage) { optimizers[as_index(stage)]->step(); });
    }
    return losses;
  }
  Pipeline pipeline;
  MakeOptimizer make;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
};

template <class Optimizer, class Options>
MakeOptimizer maker(const Options& options) {
  return [options](const std::vector<at::Tensor>& parameters) { return std::make_unique<Optimizer>(parameters, options); };
}

const std::vector<std::pair<const char*, MakeOptimizer>>& makers() {
  static const std::vector<std::pair<const char*, MakeOptimizer>> all{
      {"sgd", maker<torch::optim::SGD>(torch::optim::SGDOptions(0.05))},
      {"sgd with momentum", maker<torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9))},
      {"adam", maker<torch::optim::Adam>(torch::optim::AdamOptions(0.01).amsgrad(true))},
      {"adamw", maker<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01))}};
  return all;
}

class TrainingStateTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  TestFolder folder_{"training"};
};

const int kLayers = model().size();

TEST_F(TrainingStateTest, KeepsTheScaleOfTheLossAndRefusesOneThatIsNone) {
  Training training(plan_of(kLayers, "1f1b", 2), makers().front().second);
  TrainingState state = training_state(training.pipeline, training.all());
  state.loss_scale = LossScale{512, 7};
  CheckpointInfo info{"transformer", "", "sgd", 5, kBatch};
  info.precision = Precision::fp16;
  save_checkpoint(path("scaled"), info, state);
  const Checkpoint read = load_checkpoint(latest_checkpoint(path("scaled")));
  EXPECT_EQ(read.info, info);
  EXPECT_EQ(read.state.loss_scale, (LossScale{512, 7}));
  for (const LossScale& damaged : {LossScale{0, 7}, LossScale{-1, 7}, LossScale{512, -1}}) {
    state.loss_scale = damaged;
    save_checkpoint(path("damaged"), info, state);
    EXPECT_THROW((void)load_checkpoint(latest_checkpoint(path("damaged"))), Error);
  }
}

TEST_F(TrainingStateTest, GoesOnUnderEveryPlanFromAFile) {
  for (const auto& [name, make] : makers()) {
    SCOPED_TRACE(name);
    const std::vector<double> whole = Training(plan_of(kLayers, "1f1b", 2), make).run(6);
    Training first(plan_of(kLayers, "1f1b", 2), make);
    std::vector<double> losses = first.run(3);
    const std::string folder = path(std::string("checkpoints of ") + name);
    save_checkpoint(folder, {"transformer", "", name, 5, kBatch}, training_state(first.pipeline, first.all()));
    for (const Plan& plan : {plan_of(kLayers, "gpipe", 1), plan_of(kLayers, "gpipe", 3, "all"), plan_of(kLayers, "zb1p", 2)}) {
      SCOPED_TRACE(describe(plan));
      Training next(plan, make);
      const Checkpoint checkpoint = load_checkpoint(latest_checkpoint(folder));
      EXPECT_EQ(checkpoint.info, (CheckpointInfo{"transformer", "", name, 5, kBatch}));
      set_training_state(next.pipeline, next.all(), checkpoint.state);
      EXPECT_EQ(next.pipeline.steps(), 3);
      std::vector<double> all = losses;
      for (const double loss : next.run(3)) all.push_back(loss);
      EXPECT_EQ(all, whole);
    }
  }
}

TEST_F(TrainingStateTest, OneOptimizerForAllStagesGoesOnToo) {
  const MakeOptimizer make = makers().back().second;
  const std::vector<double> whole = Training(plan_of(kLayers, "1f1b", 2), make).run(4);
  Training first(plan_of(kLayers, "1f1b", 2), make);
  (void)first.run(2);
  Pipeline second(model(), plan_of(kLayers, "1f1b", 3), seeded(), one_core_each(plan_of(kLayers, "1f1b", 3)));
  std::vector<at::Tensor> parameters;
  for (const NamedTensor& parameter : second.named_parameters()) parameters.push_back(parameter.tensor);
  const auto one = make(parameters);
  set_training_state(second, {one.get()}, training_state(first.pipeline, first.all()));
  const Batch batch = synthetic_batch(model().sample(), kBatch, 1);
  for (const int step : {2, 3}) {
    EXPECT_EQ(second.step(batch.inputs, batch.target).loss, whole[as_index(step)]);
    one->step();
  }
}

TEST_F(TrainingStateTest, RanksThatAllReduceGoOn) {
  // Both ranks train stage 0; rank 1 alone has stage 1.
  PlanOptions options;
  options.devices = {"1@cpu:0", "0@cpu:0", "1@cpu:1"};
  options.batch = kBatch;
  options.layers = kLayers;
  options.stages = 2;
  options.microbatches = kMicrobatches;
  options.replicas = {2, 1};
  const Plan plan = make_plan(options);
  for (const auto& [name, make] : makers()) {
    SCOPED_TRACE(name);
    TrainingState saved;
    std::vector<double> whole;
    ThreadRanks(2).run([&, &make = make](const std::shared_ptr<RankGroup>& group) {
      PipelineOptions about = seeded();
      about.ranks = group;
      about.reduce = Reduce::all_reduce;
      Training first(plan, make, about);
      (void)first.run(3);
      const TrainingState of_first_rank = training_state(first.pipeline, first.all());
      const std::vector<double> losses = first.run(3);
      Training second(plan, make, about);
      set_training_state(second.pipeline, second.all(), state_of_first_rank(second.pipeline, of_first_rank));
      EXPECT_EQ(second.run(3), losses);
      if (group->rank() == 0) std::tie(saved, whole) = std::pair(of_first_rank, losses);
    });
    Training alone(plan_of(kLayers, "1f1b", 2), make);
    ASSERT_EQ(saved.parameters.size(), alone.pipeline.named_parameters().size()) << "each once";
    EXPECT_EQ(saved.buffers.size(), alone.pipeline.named_buffers().size());
    set_training_state(alone.pipeline, alone.all(), saved);
    const std::vector<double> losses = alone.run(3);
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], whole[i], 1e-5 * losses[i]) << "sums in another order";
  }
}

TEST_F(TrainingStateTest, ReplanGoesOnWithTheSameTraining) {
  const MakeOptimizer make = makers().back().second;
  const std::vector<double> whole = Training(plan_of(kLayers, "1f1b", 2), make).run(6);
  Training training(plan_of(kLayers, "1f1b", 2), make);
  std::vector<double> losses = training.run(2);
  for (const Plan& plan : {plan_of(kLayers, "zb1p", 2, "all"), plan_of(kLayers, "gpipe", 1)}) {
    const TrainingState state = training_state(training.pipeline, training.all());
    training.optimizers.clear();
    training.pipeline.replan(plan);
    training.make_optimizers();
    set_training_state(training.pipeline, training.all(), state);
    for (const double loss : training.run(2)) losses.push_back(loss);
  }
  EXPECT_EQ(losses, whole);
}

TEST_F(TrainingStateTest, APlanThatDoesNotFitLeavesTheOldOne) {
  const MakeOptimizer make = makers().front().second;
  const std::vector<double> whole = Training(plan_of(kLayers, "1f1b", 2), make).run(4);
  Training training(plan_of(kLayers, "1f1b", 2), make);
  (void)training.run(2);
  training.optimizers.clear();
  EXPECT_THROW(training.pipeline.replan(plan_of(kLayers + 1, "1f1b", 2)), Error);
  training.make_optimizers();
  EXPECT_EQ(training.run(2), (std::vector<double>{whole[2], whole[3]}));
}

TEST_F(TrainingStateTest, WhatDoesNotFitChangesNothing) {
  Training training(plan_of(kLayers, "1f1b", 2), makers()[2].second);
  (void)training.run(1);
  const TrainingState good = training_state(training.pipeline, training.all());
  const auto refused = [&](const std::function<void(TrainingState&)>& change) {
    TrainingState state = good;
    change(state);
    const Error error = error_of([&] { set_training_state(training.pipeline, training.all(), state); });
    return error.problem() + ": " + error.where();
  };
  const std::string first = good.parameters[0].name;
  EXPECT_EQ(refused([](TrainingState& s) { s.parameters.erase(s.parameters.begin()); }), "the state lacks a tensor of the model: " + first);
  EXPECT_EQ(refused([](TrainingState& s) {
              s.parameters.push_back({"more", at::ones(1)});
            }),
            "the model lacks a tensor of the state: more");
  EXPECT_EQ(refused([](TrainingState& s) { s.parameters[0].tensor = at::ones(1); }),
            "the state's tensor has another shape or type than the model's: " + first);
  EXPECT_EQ(refused([&](TrainingState& s) { s.optimizer[first].erase("step"); }),
            "the optimizer's state does not fit: 'step' is missing: " + first);
  EXPECT_EQ(refused([&](TrainingState& s) { s.optimizer[first]["exp_avg"] = at::ones(1); }),
            "the optimizer's state does not fit: 'exp_avg' has another shape than the parameter: " + first);
  EXPECT_EQ(refused([&](TrainingState& s) { s.optimizer[first]["momentum_buffer"] = at::ones(1); }),
            "the optimizer's state does not fit: this optimizer has no 'momentum_buffer': " + first);
  Training other(plan_of(kLayers, "1f1b", 2), maker<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.1)));
  EXPECT_EQ(error_of([&] { (void)training_state(other.pipeline, other.all()); }).problem(), "the state of this optimizer can't be saved");
  EXPECT_EQ(error_of([&] { (void)training_state(training.pipeline, {}); }).problem(), "0 optimizers for 2 stages");
}

TEST_F(TrainingStateTest, TheNewestTwoCheckpointsStay) {
  const std::string folder = path("newest");
  EXPECT_EQ(latest_checkpoint(folder), "");
  for (const std::int64_t steps : {2, 10, 20, 30}) {
    TrainingState state;
    state.steps = steps;
    state.parameters = {{"w", at::full({3}, steps)}};
    save_checkpoint(folder, {"m", "f", "sgd", 0, 1}, state);
  }
  EXPECT_EQ(std::filesystem::path(latest_checkpoint(folder)).filename(), "step-30");
  EXPECT_FALSE(std::filesystem::exists(folder + "/step-10"));
  EXPECT_EQ(load_checkpoint(checkpoint_of(folder, 20)).state.parameters[0].tensor[0].item<int>(), 20);
  EXPECT_EQ(error_of([&] { (void)checkpoint_of(folder, 10); }).remedy(), "there are those of steps 20, 30");
  EXPECT_EQ(error_of([&] { (void)checkpoint_of(path("none"), 10); }).remedy(), "leave --checkpoint-step out");
}

// A training that went on from step 20 is another one than that of step 30.
TEST_F(TrainingStateTest, CheckpointsOfLaterStepsAreReplaced) {
  const std::string folder = path("later");
  for (const std::int64_t steps : {10, 20, 30, 25}) {
    TrainingState state;
    state.steps = steps;
    state.parameters = {{"w", at::full({3}, steps)}};
    save_checkpoint(folder, {"m", "f", "sgd", 0, 1}, state);
  }
  EXPECT_EQ(std::filesystem::path(latest_checkpoint(folder)).filename(), "step-25");
  EXPECT_TRUE(std::filesystem::exists(folder + "/step-20"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/step-30"));
}

// Every bit of both files counts: none that is flipped leaves a checkpoint that can be read.
TEST_F(TrainingStateTest, AFlippedBitIsFound) {
  const std::string folder = path("bits");
  for (const std::int64_t steps : {10, 20}) {
    TrainingState state;
    state.steps = steps;
    state.parameters = {{"w", at::full({3}, steps)}};
    save_checkpoint(folder, {"m", "f", "sgd", 0, 1}, state);
  }
  for (const char* name : {"/tensors.safetensors", "/checkpoint.json"}) {
    const std::string file = folder + "/step-20" + name;
    std::ifstream in(file, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    for (std::size_t place = 0; place < whole.size(); ++place) {
      if (std::isspace(static_cast<unsigned char>(whole[place])) != 0) continue;  // of JSON, it is of no meaning
      std::string damaged = whole;
      damaged[place] = static_cast<char>(damaged[place] ^ 1);
      std::ofstream(file, std::ios::binary) << damaged;
      const Error error = error_of([&] { (void)load_checkpoint(latest_checkpoint(folder)); });
      ASSERT_NE(error.where().find("step-20"), std::string::npos) << name << " " << place;
      const bool damaged_content = error.problem().find("damaged") != std::string::npos;
      ASSERT_TRUE(!damaged_content || error.remedy().find("--checkpoint-step 10") != std::string::npos) << name << " " << place;
    }
    std::ofstream(file, std::ios::binary) << whole;
  }
  EXPECT_EQ(load_checkpoint(latest_checkpoint(folder)).state.steps, 20);
}

/// A checkpoint in `folder`, after `damage` of its folder.
std::string refusal_of_damaged(const std::string& folder, const std::function<void(const std::string& path)>& damage) {
  TrainingState state;
  state.parameters = {{"w", at::ones(3)}};
  save_checkpoint(folder, {"m", "f", "sgd", 0, 1}, state);
  damage(latest_checkpoint(folder));
  return refusal_of([&] { (void)load_checkpoint(latest_checkpoint(folder)); });
}

void replace_in(const std::string& path, const std::string& what, const std::string& by) {
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find(what), what.size(), by);
  std::ofstream(path) << text;
}

TEST_F(TrainingStateTest, DamagedCheckpointsAreRefused) {
  using ::testing::HasSubstr;
  const auto with = [&](const std::string& what, const std::string& by) {
    return refusal_of_damaged(path("damaged"), [&](const std::string& at) {
      replace_in(at + "/checkpoint.json", what, by);
      if (by.find("version") == std::string::npos && by != "[") replace_in(at + "/checkpoint.json", "\"version\": 2", "\"version\": 1");
    });
  };  // version 1 has no checksums: other checks find what they do not
  EXPECT_THAT(with("mptune.checkpoint", "other"), HasSubstr("this is not a checkpoint of mptune"));
  EXPECT_THAT(with("\"version\": 2", "\"version\": 9"), HasSubstr("written by a newer version of mptune (format 9)"));
  EXPECT_THAT(with("\"steps\": 0", "\"steps\": -1"), HasSubstr("steps"));
  EXPECT_THAT(with("\"w\"", "\"v\""), HasSubstr("the checkpoint lacks the tensor 'v'"));
  EXPECT_THAT(with("\"w\"", "7"), HasSubstr("parameters"));
  EXPECT_THAT(with("{", "["), HasSubstr("the checkpoint is damaged"));
  const auto cut = [](const std::string& at) { std::filesystem::resize_file(at + "/tensors.safetensors", 20); };
  EXPECT_THAT(refusal_of_damaged(path("cut"), cut), HasSubstr("tensors.safetensors"));
  const auto gone = [](const std::string& at) { std::filesystem::remove(at + "/checkpoint.json"); };
  EXPECT_THAT(refusal_of_damaged(path("gone"), gone), HasSubstr("the checkpoint can't be read"));
}

TEST(Gradients, NormAndClippingAreThoseOfOneVector) {
  for (const Plan& plan : {plan_of(kLayers, "1f1b", 2), plan_of(kLayers, "gpipe", 3)}) {
    Pipeline pipeline(model(), plan, seeded(), one_core_each(plan));
    const Batch batch = synthetic_batch(model().sample(), kBatch, 1);
    (void)pipeline.step(batch.inputs, batch.target);
    std::vector<at::Tensor> all;
    for (const NamedTensor& parameter : pipeline.named_parameters()) all.push_back(parameter.tensor.grad().flatten().to(at::kDouble));
    const at::Tensor vector = at::cat(all);
    const double norm = vector.norm().item<double>();
    EXPECT_NEAR(pipeline.gradient_norm() / norm, 1, 1e-9);
    EXPECT_NEAR(pipeline.clip_gradients(2 * norm) / norm, 1, 1e-9);
    EXPECT_NEAR(pipeline.gradient_norm() / norm, 1, 1e-9) << "nothing to clip";
    EXPECT_NEAR(pipeline.clip_gradients(norm / 4) / norm, 1, 1e-9);
    const double factor = norm / 4 / (norm + 1e-6);  // as in PyTorch
    EXPECT_NEAR(pipeline.gradient_norm() / norm, factor, 1e-6);
    pipeline.parameters(1)[0].mutable_grad().flatten()[0] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(std::isfinite(pipeline.clip_gradients(1)));
    EXPECT_NEAR(at::norm(pipeline.parameters(0)[0].grad()).item<double>() / at::norm(all[0]).item<double>(), factor, 1e-6) << "left alone";
  }
}

}  // namespace
}  // namespace mptune::testing
