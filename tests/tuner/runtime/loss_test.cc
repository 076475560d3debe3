// A user's loss that returns no number fails its step, and no other.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>

#include "fragile_layer.h"
#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "profiler/loading/load_model.h"
#include "reference.h"
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
      EXPECT_STREQ(error.what(), "the loss is a tensor of 2, not a number");
    }
    *mean = true;
    EXPECT_EQ(pipeline.step(data, {}).loss, expected);
  }
}

// Few targets count, other numbers of them in every micro-batch, and none in the last.
TEST(TokensThatDoNotCount, LeaveTheLossTheMeanOverTheOthers) {
  constexpr int kSamples = 8;
  const auto model_with = [](const std::string& loss) {
    return load_model("transformer:d=16,layers=3,heads=2,seq=5,vocab=7", "", 1, {.loss = loss, .data = ""}).model;
  };
  for (const char* loss : {"cross_entropy", "cross_entropy:ignore_index=3", "cross_entropy:weight=1,0.5,0,2,1,3,1",
                           "cross_entropy:ignore_index=2:weight=1,0.5,1,2,1,3,1"}) {
    SCOPED_TRACE(loss);
    Model whole = model_with(loss);
    Batch batch = synthetic_batch(whole.sample(), kSamples, 1);
    const std::int64_t nothing = parse_loss(loss).ignore_index;
    batch.target.index_put_({batch.target % 3 == 0}, nothing);
    batch.target.narrow(0, 6, 2).fill_(nothing);
    at::set_num_threads(1);
    const at::Tensor expected = whole.loss()(forward_all(whole, batch.inputs, {}), batch.target);
    expected.backward();
    std::vector<Plan> plans = two_device_plans(whole.size(), kSamples, 4, false);
    for (const Plan& plan : two_device_plans(whole.size(), kSamples, 4, true)) plans.push_back(plan);
    PlanOptions parallel;
    parallel.devices = device_names(2);
    parallel.batch = kSamples;
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
    EXPECT_STREQ(error.what(), "no target of the batch counts");
  }
  batch.target.fill_(1);
  EXPECT_GT(pipeline.step(batch.inputs, batch.target).loss, 0);
}

}  // namespace
}  // namespace mptune::testing
