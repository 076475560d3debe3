#include "tuner/runtime/pipeline.h"
#include "profiler/base/index.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "fragile_layer.h"
#include "planner/schedule/schedule.h"
#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/device/list/device_list.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/analyze/breakdown.h"
#include "reference.h"
#include "tuner/runtime/plan_file_of.h"
#include "wrapped_device.h"

namespace mptune::testing {
namespace {

Plan plan_for(int layers, int stages, int batch, int microbatches, const std::string& schedule, const std::string& recompute = "none") {
  PlanOptions options;
  options.devices = device_names(stages);
  options.batch = batch;
  options.layers = layers;
  options.stages = stages;
  options.microbatches = microbatches;
  options.schedule = schedule;
  options.recompute = recompute;
  return make_plan(options);
}

TEST(Pipeline, ExceptionOfAStageSurfacesOnceAndTheNextStepWorks) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    auto switches = std::make_shared<FragileLayer::Switches>();
    const Plan plan = plan_for(3, 3, 8, 8, schedule);
    Pipeline pipeline(fragile_model(3, switches), plan, {}, shared_core_devices(plan));
    const at::Tensor data = at::ones({8, FragileLayer::kWidth});
    const double loss = pipeline.step(data, {}).loss;
    const auto gradients = pipeline.named_parameters()[0].tensor.grad().clone();
    for (int repeat = 0; repeat < 3; ++repeat) {
      switches->fail_at = 2;
      switches->forwards = 0;
      EXPECT_THROW(
          try { (void)pipeline.step(data, {}); } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "broken on purpose");
            throw;
          },
          std::runtime_error);
      EXPECT_LE(switches->forwards, 3) << "the stage went on after its exception";
      switches->fail_at = -1;
      EXPECT_EQ(pipeline.step(data, {}).loss, loss);
      EXPECT_TRUE(at::equal(pipeline.named_parameters()[0].tensor.grad(), gradients));
    }
  }
}

Plan data_parallel_plan(int layers, int replicas, int batch) {
  PlanOptions options;
  options.devices = device_names(replicas);
  options.batch = batch;
  options.layers = layers;
  options.stages = 1;
  options.microbatches = replicas;
  options.schedule = "gpipe";
  options.replicas = {replicas};
  return make_plan(options);
}

// The other replica has ended its backwards, and waits for the gradients of the one that fails.
TEST(Pipeline, ExceptionOfAReplicaEndsTheOthersWait) {
  auto switches = std::make_shared<FragileLayer::Switches>();
  const Plan plan = data_parallel_plan(2, 2, 8);
  Pipeline pipeline(fragile_model(2, switches), plan, {}, shared_core_devices(plan));
  const at::Tensor data = at::ones({8, FragileLayer::kWidth});
  const double loss = pipeline.step(data, {}).loss;
  for (const int failing : {0, 1}) {
    switches->fail_at = failing;
    EXPECT_THROW((void)pipeline.step(data, {}), std::runtime_error);
    switches->fail_at = -1;
    EXPECT_EQ(pipeline.step(data, {}).loss, loss);
  }
}

TEST(Pipeline, ReplicasOnCpuShareTheParameters) {
  const Plan plan = data_parallel_plan(2, 2, 8);
  const auto devices = shared_core_devices(plan);
  Pipeline pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), plan, {}, devices);
  const at::Tensor data = at::ones({8, FragileLayer::kWidth});
  const double loss = pipeline.step(data, {}).loss;
  const std::int64_t parameters = 2 * FragileLayer::kWidth * FragileLayer::kWidth * 4;
  EXPECT_GE(devices[0]->current_bytes(), 2 * parameters) << "parameters and gradients";
  EXPECT_LT(devices[1]->current_bytes(), 2 * parameters) << "gradients";
  // Changed in place, as an optimizer does, and replaced.
  const at::NoGradGuard no_grad;
  at::Tensor weight = pipeline.named_parameters()[0].tensor;
  weight.mul_(2);
  EXPECT_DOUBLE_EQ(pipeline.step(data, {}).loss, 4 * loss);
  weight.set_data(at::eye(FragileLayer::kWidth) * 3);
  EXPECT_DOUBLE_EQ(pipeline.step(data, {}).loss, 9 * loss);
}

/// A device that has no memory for copies from the first forward of the last layer on, while that is told to fail.
class FullDevice final : public WrappedDevice {
 public:
  FullDevice(std::shared_ptr<Device> inner, std::shared_ptr<FragileLayer::Switches> full_while_failing)
      : WrappedDevice(std::move(inner)), switches_(std::move(full_while_failing)) {}
  [[nodiscard]] at::Tensor empty_like(const at::Tensor& tensor) override {
    if (switches_->fail_at < 0 || switches_->forwards == 0) return WrappedDevice::empty_like(tensor);
    // Late: the stages have long given up by then.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    throw std::runtime_error("no memory for the copy");
  }

 private:
  std::shared_ptr<FragileLayer::Switches> switches_;
};

TEST(Pipeline, StepBeginsWhenItsDevicesHaveDoneWhatTheCallerGaveThem) {
  const Plan plan = plan_for(2, 1, 8, 4, "gpipe");
  auto devices = shared_core_devices(plan);
  const auto behind = std::make_shared<BehindDevice>(devices[0]);
  devices[0] = behind;
  behind->gate->open();
  const auto switches = std::make_shared<FragileLayer::Switches>();
  Pipeline pipeline(fragile_model(2, switches), plan, {}, devices);
  behind->callers = std::make_shared<BehindDevice::Gate>();
  auto step = std::async(std::launch::async, [&] { return pipeline.step(at::ones({8, FragileLayer::kWidth}), {}).loss; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(switches->forwards, 0);
  behind->callers->open();
  (void)step.get();
  EXPECT_EQ(switches->forwards, 4);
}

TEST(Pipeline, StepEndsWhenItsDevicesAreDone) {
  for (const int stages : {1, 2}) {
    const Plan plan = plan_for(2, stages, 8, 4, "1f1b");
    auto devices = shared_core_devices(plan);
    const auto behind = std::make_shared<BehindDevice>(devices[0]);
    devices[0] = behind;
    behind->gate->open();
    Pipeline pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), plan, {}, devices);
    const at::Tensor data = at::ones({8, FragileLayer::kWidth});
    const double loss = pipeline.step(data, {}).loss;
    behind->gate = std::make_shared<BehindDevice::Gate>();
    auto step = std::async(std::launch::async, [&] { return pipeline.step(data, {}).loss; });
    EXPECT_EQ(step.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << stages << " stages";
    behind->gate->open();
    EXPECT_EQ(step.get(), loss);
  }
}

// The last stage gets no further than its second micro-batch, while slow copies of the others are still queued: these fail later.
TEST(Pipeline, CopiesThatFailWhileAFailedStepDrainsDoNotFailTheNext) {
  auto switches = std::make_shared<FragileLayer::Switches>();
  const Plan plan = plan_for(2, 2, 8, 8, "gpipe");
  auto devices = shared_core_devices(plan);
  devices[1] = std::make_shared<FullDevice>(devices[1], switches);
  PipelineOptions options;
  options.link.latency_s = 0.01;
  Pipeline pipeline(fragile_model(2, switches), plan, options, devices);
  const at::Tensor data = at::ones({8, FragileLayer::kWidth});
  // Without a step before there are no communication buffers yet: every copy has to ask for one.
  switches->fail_at = 1;
  EXPECT_THROW((void)pipeline.step(data, {}), std::runtime_error);
  switches->fail_at = -1;
  const double loss = pipeline.step(data, {}).loss;
  EXPECT_EQ(pipeline.step(data, {}).loss, loss);
}

TEST(Pipeline, HooksThatCopiesWouldLoseAreRefused) {
  const Plan plan = plan_for(3, 3, 8, 8, "1f1b");
  Model model = fragile_model(3, std::make_shared<FragileLayer::Switches>());
  at::Tensor weight = model.layers()[1].layer->parameters()[0].tensor;
  weight.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
  try {
    Pipeline pipeline(std::move(model), plan, {}, shared_core_devices(plan));
    ADD_FAILURE() << "the hook was lost";
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "the parameter layer1.weight has a hook, which the copies on the devices would lose");
  }
}

TEST(Pipeline, GoesAwayCleanlyAfterAFailedStep) {
  auto switches = std::make_shared<FragileLayer::Switches>();
  const Plan plan = plan_for(3, 3, 8, 8, "1f1b");
  const auto devices = shared_core_devices(plan);
  {
    Pipeline pipeline(fragile_model(3, switches), plan, {}, devices);
    switches->fail_at = 3;
    EXPECT_THROW((void)pipeline.step(at::ones({8, FragileLayer::kWidth}), {}), std::runtime_error);
  }
  for (const auto& device : devices) EXPECT_EQ(device->current_bytes(), 0);
}

TEST(Pipeline, TwoInOneProcessDoNotDisturbEachOther) {
  const Plan plan = plan_for(4, 2, 8, 4, "1f1b");
  const at::Tensor data = at::rand({8, FragileLayer::kWidth});
  const auto make = [&](const std::shared_ptr<FragileLayer::Switches>& switches) {
    return Pipeline(fragile_model(4, switches), plan, {}, shared_core_devices(plan));
  };
  auto fine = make(std::make_shared<FragileLayer::Switches>());
  const double loss = fine.step(data, {}).loss;
  const auto gradient = fine.named_parameters()[0].tensor.grad().clone();
  auto switches = std::make_shared<FragileLayer::Switches>();
  switches->fail_at = 2;
  std::thread other([&] {
    auto failing = make(switches);
    for (int i = 0; i < 10; ++i) EXPECT_THROW((void)failing.step(data, {}), std::runtime_error);
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(fine.step(data, {}).loss, loss);
    EXPECT_TRUE(at::equal(fine.named_parameters()[0].tensor.grad(), gradient));
  }
  other.join();
}

TEST(Pipeline, CapRaisesOutOfMemoryAndTheNextStepWorks) {
  auto switches = std::make_shared<FragileLayer::Switches>();
  const Plan plan = plan_for(2, 2, 64, 4, "1f1b");
  auto devices = shared_core_devices(plan);
  Pipeline pipeline(fragile_model(2, switches), plan, {}, devices);
  const at::Tensor data = at::ones({64, FragileLayer::kWidth});
  const double loss = pipeline.step(data, {}).loss;
  devices[1]->set_memory_cap(devices[1]->current_bytes() + 100);
  EXPECT_THROW((void)pipeline.step(data, {}), c10::OutOfMemoryError);
  EXPECT_EQ(pipeline.out_of_memory_device(), "cpu:1");
  EXPECT_GT(pipeline.refused_bytes(), 0);
  devices[1]->set_memory_cap(0);
  EXPECT_EQ(pipeline.step(data, {}).loss, loss);
}

TEST(Pipeline, MemoryIsChargedToItsDeviceAndAllComesBack) {
  std::vector<std::shared_ptr<Device>> devices;
  {
    const Plan plan = plan_for(4, 2, 64, 8, "gpipe");
    devices = shared_core_devices(plan);
    Pipeline pipeline(fragile_model(4, std::make_shared<FragileLayer::Switches>()), plan, {}, devices);
    const at::Tensor data = at::ones({64, FragileLayer::kWidth});
    (void)pipeline.step(data, {});
    const std::int64_t parameters = 2 * FragileLayer::kWidth * FragileLayer::kWidth * 4;
    for (const auto& device : devices) EXPECT_GE(device->current_bytes(), 2 * parameters) << "parameters and gradients";
    const std::int64_t after_one = devices[0]->current_bytes();
    for (int i = 0; i < 3; ++i) (void)pipeline.step(data, {});
    EXPECT_LE(devices[0]->current_bytes(), after_one + 64 * FragileLayer::kWidth * 4) << "a step leaves memory behind";
  }
  for (const auto& device : devices) EXPECT_EQ(device->current_bytes(), 0);
}

TEST(Pipeline, RecomputationLowersThePeak) {
  const std::string model = "transformer:d=64,layers=6,heads=2,seq=32,vocab=64";
  const Batch batch = synthetic_batch(load_model(model, "", 0).model.sample(), 16, 0);
  std::map<std::string, std::int64_t> peak;
  for (const char* recompute : {"none", "all"}) {
    const Plan plan = plan_for(8, 2, 16, 4, "gpipe", recompute);
    Pipeline pipeline(load_model(model, "", 0).model, plan, {}, shared_core_devices(plan));
    (void)pipeline.step(batch.inputs, batch.target);
    pipeline.reset_peak_bytes();
    (void)pipeline.step(batch.inputs, batch.target);
    peak[recompute] = pipeline.peak_bytes()[0];
  }
  EXPECT_LT(peak["all"], peak["none"] * 8 / 10);
}

TEST(Pipeline, RefusesWhatDoesNotFit) {
  const Plan plan = plan_for(2, 2, 8, 4, "1f1b");
  EXPECT_THROW(Pipeline(fragile_model(3, std::make_shared<FragileLayer::Switches>()), plan, {}, shared_core_devices(plan)), Error);
  Pipeline pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), plan, {}, shared_core_devices(plan));
  EXPECT_THROW((void)pipeline.step(at::ones({9, FragileLayer::kWidth}), {}), Error);
  Plan incomplete = plan;
  incomplete.actions[0].pop_back();
  EXPECT_THROW(Pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), incomplete, {}, shared_core_devices(plan)), Error);
}

TEST(PlanFileOf, SaysWhatItIsForAndWhenItWasMade) {
  const Model model = load_model("mlp:layers=4", "", 0).model;
  const Plan plan = plan_for(model.size(), 2, 8, 4, "1f1b");
  const PlanFile file = plan_file_of(model, plan, std::chrono::system_clock::from_time_t(1795262400));
  EXPECT_EQ(file.created, "2026-11-21T12:00:00Z");
  EXPECT_EQ(file.fingerprint.model, model.fingerprint());
  EXPECT_EQ(file.fingerprint.input, model.input_text());
  ASSERT_EQ(file.modules.size(), 2U);
  EXPECT_EQ(file.modules[1].back(), model.layers().back().modules.back());
  const PlanFile read = parse_plan_file(to_json(file), "memory");
  EXPECT_EQ(read.created, file.created);
  EXPECT_EQ(read.fingerprint, file.fingerprint);
  EXPECT_EQ(read.plan, plan);
}

TEST(Pipeline, PlanFileOfAnotherModelIsRefusedWhenStrict) {
  PlanFile file;
  file.plan = plan_for(2, 1, 8, 2, "1f1b");
  file.plan.devices = {"cpu:" + std::to_string(available_cores()[0])};
  file.fingerprint.model = "sha256:0000";
  PipelineOptions strict;
  strict.strict = true;
  EXPECT_THROW(Pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), file, strict), Error);
  ::testing::internal::CaptureStderr();
  Pipeline pipeline(fragile_model(2, std::make_shared<FragileLayer::Switches>()), file);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("another model"), std::string::npos);
}

TEST(Pipeline, RecordsEveryLayerCopyAndStep) {
  const int layers = 4, microbatches = 3;
  const Plan plan = plan_for(layers, 2, 12, microbatches, "1f1b");
  Pipeline pipeline(fragile_model(layers, std::make_shared<FragileLayer::Switches>()), plan, {}, shared_core_devices(plan));
  const at::Tensor data = at::ones({12, FragileLayer::kWidth});
  (void)pipeline.step(data, {});
  HostCollector collector(pipeline.trace_devices());
  collector.start();
  pipeline.record(&collector);
  const auto start = std::chrono::steady_clock::now();
  (void)pipeline.step(data, {});
  collector.add_step(1, start, std::chrono::steady_clock::now());
  pipeline.record(nullptr);
  (void)pipeline.step(data, {});
  const Trace trace = collector.stop();

  std::map<EventKind, int> count;
  for (const Event& event : trace.events) ++count[event.kind];
  EXPECT_EQ(count[EventKind::forward], layers * microbatches + microbatches) << "layers and the loss";
  EXPECT_EQ(count[EventKind::backward], layers * microbatches + microbatches);
  EXPECT_EQ(count[EventKind::copy], 2 * microbatches);
  EXPECT_EQ(trace.ranges.size(), 4U * microbatches);
  EXPECT_EQ(trace.quality, TraceQuality{});
  for (const Copy& copy : trace.copies) {
    EXPECT_EQ(copy.bytes, 4 * FragileLayer::kWidth * 4);
    EXPECT_NE(copy.source, copy.destination);
  }
  std::map<std::pair<int, int>, Nanoseconds> lane_end;
  for (const Event& event : trace.events) {
    auto& end = lane_end[{event.device, event.lane}];
    EXPECT_GE(event.start, end) << "leaves overlap";
    end = event.end();
    ASSERT_GE(event.tag, 0);
    EXPECT_EQ(trace.tags[as_index(event.tag)].step, 1);
  }
  const profiler::Breakdown breakdown = profiler::break_down(trace);
  for (const profiler::DeviceBreakdown& device : breakdown.steps.at(0).devices) {
    EXPECT_EQ(device.compute + device.copy + device.overlap + device.idle, device.window);
    EXPECT_EQ(device.causes.total(), device.idle);
  }
  for (const Edge& edge : trace.edges) EXPECT_LE(trace.events[as_index(edge.producer)].start, trace.events[as_index(edge.consumer)].start);
}

/// What of the training each thread was told to be working for.
class TagsSeen final : public TagSink {
 public:
  std::uint64_t tag(const Tag& tag, EventKind kind) override {
    const std::lock_guard lock(mutex_);
    tags.emplace_back(tag, kind);
    return tags.size();
  }
  bool push(std::uint64_t) override {
    ++open;
    return true;
  }
  void pop() override { --open; }

  std::vector<std::pair<Tag, EventKind>> tags;
  std::atomic<int> open = 0;

 private:
  std::mutex mutex_;
};

TEST(Pipeline, TagsWhatItGivesToDevicesWhileRecordedOnly) {
  const int microbatches = 3;
  const Plan plan = plan_for(4, 2, 12, microbatches, "1f1b");
  Pipeline pipeline(fragile_model(4, std::make_shared<FragileLayer::Switches>()), plan, {}, shared_core_devices(plan));
  const at::Tensor data = at::ones({12, FragileLayer::kWidth});
  HostCollector collector(pipeline.trace_devices());
  TagsSeen gpus;
  collector.start();
  pipeline.record(&collector, &gpus);
  (void)pipeline.step(data, {});
  pipeline.on_stages([](int) {});
  pipeline.record(nullptr);
  (void)pipeline.step(data, {});
  EXPECT_EQ(gpus.open, 0);
  const auto count = [&](const Tag& tag, EventKind kind) { return std::count(gpus.tags.begin(), gpus.tags.end(), std::pair(tag, kind)); };
  for (int stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(count({0, stage, -1, -1, 0}, EventKind::optimizer), 1);
    EXPECT_EQ(count({0, stage, -1, -1, 0}, EventKind::forward), stage) << "the losses' copy to the host";
    for (int m = 0; m < microbatches; ++m) {
      EXPECT_EQ(count({0, stage, m, -1, 0}, EventKind::forward), 1);
      EXPECT_EQ(count({0, stage, m, -1, 0}, EventKind::backward), 1);
    }
  }
  for (const auto& [tag, what] : gpus.tags) EXPECT_EQ(tag.step, 0);
}

}  // namespace
}  // namespace mptune::testing
