// Saved activations that lie in host memory for a while change no bit, and free the device's memory.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "fragile_layer.h"
#include "planner/plan/offload.h"
#include "planner/schedule/schedule.h"
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/model/exported/load_exported.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"
#include "wrapped_device.h"

namespace mptune::testing {
namespace {

constexpr int kOffloadBatch = 12;

Plan offload_plan(int layers, const std::string& schedule, int devices, int virtual_stages = 1) {
  PlanOptions options;
  options.devices = device_names(devices);
  options.batch = kOffloadBatch;
  options.layers = layers;
  options.microbatches = 6;
  options.schedule = schedule;
  options.virtual_stages = virtual_stages;
  return make_plan(options);
}

Plan offloading(Plan plan) {
  for (Stage& stage : plan.stages) stage.offload = true;
  return plan;
}

int offloaded_microbatches(const Plan& plan) {
  int count = 0;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) count += static_cast<int>(planner::offloaded(plan, static_cast<int>(d)).size());
  return count;
}

struct Results {
  double loss = 0;
  std::vector<at::Tensor> tensors;
};

Results results_of(const std::function<Model()>& load, const Plan& plan) {
  const Model model = load();
  SampleDescription sample = model.sample();
  if (model.loss().name() == "cross_entropy" && sample.target.classes == 0)
    sample.target = {.shape = sample.inputs[0].shape, .classes = 10};
  const Batch batch = synthetic_batch(sample, kOffloadBatch, 3);
  Pipeline pipeline(load(), plan, {}, shared_core_devices(plan));
  Results results;
  for (int step = 0; step < 2; ++step) results.loss += pipeline.step(batch.inputs, batch.target).loss;
  for (const NamedTensor& parameter : pipeline.named_parameters()) results.tensors.push_back(parameter.tensor.grad().clone());
  for (const NamedTensor& buffer : pipeline.named_buffers()) results.tensors.push_back(buffer.tensor.clone());
  return results;
}

void expect_no_bit_changed(const std::function<Model()>& load, const Plan& plan) {
  SCOPED_TRACE(plan.schedule + " on " + std::to_string(plan.devices.size()) + " devices");
  const Plan to_host = offloading(plan);
  EXPECT_GT(offloaded_microbatches(to_host), 0);
  const Results kept = results_of(load, plan), moved = results_of(load, to_host);
  EXPECT_EQ(kept.loss, moved.loss);
  ASSERT_EQ(kept.tensors.size(), moved.tensors.size());
  for (std::size_t i = 0; i < kept.tensors.size(); ++i) EXPECT_TRUE(at::equal(kept.tensors[i], moved.tensors[i])) << i;
}

TEST(Offload, ChangesNoBitUnderAnySchedule) {
  const auto load = [] { return load_model("transformer:d=32,layers=3,heads=2,seq=8,vocab=40", "", 0).model; };
  const int layers = load().size();
  for (const char* schedule : {"gpipe", "1f1b", "zb1p", "zb2p"}) expect_no_bit_changed(load, offload_plan(layers, schedule, 3));
  for (const char* schedule : {"interleaved", "zbv"}) expect_no_bit_changed(load, offload_plan(layers, schedule, 2, 2));
  Plan replicas = offload_plan(layers, "gpipe", 1);
  replicas.microbatch_sizes = split_evenly(kOffloadBatch, kOffloadBatch);
  replicas.devices = device_names(2);
  replicas.stages[0].devices = {0, 1};
  replicas.actions.clear();
  planner::make_schedule(replicas, "gpipe");
  expect_no_bit_changed(load, replicas);
}

void expect_no_bit_changed_of(const std::string& text, const std::string& input) {
  SCOPED_TRACE(text);
  const auto load = [&] { return load_model(text, input, 0).model; };
  expect_no_bit_changed(load, offload_plan(load().size(), "gpipe", 2));
}

TEST(Offload, ChangesNoBitOfOtherModels) {
  expect_no_bit_changed_of("mlp:layers=6,width=16", "");
  expect_no_bit_changed_of("vgg16:width=2,hidden=16,classes=5", "3x32x32");
  expect_no_bit_changed_of("unet:base=4,depth=2", "3x32x32");
}
TEST(NightlyOffload, ChangesNoBitOfOtherModels) {
  expect_no_bit_changed_of("resnet18", "3x32x32");
  expect_no_bit_changed_of("unet", "3x32x32");
}

std::vector<std::int64_t> peaks_of(const Plan& plan) {
  Model model = load_model("mlp:layers=8,width=256", "", 0).model;
  const Batch batch = synthetic_batch(model.sample(), plan.global_batch_size(), 3);
  Pipeline pipeline(std::move(model), plan, {}, shared_core_devices(plan));
  (void)pipeline.step(batch.inputs, batch.target);
  pipeline.reset_peak_bytes();
  (void)pipeline.step(batch.inputs, batch.target);
  return pipeline.peak_bytes();
}

// Of 16 micro-batches the device holds all, or the two of the last forwards and the two of the next backwards.
TEST(Offload, FreesMemoryOfTheDevice) {
  PlanOptions options;
  options.devices = device_names(1);
  options.batch = 16 * 512;
  options.layers = load_model("mlp:layers=8,width=256", "", 0).model.size();
  options.microbatches = 16;
  options.schedule = "gpipe";
  Plan plan = make_plan(options);
  const std::int64_t all = peaks_of(plan)[0];
  plan = offloading(plan);
  EXPECT_EQ(offloaded_microbatches(plan), 16);
  EXPECT_LT(peaks_of(plan)[0], all / 2);
}

/// Its output is changed in place by the next operator although its backward needs it.
class InPlace final : public Layer {
 public:
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    const at::Tensor saved = at::sigmoid(inputs[0].matmul(weight_));
    return {saved.add_(1)};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"w", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<InPlace>(); }
  [[nodiscard]] std::string kind() const override { return "InPlace"; }

 private:
  at::Tensor weight_ = at::eye(4).requires_grad_();
};

TEST(Offload, KeepsAutogradsErrorOfSavedTensorsThatAreChanged) {
  std::vector<ModelLayer> layers;
  layers.push_back({"in_place", {}, std::make_unique<InPlace>()});
  SampleDescription sample;
  sample.inputs = {{.shape = {4}}};
  const Plan plan = offloading(offload_plan(1, "gpipe", 1));
  Pipeline pipeline({"in_place", std::move(layers), Loss::mean_square(), sample, kOffloadBatch}, plan, {}, shared_core_devices(plan));
  try {
    (void)pipeline.step(at::ones({kOffloadBatch, 4}), {});
    ADD_FAILURE() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("modified by an inplace operation"));
  }
}

/// No memory is left for what comes back from the host.
class NoMemoryForCopies final : public WrappedDevice {
 public:
  using WrappedDevice::WrappedDevice;
  [[nodiscard]] at::Tensor empty_like(const at::Tensor& tensor) override {
    if (full) C10_THROW_ERROR(OutOfMemoryError, "no memory on purpose");
    return WrappedDevice::empty_like(tensor);
  }
  std::atomic<bool> full{false};
};

TEST(Offload, ThatFailsEndsItsStepAlone) {
  const Plan plan = offloading(offload_plan(2, "gpipe", 1));
  const auto device = std::make_shared<NoMemoryForCopies>(shared_core_devices(plan)[0]);
  Pipeline pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), plan, {}, {device});
  const at::Tensor data = at::ones({kOffloadBatch, FragileLayer::kWidth});
  const double loss = pipeline.step(data, {}).loss;
  const at::Tensor gradient = pipeline.parameters(0)[0].grad().clone();
  for (int i = 0; i < 2; ++i) {
    device->full = true;
    EXPECT_THROW((void)pipeline.step(data, {}), c10::OutOfMemoryError);
    device->full = false;
    EXPECT_EQ(pipeline.step(data, {}).loss, loss);
    EXPECT_TRUE(at::equal(pipeline.parameters(0)[0].grad(), gradient));
  }
}

TEST(Offload, IsRecordedAsCopiesWithTheHost) {
  const Plan plan = offloading(offload_plan(2, "gpipe", 1));
  Pipeline pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), plan, {}, shared_core_devices(plan));
  const at::Tensor data = at::ones({kOffloadBatch, FragileLayer::kWidth});
  HostCollector collector(pipeline.trace_devices());
  collector.start();
  pipeline.record(&collector);
  (void)pipeline.step(data, {});
  pipeline.record(nullptr);
  const Trace trace = collector.stop();
  const auto to_host = [](const Copy& copy) { return copy.source == 0 && copy.destination < 0 && copy.bytes > 0; };
  const auto from_host = [](const Copy& copy) { return copy.source < 0 && copy.destination == 0 && copy.bytes > 0; };
  EXPECT_EQ(std::ranges::count_if(trace.copies, to_host), offloaded_microbatches(plan));
  EXPECT_EQ(std::ranges::count_if(trace.copies, from_host), offloaded_microbatches(plan));
}

}  // namespace
}  // namespace mptune::testing
