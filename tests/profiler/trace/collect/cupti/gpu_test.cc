#include <cuda.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "profiler/base/index.h"
#include "profiler/trace/collect/cupti_collector.h"
#include "profiler/trace/store/store.h"
#include "tests/profiler/trace/collect/cupti/trace_checks.h"
#include "tests/support/files.h"

namespace mptune::testing {
using namespace profiler;
namespace {

#define NAME_OF_EXPANDED(name) #name
#define NAME_OF(name) NAME_OF_EXPANDED(name)

/// The first device's primary context with two streams; all through the driver, which is opened at run time.
class Gpu {
 public:
  Gpu() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
    int count = 0;
    if (library_ == nullptr || call<decltype(&cuInit)>(NAME_OF(cuInit), 0U) != CUDA_SUCCESS) return;
    if (call<decltype(&cuDeviceGetCount)>(NAME_OF(cuDeviceGetCount), &count) != CUDA_SUCCESS || count == 0) return;
    check(call<decltype(&cuDevicePrimaryCtxRetain)>(NAME_OF(cuDevicePrimaryCtxRetain), &context_, 0));
    check(call<decltype(&cuCtxSetCurrent)>(NAME_OF(cuCtxSetCurrent), context_));
    for (CUstream& stream : streams_) check(call<decltype(&cuStreamCreate)>(NAME_OF(cuStreamCreate), &stream, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : events_) check(call<decltype(&cuEventCreate)>(NAME_OF(cuEventCreate), &event, CU_EVENT_DISABLE_TIMING));
    check(call<decltype(&cuMemAlloc)>(NAME_OF(cuMemAlloc), &memory_, 2 * kBytes));
    found = true;
  }

  /// A memset on the first stream, a copy on the second that waits for it. The next memset waits for the copy, which reads what it
  /// overwrites.
  void work() {
    if (worked_) check(call<decltype(&cuStreamWaitEvent)>(NAME_OF(cuStreamWaitEvent), streams_[0], events_[1], 0U));
    worked_ = true;
    check(call<decltype(&cuMemsetD8Async)>(NAME_OF(cuMemsetD8Async), memory_, std::uint8_t{1}, kBytes, streams_[0]));
    check(call<decltype(&cuEventRecord)>(NAME_OF(cuEventRecord), events_[0], streams_[0]));
    check(call<decltype(&cuStreamWaitEvent)>(NAME_OF(cuStreamWaitEvent), streams_[1], events_[0], 0U));
    check(call<decltype(&cuMemcpyDtoDAsync)>(NAME_OF(cuMemcpyDtoDAsync), memory_ + kBytes, memory_, kBytes, streams_[1]));
    check(call<decltype(&cuEventRecord)>(NAME_OF(cuEventRecord), events_[1], streams_[1]));
  }
  void synchronize() { check(call<decltype(&cuCtxSynchronize)>(NAME_OF(cuCtxSynchronize))); }

  static constexpr std::size_t kBytes = 1 << 26;
  bool found = false;

 private:
  template <typename Function, typename... Arguments>
  CUresult call(const char* name, Arguments... arguments) {
    return reinterpret_cast<Function>(dlsym(library_, name))(arguments...);
  }
  static void check(CUresult result) { ASSERT_EQ(result, CUDA_SUCCESS); }

  void* library_;
  CUcontext context_ = nullptr;
  std::array<CUstream, 2> streams_{};
  std::array<CUevent, 2> events_{};
  bool worked_ = false;
  CUdeviceptr memory_ = 0;
};

#if __has_include(<nvtx3/nvToolsExt.h>)
constexpr bool kHasNvtx = true;
struct Range {
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
};
#else
constexpr bool kHasNvtx = false;
struct Range {
  explicit Range(const char*) {}
};
#endif

/// The GPU's times are on the host's clock.
void expect_within(const Trace& trace, Nanoseconds length) {
  constexpr Nanoseconds kNear = std::chrono::milliseconds(1);
  for (const Event& event : trace.events) {
    EXPECT_GE(event.start, -kNear) << name_of(trace, event);
    EXPECT_LE(event.end() - kNear, length) << name_of(trace, event);
  }
}

/// `length`: of the recording.
void expect_work(const Trace& trace, int rounds, Nanoseconds length = Nanoseconds::max()) {
  // The recorder's own work may lie beside it.
  const auto is_work = [](const Event& event) { return event.kind == EventKind::memset || event.kind == EventKind::copy; };
  EXPECT_EQ(std::ranges::count_if(trace.events, is_work), 2 * rounds);
  EXPECT_EQ(trace.quality.dropped + trace.quality.zero_stamped + trace.quality.unmatched, 0) << ::testing::PrintToString(trace.quality);
  expect_within(trace, length);
  int waits = 0;
  for (const Edge& edge : trace.edges) {
    if (edge.kind != EdgeKind::event_wait) continue;
    const Event& producer = trace.events.at(as_index(edge.producer));
    const Event& consumer = trace.events.at(as_index(edge.consumer));
    waits += producer.kind == EventKind::memset && consumer.kind == EventKind::copy ? 1 : 0;
    EXPECT_LE(producer.end(), consumer.start);
  }
  EXPECT_EQ(waits, rounds);
  for (const Copy& copy : trace.copies) EXPECT_EQ(copy.bytes, Gpu::kBytes);
}

// The two tests run in processes of their own, as ctest starts them: CUPTI stays with a process for good.
TEST(GpuCuptiCollector, RecordsTagsAndWaits) {
  Gpu gpu;
  if (!gpu.found) {
    GTEST_SKIP() << "no CUDA device";
  }
  profiler::CuptiCollector collector({{"cuda:0", "", 0, 0}});
  for (int recording = 0; recording < 2; ++recording) {
    collector.start();
    ASSERT_TRUE(collector.push(collector.tag({recording, 0, 0, -1, -1}, EventKind::forward)));
    for (int round = 0; round < 10; ++round) gpu.work();
    collector.pop();
    gpu.synchronize();
    const Trace trace = collector.stop();
    expect_work(trace, 10, std::chrono::steady_clock::now().time_since_epoch() - collector.started());
    EXPECT_EQ(trace.quality, TraceQuality{});
    ASSERT_EQ(trace.tags.size(), 1U);
    EXPECT_EQ(trace.tags[0].step, recording);
  }
}

TEST(GpuInjection, WritesTheRecordingOfAProgramThatKnowsNothingOfIt) {
  const char* path = std::getenv("MPTUNE_RECORD_PATH");
  if (path != nullptr) {
    // The program: this test again, started by the branch below.
    const Range outer("outer");
    Gpu gpu;
    for (int round = 0; round < 10; ++round) {
      const Range range("round");
      gpu.work();
    }
    return;  // while the GPU still works
  }
  if (!Gpu().found) {
    GTEST_SKIP() << "no CUDA device";
  }
  const TestFolder folder("injection");
  const std::string injection = beside_program("libmptune_injection.so");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "CUDA_INJECTION64_PATH='" + injection + "' NVTX_INJECTION64_PATH='" + injection + "' MPTUNE_RECORD_PATH='" +
                              folder.path("trace") + "' '" + program + "' --gtest_filter=GpuInjection.*";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_THAT(files[0].filename().string(), ::testing::MatchesRegex("trace\\.[0-9]+\\.sqlite"));
  const Trace trace = profiler::read_recording(files[0].string()).trace.value();
  expect_work(trace, 10);
  const auto ranges = [&](const std::string& name) {
    return std::count_if(trace.ranges.begin(), trace.ranges.end(),
                         [&](const Event& range) { return trace.names.at(as_index(range.name)) == name; });
  };
  EXPECT_EQ(ranges("outer"), 0) << "recording starts when CUDA does, and this was open by then";
  EXPECT_EQ(ranges("round"), kHasNvtx ? 10 : 0);
}

}  // namespace
}  // namespace mptune::testing
