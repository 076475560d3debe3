// A user's loss that returns no number fails its step, and no other.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "fragile_layer.h"
#include "planner/plan/plan_words.h"
#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tests/support/error_of.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

TEST(Pipeline, ALossThatIsNoNumberFailsTheStepAndTheNextOneWorks) {
  for (const Plan& plan : two_device_plans(4, 8, 4, false)) {
    SCOPED_TRACE(plan.schedule);
    const auto mean = std::make_shared<std::atomic<bool>>(true);
    const Loss loss = Loss::custom("mine", [mean](const Tensors& outputs, const at::Tensor&) {
      const at::Tensor squares = outputs[0].square();
      return *mean ? squares.mean() : squares.mean(1);
    });
    Pipeline pipeline(fragile_model(4, std::make_shared<FragileLayer::Switches>(), loss), plan, {}, shared_core_devices(plan));
    const at::Tensor data = at::ones({8, FragileLayer::kWidth});
    const double expected = pipeline.step(data, {}).loss;
    *mean = false;
    try {
      (void)pipeline.step(data, {});
      ADD_FAILURE() << "a loss of two numbers was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.problem(), "the loss is a tensor of 2, not a number");
    }
    *mean = true;
    EXPECT_EQ(pipeline.step(data, {}).loss, expected);
  }
}

// Few targets count, other numbers of them in every micro-batch, and none in the last.
TEST(TokensThatDoNotCount, LeaveTheLossTheMeanOverTheOthers) {
  constexpr int kLossSamples = 8;
  const auto model_with = [](const std::string& loss) {
    return load_model("transformer:d=16,layers=3,heads=2,seq=5,vocab=7", "", 1, {.loss = loss, .data = ""}).model;
  };
  for (const char* loss : {"cross_entropy", "cross_entropy:ignore_index=3", "cross_entropy:weight=1,0.5,0,2,1,3,1",
                           "cross_entropy:ignore_index=2:weight=1,0.5,1,2,1,3,1"}) {
    SCOPED_TRACE(loss);
    Model whole = model_with(loss);
    Batch batch = synthetic_batch(whole.sample(), kLossSamples, 1);
    const std::int64_t nothing = parse_loss(loss).ignore_index;
    batch.target.index_put_({batch.target % 3 == 0}, nothing);
    batch.target.narrow(0, 6, 2).fill_(nothing);
    at::set_num_threads(1);
    const at::Tensor expected = whole.loss()(forward_all(whole, batch.inputs, {}), batch.target);
    expected.backward();
    std::vector<Plan> plans = two_device_plans(whole.size(), kLossSamples, 4, false);
    for (const Plan& plan : two_device_plans(whole.size(), kLossSamples, 4, true)) plans.push_back(plan);
    PlanOptions parallel;
    parallel.devices = device_names(2);
    parallel.batch = kLossSamples;
    parallel.layers = whole.size();
    parallel.microbatches = 4;
    parallel.replicas = {2};
    plans.push_back(make_plan(parallel));
    for (const Plan& plan : plans) {
      SCOPED_TRACE(describe(plan));
      Pipeline pipeline(model_with(loss), plan, {}, shared_core_devices(plan));
      EXPECT_NEAR(pipeline.step(batch.inputs, batch.target).loss, expected.item<double>(), 1e-6);
      std::vector<at::Tensor> ours, theirs;
      for (const NamedTensor& parameter : pipeline.named_parameters()) ours.push_back(parameter.tensor.grad());
      for (const NamedTensor& parameter : whole.parameters()) theirs.push_back(parameter.tensor.grad());
      EXPECT_LT(relative_difference(ours, theirs), 1e-5);
    }
  }
}

/// y = x w; a layer with a head hands an output x h on beside it.
class HeadedLayer final : public Layer {
 public:
  HeadedLayer(std::string name, bool has_head) : name_(std::move(name)), weights_(1 + has_head) {
    for (std::size_t i = 0; i < weights_.size(); ++i)
      weights_[i] = ((at::arange(64, at::kFloat) * (0.37 + static_cast<double>(i))).sin().view({8, 8}) * 0.5).requires_grad_();
  }
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    Tensors outputs = inputs;
    outputs[0] = inputs[0].matmul(weights_[0]);
    if (weights_.size() > 1) outputs.push_back(inputs[0].matmul(weights_[1]));
    return outputs;
  }
  std::vector<NamedTensor> parameters() const override {
    std::vector<NamedTensor> named;
    for (const at::Tensor& weight : weights_) named.push_back({name_ + ".weight" + std::to_string(named.size()), weight});
    return named;
  }
  std::vector<NamedTensor> buffers() const override { return {}; }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<HeadedLayer>(name_, weights_.size() > 1); }
  std::string kind() const override { return "Headed"; }

 private:
  std::string name_;
  std::vector<at::Tensor> weights_;
};

// Heads in the first and the third of four layers: outputs 1 and 2.
Model headed_model(const Loss& loss) {
  std::vector<ModelLayer> layers;
  for (const char* name : {"a", "b", "c", "d"})
    layers.push_back({name, {}, std::make_unique<HeadedLayer>(name, std::string(name) == "a" || std::string(name) == "c")});
  SampleDescription sample;
  sample.inputs = {{.shape = {8}}};
  return {"headed", std::move(layers), loss, sample, 8};
}

TEST(LossOfSeveralOutputs, IsTheSumOfTheirLossesUnderEveryPlan) {
  const at::Tensor data = (at::arange(64, at::kFloat) * 0.11).sin().view({8, 8});
  const at::Tensor target = at::tensor(std::vector<std::int64_t>{1, 0, 7, 3, 3, -100, 2, -100});
  for (const char* text : {"cross_entropy:outputs=1,0.3,0.25", "cross_entropy:outputs=0,0,1", "mean_square:outputs=0.5,2",
                           "cross_entropy:weight=1,2,1,0.5,1,1,1,3:outputs=1,0,2"}) {
    SCOPED_TRACE(text);
    const LossChoice choice = parse_loss(text);
    Model whole = headed_model(Loss::from_name(text));
    const Tensors outputs = forward_all(whole, {data}, {});
    ASSERT_EQ(outputs.size(), 3U);
    at::Tensor expected = at::zeros({});
    for (std::size_t i = 0; i < choice.output_weights.size(); ++i) {
      const Loss one = Loss::of({choice.kind, choice.ignore_index, choice.class_weights});
      if (choice.output_weights[i] > 0) expected = expected + one({outputs[i]}, target) * choice.output_weights[i];
    }
    expected.backward();
    for (const bool recompute : {false, true}) {
      for (const Plan& plan : two_device_plans(whole.size(), 8, 4, recompute)) {
        SCOPED_TRACE(describe(plan));
        Pipeline pipeline(headed_model(Loss::from_name(text)), plan, {}, shared_core_devices(plan));
        EXPECT_NEAR(pipeline.step(data, target).loss, expected.item<double>(), 1e-6);
        for (const NamedTensor& ours : pipeline.named_parameters()) {
          const auto same_name = [&](const NamedTensor& parameter) { return parameter.name == ours.name; };
          const std::vector<NamedTensor> all = whole.parameters();
          const at::Tensor theirs = std::ranges::find_if(all, same_name)->tensor.grad();
          ASSERT_EQ(ours.tensor.grad().defined(), theirs.defined()) << ours.name;
          if (!theirs.defined()) continue;
          EXPECT_LT(relative_difference({ours.tensor.grad()}, {theirs}), 1e-5) << ours.name;
        }
      }
    }
  }
}

TEST(LossOfSeveralOutputs, TellsHowManyThereAre) {
  const Plan plan = two_device_plans(4, 8, 4, false)[0];
  Pipeline pipeline(headed_model(Loss::from_name("mean_square:outputs=1,1,1,1")), plan, {}, shared_core_devices(plan));
  EXPECT_EQ(error_of([&] { (void)pipeline.step(at::ones({8, 8}), {}); }).problem(), "the loss is of 4 outputs, the model has 3");
  EXPECT_THROW((void)Loss::mse()({at::Tensor()}, at::ones({1})), Error);
}

TEST(TokensThatDoNotCount, AreNotAll) {
  Model model = load_model("transformer:d=16,layers=3,heads=2,seq=5,vocab=7", "", 1).model;
  Batch batch = synthetic_batch(model.sample(), 8, 1);
  batch.target.fill_(-100);
  const Plan plan = two_device_plans(model.size(), 8, 4, false)[0];
  Pipeline pipeline(std::move(model), plan, {}, shared_core_devices(plan));
  try {
    (void)pipeline.step(batch.inputs, batch.target);
    ADD_FAILURE() << "a mean over nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "no target of the batch counts");
  }
  batch.target.fill_(1);
  EXPECT_GT(pipeline.step(batch.inputs, batch.target).loss, 0);
}

}  // namespace
}  // namespace mptune::testing
