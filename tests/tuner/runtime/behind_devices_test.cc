// What the runtime asks of devices that run behind their threads, as GPUs do: who waits for what, and who copies the batch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

#include "planner/search/make_plan.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"
#include "wrapped_device.h"

namespace mptune::testing {
namespace {

constexpr int kBehindBatch = 12;

/// Notes the moments that it waits for, and how often the host waits for its own. Stages the batch, unless told to fail.
class NotingDevice final : public WrappedDevice {
 public:
  using WrappedDevice::WrappedDevice;

  class Noted final : public Moment {
   public:
    explicit Noted(NotingDevice& device) : device_(device) {}
    [[nodiscard]] bool reached() const override { return true; }
    void wait() const override { ++device_.host_waits; }
    [[nodiscard]] const NotingDevice& device() const { return device_; }

   private:
    NotingDevice& device_;
  };
  [[nodiscard]] MomentPtr now() override { return std::make_shared<Noted>(*this); }
  [[nodiscard]] MomentPtr now_of_caller() override { return nullptr; }
  void after(const MomentPtr& moment) override {
    if (const auto* noted = dynamic_cast<const Noted*>(moment.get())) waited_for.push_back(&noted->device());
  }
  [[nodiscard]] bool stages_host_tensors() const override { return true; }
  [[nodiscard]] at::Tensor staged(const at::Tensor& tensor) override {
    const std::lock_guard lock(mutex_);
    if (fails) throw std::runtime_error("no pinned memory");
    by.push_back(std::this_thread::get_id());
    made_.push_back(tensor.alias());  // the same memory: the last bits of some products depend on where it begins
    return made_.back();
  }
  [[nodiscard]] at::Tensor from_host(const at::Tensor& tensor) override {
    const std::lock_guard lock(mutex_);
    const auto is_it = [&](const at::Tensor& made) { return made.is_same(tensor); };
    EXPECT_TRUE(std::ranges::any_of(made_, is_it)) << "not staged";
    ++read;
    return tensor;
  }

  std::atomic<int> host_waits{0};
  std::vector<const NotingDevice*> waited_for;
  std::vector<std::thread::id> by;  ///< the threads that staged
  int read = 0;
  bool fails = false;

 private:
  std::mutex mutex_;
  std::vector<at::Tensor> made_;
};

Model behind_model() {
  return load_model("mlp:layers=3,width=8", "", 0).model;
}

/// A pipeline on devices that note; `replicas` per stage.
struct Noting {
  explicit Noting(const std::vector<int>& replicas, int microbatches = 4, const PipelineOptions& how = {})
      : batch(synthetic_batch(behind_model().sample(), kBehindBatch, 3)) {
    PlanOptions options;
    options.devices = device_names(std::accumulate(replicas.begin(), replicas.end(), 0));
    options.batch = kBehindBatch;
    options.layers = behind_model().size();
    options.stages = static_cast<int>(replicas.size());
    options.microbatches = microbatches;
    options.replicas = replicas;
    plan = make_plan(options);
    std::vector<std::shared_ptr<Device>> wrapped;
    for (const auto& device : shared_core_devices(plan)) {
      devices.push_back(std::make_shared<NotingDevice>(device));
      wrapped.push_back(devices.back());
    }
    pipeline.emplace(behind_model(), plan, how, wrapped);
  }

  void step_and_compare() {
    const ReferenceStep expected = run_reference(behind_model(), batch, plan.microbatch_sizes);
    EXPECT_DOUBLE_EQ(pipeline->step(batch.inputs, batch.target).loss, expected.loss);
    const auto sums = sum_in_plan_order(expected, plan, behind_model());
    const auto parameters = pipeline->named_parameters();
    ASSERT_EQ(parameters.size(), sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_TRUE(at::equal(parameters[i].tensor.grad(), sums[i])) << parameters[i].name;
  }

  Batch batch;
  Plan plan;
  std::vector<std::shared_ptr<NotingDevice>> devices;
  std::optional<Pipeline> pipeline;
};

// A forward and a backward of each micro-batch: before each action but the first two the host waits for the one two before it, and at the
// end for all.
TEST(BehindDevices, TheHostStaysTwoActionsAhead) {
  Noting noting({3});
  noting.step_and_compare();
  for (std::size_t d = 0; d < noting.devices.size(); ++d) {
    const int actions = static_cast<int>(noting.plan.actions[d].size());
    EXPECT_EQ(actions, d == 0 ? 4 : 2);
    EXPECT_EQ(noting.devices[d]->host_waits, actions - 2 + 1);
  }
}

TEST(BehindDevices, TheHostStaysTwoForwardsAheadWhereItEvaluates) {
  Noting noting({1, 1});
  (void)noting.pipeline->evaluate(noting.batch.inputs, noting.batch.target);
  for (const auto& device : noting.devices) EXPECT_GE(device->host_waits, 4 - 2);
}

// Twelve forwards of one sample over a slow link: of their outputs three exist at once, and what a forward makes beside its output.
TEST(BehindDevices, TheHostWaitsUntilWhatItSentIsCopied) {
  Noting noting({1, 1}, kBehindBatch, {.link = {1e9, 3e-3}});
  constexpr std::int64_t kOutput = 8 * sizeof(float);
  noting.devices[0]->reset_peak();
  const std::int64_t before = noting.devices[0]->current_bytes();
  (void)noting.pipeline->evaluate(noting.batch.inputs, noting.batch.target);
  EXPECT_LE(noting.devices[0]->peak_bytes() - before, (3 + 3) * kOutput);
}

TEST(BehindDevices, GradientsAreSummedAfterThoseWhoComputeThem) {
  Noting noting({3});
  noting.step_and_compare();
  // On CPU each replica's thread sums a share.
  for (const auto& device : noting.devices)
    for (const auto& other : noting.devices) EXPECT_EQ(std::ranges::count(device->waited_for, other.get()), 1);
}

TEST(BehindDevices, TheThreadThatDrivesTheStepStagesTheBatch) {
  Noting noting({2, 1});
  noting.step_and_compare();
  noting.step_and_compare();
  const auto staged = [&](std::size_t device) { return noting.devices[device]->by.size(); };
  EXPECT_EQ(staged(0), 4U) << "half of the micro-batches, in two steps";
  EXPECT_EQ(staged(1), 4U);
  EXPECT_EQ(staged(2), 8U) << "the targets";
  for (const auto& device : noting.devices) {
    EXPECT_EQ(device->read, static_cast<int>(device->by.size()));
    for (const std::thread::id thread : device->by) EXPECT_EQ(thread, std::this_thread::get_id());
  }
}

TEST(BehindDevices, ABatchThatCannotBeStagedEndsTheStepAndTheNextWorks) {
  Noting noting({1, 1});
  for (const std::size_t device : {0U, 1U}) {
    noting.devices[device]->fails = true;
    EXPECT_THROW((void)noting.pipeline->step(noting.batch.inputs, noting.batch.target), std::runtime_error);
    noting.devices[device]->fails = false;
    noting.step_and_compare();
  }
}

}  // namespace
}  // namespace mptune::testing
