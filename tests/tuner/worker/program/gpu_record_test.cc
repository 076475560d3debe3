// On a GPU where there is one: what the worker records of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "fixture.h"
#include "profiler/base/index.h"
#include "profiler/device/list/gpu_driver.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/store/store.h"

namespace mptune::testing {
using namespace tuner;
namespace {

class GpuRecord : public WorkerTest {
 protected:
  void SetUp() override {
    if (profiler::gpu_driver().gpus == 0) {
      GTEST_SKIP() << profiler::gpu_driver().problem;
    }
  }

  /// The trace of some recorded steps on these devices.
  Trace recorded(const std::vector<std::string>& devices) {
    RecordRequest request;
    request.setup = setup_for("mlp:layers=6,width=512", 64);
    request.setup.devices = devices;
    request.plan = plan_for(request.setup, 6, 16);
    request.steps = 5;
    request.path = path("trace.sqlite");
    record(request, replies());
    EXPECT_EQ(all<Recorded>().at(0).warning, "");
    return profiler::read_recording(request.path).trace.value();
  }
};

void expect_sound(const Trace& trace, const std::vector<std::string>& devices) {
  ASSERT_EQ(trace.devices.size(), devices.size()) << "no work lies beside the plan's devices";
  EXPECT_EQ(trace.steps.size(), 5U);
  EXPECT_EQ(trace.quality.dropped, 0);
  EXPECT_EQ(trace.quality.zero_stamped, 0);
  EXPECT_EQ(trace.quality.unmatched, 0);
  EXPECT_EQ(trace.quality.out_of_window, 0) << "times of GPUs are not on the host's clock";
  EXPECT_LE(trace.quality.untagged * 1000, static_cast<std::int64_t>(trace.events.size()));
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const auto count = [&](EventKind kind) {
      return std::count_if(trace.events.begin(), trace.events.end(),
                           [&](const Event& event) { return event.device == static_cast<int>(d) && event.kind == kind; });
    };
    for (const EventKind kind : {EventKind::forward, EventKind::backward, EventKind::optimizer})
      EXPECT_GT(count(kind), 0) << devices[d] << " " << to_string(kind);
  }
  std::set<int> layers;
  for (const Tag& tag : trace.tags) layers.insert(tag.layer);
  for (int layer = 0; layer < 6; ++layer) EXPECT_TRUE(layers.contains(layer)) << layer;
  for (const profiler::StepBreakdown& step : profiler::break_down(trace).steps)
    for (const profiler::DeviceBreakdown& device : step.devices) {
      EXPECT_GT(device.compute, Nanoseconds{0});
      EXPECT_EQ(device.compute + device.copy + device.overlap + device.idle, device.window);
      EXPECT_EQ(device.causes.total(), device.idle);
    }
}

/// Whether work of one device waited for a recorded event of another.
bool waits_across_devices(const Trace& trace) {
  return std::any_of(trace.edges.begin(), trace.edges.end(), [&](const Edge& edge) {
    return edge.kind == EdgeKind::event_wait &&
           trace.events.at(as_index(edge.producer)).device != trace.events.at(as_index(edge.consumer)).device;
  });
}

TEST_F(GpuRecord, OfOneGpuTagsEveryKernel) {
  const std::vector<std::string> devices{"cuda:0"};
  expect_sound(recorded(devices), devices);
}

TEST_F(GpuRecord, TellsPartsOfAGpuApart) {
  const std::vector<std::string> devices{"cuda:0/1of2", "cuda:0/2of2"};
  const Trace trace = recorded(devices);
  expect_sound(trace, devices);
  EXPECT_TRUE(waits_across_devices(trace)) << "the contexts of CUPTI's records of waits are not those of the streams";
}

TEST_F(GpuRecord, OfACpuAndAGpuIsOneTrace) {
  const std::vector<std::string> devices{core_names(1).at(0), "cuda:0"};
  const Trace trace = recorded(devices);
  expect_sound(trace, devices);
  const bool joined = std::any_of(trace.edges.begin(), trace.edges.end(), [&](const Edge& edge) {
    return trace.events.at(as_index(edge.producer)).device != trace.events.at(as_index(edge.consumer)).device;
  });
  EXPECT_TRUE(joined);
}

}  // namespace
}  // namespace mptune::testing
