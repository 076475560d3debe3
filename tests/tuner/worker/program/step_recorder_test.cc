#include "tuner/worker/program/step_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/base/error.h"

namespace mptune::testing {
using namespace tuner;
namespace {

using ::testing::HasSubstr;

/// A GPU that ran one kernel, 50 ns after the recording had started.
class FakeGpus final : public profiler::GpuCollector {
 public:
  explicit FakeGpus(std::vector<TraceDevice> devices, bool refuses = false) : devices_(std::move(devices)), refuses_(refuses) {}

  void start() override {
    if (refuses_) throw Error("another tool records this process already", "Nsight", "end it", ExitCode::environment);
    started_ = std::chrono::steady_clock::now().time_since_epoch();
  }
  Trace stop() override {
    Trace trace;
    trace.devices = devices_;
    trace.names = {"gemm"};
    trace.events = {{Nanoseconds{50}, Nanoseconds{10}}};
    trace.events[0].kind = EventKind::kernel;
    trace.quality = {.dropped = 2, .untagged = 1};
    return trace;
  }
  std::uint64_t tag(const Tag&, EventKind) override { return 1; }
  bool push(std::uint64_t) override { return true; }
  void pop() override {}
  Nanoseconds started() const override { return started_; }

 private:
  std::vector<TraceDevice> devices_;
  bool refuses_;
  Nanoseconds started_{0};
};

const std::vector<TraceDevice> kMixed{{"cpu:0", "", 1, 0}, {"cuda:0", "", 132, 0}};

/// One forward on each device as the host sees it, within one step.
void run_step(tuner::StepRecorder& recorder) {
  const auto start = std::chrono::steady_clock::now();
  const auto end = start + std::chrono::microseconds(1);
  for (int device = 0; device < 2; ++device)
    recorder.host()
        .lane(device, kComputeLane, "t")
        .add(EventKind::forward, recorder.host().name("forward"), {0, device, 0, 0, 0}, start, end);
  recorder.host().add_step(0, start - std::chrono::milliseconds(100), end + std::chrono::milliseconds(100));
}

TEST(StepRecorder, WithoutGpusIsTheHostsRecording) {
  tuner::StepRecorder recorder({kMixed[0], {"cpu:1", "", 1, 0}}, [](auto) -> std::unique_ptr<profiler::GpuCollector> {
    ADD_FAILURE() << "nobody asked for GPUs";
    return nullptr;
  });
  EXPECT_EQ(recorder.gpus(), nullptr);
  recorder.start();
  run_step(recorder);
  const Trace trace = recorder.stop();
  EXPECT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(trace.quality, TraceQuality{});
  EXPECT_EQ(recorder.refusal(), "");
}

TEST(StepRecorder, BothRecordingsBecomeOne) {
  std::vector<TraceDevice> asked;
  tuner::StepRecorder recorder(kMixed, [&](std::vector<TraceDevice> devices) {
    asked = devices;
    return std::make_unique<FakeGpus>(std::move(devices));
  });
  EXPECT_EQ(asked, (std::vector<TraceDevice>{kMixed[1]}));
  recorder.start();
  ASSERT_NE(recorder.gpus(), nullptr);
  const Nanoseconds offset = recorder.gpus()->started() - recorder.host().started();
  run_step(recorder);
  const Trace trace = recorder.stop();
  EXPECT_EQ(trace.devices, kMixed);
  ASSERT_EQ(trace.events.size(), 2U);
  for (const Event& event : trace.events)
    if (event.device == 1) {
      EXPECT_EQ(event.start, offset + Nanoseconds{50}) << "on the host's clock";
    }
  EXPECT_EQ(trace.quality, (TraceQuality{.dropped = 2, .untagged = 1}));
  EXPECT_EQ(recorder.refusal(), "");
}

TEST(StepRecorder, OfARankItHasThatRanksGpus) {
  const std::vector<TraceDevice> all{{"0@cuda:0", "", 132, 0}, {"1@cpu:0", "", 1, 0}, {"1@cuda:1", "", 132, 0}};
  std::vector<TraceDevice> asked;
  tuner::StepRecorder recorder(
      all,
      [&](std::vector<TraceDevice> devices) {
        asked = devices;
        return std::make_unique<FakeGpus>(std::move(devices));
      },
      1);
  EXPECT_EQ(asked, (std::vector<TraceDevice>{{"cuda:1", "", 132, 0}}));
  recorder.start();
  const Nanoseconds started = recorder.gpus()->started();
  const RankGpus gpus = recorder.stop_gpus();
  EXPECT_EQ(gpus.started, started);
  EXPECT_EQ(gpus.trace->devices, asked);
  tuner::StepRecorder without(
      all, [](auto) -> std::unique_ptr<profiler::GpuCollector> { throw std::logic_error("no GPU here"); }, 2);
  EXPECT_FALSE(without.stop_gpus().trace);
}

TEST(StepRecorder, AGpuThatRefusesKeepsNoStepFromRunning) {
  tuner::StepRecorder recorder(kMixed, [](auto devices) { return std::make_unique<FakeGpus>(std::move(devices), true); });
  recorder.start();
  EXPECT_EQ(recorder.gpus(), nullptr);
  EXPECT_EQ(recorder.refusal(), "another tool records this process already: Nsight; end it");
  run_step(recorder);
  const Trace trace = recorder.stop();
  EXPECT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(trace.quality.dropped, 1) << "what the GPU did is not known";
}

TEST(StepRecorder, ABuildWithoutTheRecorderSaysSo) {
  tuner::StepRecorder recorder(kMixed, [](auto) -> std::unique_ptr<profiler::GpuCollector> {
    throw Error("this build has no recorder of GPUs", "CUPTI", "build it", ExitCode::environment);
  });
  recorder.start();
  EXPECT_THAT(recorder.refusal(), HasSubstr("no recorder"));
  run_step(recorder);
  EXPECT_EQ(recorder.stop().events.size(), 2U);
}

}  // namespace
}  // namespace mptune::testing
