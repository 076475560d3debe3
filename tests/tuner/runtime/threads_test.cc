// Plans with fewer intra-op threads than cores: every bit that of the un-pipelined loop with so many threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/check/step_record.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kThreadsBatch = 7;  // unequal micro-batches

/// All on the first two cores, whatever their names say.
std::vector<std::shared_ptr<Device>> two_core_devices(const Plan& plan) {
  const std::vector<int> cores = available_cores();
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : plan.devices) {
    DeviceSpec spec;
    spec.name = name;
    spec.cores = {cores[0], cores[1]};
    devices.push_back(make_device(spec));
  }
  return devices;
}

Plan plan_with_threads(std::vector<int> threads, int layers, int microbatches) {
  PlanOptions options;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const int first = 2 * static_cast<int>(i);
    options.devices.push_back(cpu_name(first, first + 1));
  }
  options.batch = kThreadsBatch;
  options.layers = layers;
  options.microbatches = microbatches;
  Plan plan = make_plan(options);
  plan.options.threads = std::move(threads);
  return plan;
}

struct SeenThreads {
  std::mutex mutex;
  std::vector<std::set<int>> forward, backward;  ///< by layer

  void add(std::vector<std::set<int>>& to, std::size_t layer) {
    const std::scoped_lock lock(mutex);
    to.at(layer).insert(at::get_num_threads());
  }
};

/// Multiplies by a weight, and notes how many threads its forward and backward have.
class NotingLayer final : public Layer {
 public:
  NotingLayer(std::size_t index, std::shared_ptr<SeenThreads> seen)
      : index_(index), seen_(std::move(seen)), weight_(at::full({3}, 0.5).requires_grad_()) {}
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    seen_->add(seen_->forward, index_);
    at::Tensor output = inputs[0] * weight_;
    output.register_hook([seen = seen_, index = index_](const at::Tensor&) { seen->add(seen->backward, index); });
    return {output};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"weight" + std::to_string(index_), weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<NotingLayer>(index_, seen_); }
  [[nodiscard]] std::string kind() const override { return "Noting"; }

 private:
  std::size_t index_;
  std::shared_ptr<SeenThreads> seen_;
  at::Tensor weight_;
};

class PlanThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (available_cores().size() < 2) GTEST_SKIP() << "needs two cores";
  }
};

TEST_F(PlanThreads, EachDeviceComputesWithItsOwn) {
  const auto seen = std::make_shared<SeenThreads>();
  seen->forward.resize(2);
  seen->backward.resize(2);
  std::vector<ModelLayer> layers;
  for (std::size_t i = 0; i < 2; ++i) layers.push_back({"layer" + std::to_string(i), {}, std::make_unique<NotingLayer>(i, seen)});
  SampleDescription sample;
  sample.inputs = {{.shape = {3}}};
  const Model model("noting", std::move(layers), Loss::mean_square(), sample, kThreadsBatch);
  const Batch batch = synthetic_batch(model.sample(), kThreadsBatch, 3);
  for (const std::vector<int>& threads : {std::vector<int>{1, 2}, std::vector<int>{2, 1}, std::vector<int>{1, 1}}) {
    const Plan plan = plan_with_threads(threads, 2, 3);
    Pipeline pipeline({model.name(), tuner::cloned_layers(model), model.loss(), model.sample(), kThreadsBatch}, plan, {},
                      two_core_devices(plan));
    for (std::set<int>& numbers : seen->forward) numbers.clear();
    for (std::set<int>& numbers : seen->backward) numbers.clear();
    for (int step = 0; step < 2; ++step) (void)pipeline.step(batch.inputs, batch.target);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(seen->forward[i], std::set<int>{threads[i]}) << i;
      EXPECT_EQ(seen->backward[i], std::set<int>{threads[i]}) << i;
    }
    pipeline.on_stages([&](int stage) { EXPECT_EQ(at::get_num_threads(), threads[as_index(stage)]); });
  }
}

TEST_F(PlanThreads, GradientsAreThoseOfTheLoopWithAsManyThreads) {
  const char* const text = "resnet18";
  const Model model = load_model(text, "3x64x64", 0).model;
  const Batch batch = synthetic_batch(model.sample(), kThreadsBatch, 3);
  for (const std::vector<int>& threads : {std::vector<int>{1}, std::vector<int>{1, 1}}) {
    const Plan plan = plan_with_threads(threads, model.size(), 3);
    const ReferenceStep expected = run_reference(text, "3x64x64", batch, plan.microbatch_sizes);
    Pipeline pipeline(load_model(text, "3x64x64", 0).model, plan, {}, two_core_devices(plan));
    (void)pipeline.step(batch.inputs, batch.target);
    const std::vector<at::Tensor> sums = sum_in_plan_order(expected, plan, model);
    const std::vector<NamedTensor> parameters = pipeline.named_parameters();
    ASSERT_EQ(parameters.size(), sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_TRUE(at::equal(parameters[i].tensor.grad(), sums[i])) << parameters[i].name;
    const auto buffers = pipeline.named_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(at::equal(buffers[i].tensor, expected.buffers[i])) << buffers[i].name;
  }
}

TEST_F(PlanThreads, AreCheckedByThePipeline) {
  const Model model = load_model("mlp", "", 0).model;
  Plan plan = plan_with_threads({1}, model.size(), 1);
  plan.options.threads = {3};
  const auto build = [&] { const Pipeline pipeline(load_model("mlp", "", 0).model, plan, {}, two_core_devices(plan)); };
  EXPECT_THROW(build(), Error);
  plan.options.threads = {1, 1};
  EXPECT_THROW(build(), Error);
}

}  // namespace
}  // namespace mptune::testing
