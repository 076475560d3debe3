#include "profiler/base/index.h"
#include "profiler/trace/collect/cupti_collector.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/trace/collect/cupti_api.h"
#include "profiler/trace/collect/cupti_buffers.h"
#include "tests/profiler/trace/collect/cupti/trace_checks.h"
#include "tests/support/error_of.h"

namespace mptune::testing {
using namespace profiler;
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A fake driver that records its calls.
struct FakeDriver {
  std::string other_tool;
  int refused_kind = -1;
  std::size_t dropped = 0;
  HandBuffer work;                                                  // delivered at the next flush
  HandBuffer late;                                                  // what other threads do between that flush and the end of the recording
  std::chrono::nanoseconds clock_ahead{1'700'000'000'000'000'000};  // of the host's
  bool has_clock = true;

  bool subscribed = false;
  std::vector<int> enabled;
  std::vector<int> dumped;
  std::vector<std::string> ending;  // calls since the first flush
  std::vector<std::uint64_t> pushed;
};
FakeDriver* driver = nullptr;

Nanoseconds host_time() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

std::uint64_t driver_time() {
  return static_cast<std::uint64_t>((host_time() + driver->clock_ahead).count());
}

/// What the process registered with CUPTI.
struct Registered {
  int callbacks = 0;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
};
Registered registered;

CUptiResult subscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*, CUpti_SubscriberParams* params) {
  EXPECT_STREQ(params->subscriberName, "mptune");
  if (!driver->other_tool.empty()) {
    std::strncpy(params->oldSubscriberName, driver->other_tool.c_str(), params->oldSubscriberSize);
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  driver->subscribed = true;
  return CUPTI_SUCCESS;
}

CUptiResult enable(CUpti_ActivityKind kind) {
  EXPECT_TRUE(driver->subscribed) << "no Activity call before the subscription";
  if (kind == driver->refused_kind) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  driver->enabled.push_back(kind);
  return CUPTI_SUCCESS;
}

CUptiResult enable_and_dump(CUpti_ActivityKind kind) {
  driver->dumped.push_back(kind);
  return enable(kind);
}

void note(const std::string& call) {
  if (driver->ending.empty() || driver->ending.back() != call) driver->ending.push_back(call);
}

CUptiResult disable(CUpti_ActivityKind kind) {
  note("disable");
  std::erase(driver->enabled, kind);
  if (driver->enabled.empty()) driver->work = std::exchange(driver->late, {});
  return CUPTI_SUCCESS;
}

CUptiResult flush(std::uint32_t flag) {
  note(flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED ? "flush all" : "flush");
  const std::span<std::byte> bytes = driver->work.bytes();
  if (bytes.empty()) return CUPTI_SUCCESS;
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0, records = 99;
  registered.request(&buffer, &size, &records);
  EXPECT_EQ(records, 0U);
  EXPECT_GE(size, bytes.size());
  EXPECT_TRUE(std::all_of(buffer, buffer + size, [](std::uint8_t byte) { return byte == 0; }));
  std::memcpy(buffer, bytes.data(), bytes.size());
  registered.complete(nullptr, 0, buffer, size, bytes.size());
  driver->work = {};
  return CUPTI_SUCCESS;
}

/// The real library with the calls replaced that need a driver.
profiler::CuptiApi fake_api() {
  profiler::CuptiApi api = profiler::cupti_api();
  api.cuptiSubscribe_v2 = subscribe;
  api.cuptiUnsubscribe = [](CUpti_SubscriberHandle) {
    note("unsubscribe");
    driver->subscribed = false;
    return CUPTI_SUCCESS;
  };
  api.cuptiSetThreadIdType = [](CUpti_ActivityThreadIdType) { return CUPTI_SUCCESS; };
  api.cuptiActivitySetAttribute = [](CUpti_ActivityAttribute, std::size_t*, void*) { return CUPTI_SUCCESS; };
  api.cuptiGetTimestamp = [](std::uint64_t* time) {
    *time = driver_time();
    return driver->has_clock ? CUPTI_SUCCESS : CUPTI_ERROR_UNKNOWN;
  };
  api.cuptiActivityRegisterCallbacks = [](CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
    registered.request = request;
    registered.complete = complete;
    ++registered.callbacks;
    return CUPTI_SUCCESS;
  };
  api.cuptiActivityEnable = enable;
  api.cuptiActivityEnableAndDump = enable_and_dump;
  api.cuptiActivityDisable = disable;
  api.cuptiActivityEnableAllSyncRecords = [](std::uint8_t) { return CUPTI_SUCCESS; };
  api.cuptiActivityEnableRuntimeApi = [](CUpti_CallbackId, std::uint8_t) { return CUPTI_SUCCESS; };
  api.cuptiActivityEnableDriverApi = [](CUpti_CallbackId, std::uint8_t) { return CUPTI_SUCCESS; };
  api.cuptiActivityFlushAll = flush;
  api.cuptiActivityGetNumDroppedRecords = [](CUcontext, std::uint32_t, std::size_t* dropped) {
    note("count");
    *dropped = driver->dropped;
    return CUPTI_SUCCESS;
  };
  api.cuptiActivityPushExternalCorrelationId = [](CUpti_ExternalCorrelationKind, std::uint64_t id) {
    driver->pushed.push_back(id);
    return CUPTI_SUCCESS;
  };
  api.cuptiActivityPopExternalCorrelationId = [](CUpti_ExternalCorrelationKind, std::uint64_t* last) {
    *last = driver->pushed.back();
    driver->pushed.pop_back();
    return CUPTI_SUCCESS;
  };
  return api;
}

class CuptiCollectorTest : public ::testing::Test {
 protected:
  CuptiCollectorTest() { driver = &fake_; }
  ~CuptiCollectorTest() override { driver = nullptr; }

  static constexpr Nanoseconds kSlack = std::chrono::microseconds(50);  // of reading two clocks at one moment
  FakeDriver fake_;
  inline static const profiler::CuptiApi api_ = fake_api();
};

TEST_F(CuptiCollectorTest, RecordsFromStartToStop) {
  profiler::CuptiCollector collector({{"cuda:0", "a GPU", 132, 0}}, &api_);
  collector.start();
  EXPECT_FALSE(fake_.enabled.empty());
  const std::uint64_t id = collector.tag({0, 1, 2, 3, 0}, EventKind::forward);
  EXPECT_EQ(collector.tag({0, 1, 2, 3, 0}, EventKind::forward), id);
  EXPECT_NE(collector.tag({0, 1, 2, 3, 0}, EventKind::backward), id);
  const std::uint64_t time = driver_time();
  fake_.work.add(launch(time, 1)).add(external(1, id)).add(kernel({time + 10, time + 30, 1}, "k"));
  fake_.dropped = 3;
  const Trace trace = collector.stop();
  ASSERT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.events[0].kind, EventKind::forward);
  EXPECT_GE(trace.events[0].start.count(), 10) << "time 0 is the start of the recording";
  EXPECT_EQ(trace.tags.at(as_index(trace.events[0].tag)), (Tag{0, 1, 2, 3, 0}));
  EXPECT_EQ(trace.quality, (TraceQuality{.dropped = 3}));
  EXPECT_GT(trace.started_utc_ns, 0);
  EXPECT_TRUE(fake_.enabled.empty());
  EXPECT_FALSE(fake_.subscribed);
}

TEST_F(CuptiCollectorTest, TimesAreOnTheHostsClock) {
  profiler::CuptiCollector collector({}, &api_);
  collector.start();
  const Nanoseconds before = host_time();
  const std::uint64_t time = driver_time();
  const Nanoseconds after = host_time();
  fake_.work.add(kernel({time, time + 30, 1}, "k"));
  const Trace trace = collector.stop();
  ASSERT_EQ(trace.events.size(), 1U);
  EXPECT_GE(collector.started() + trace.events[0].start, before - kSlack);
  EXPECT_LE(collector.started() + trace.events[0].start, after + kSlack);
}

TEST_F(CuptiCollectorTest, SettingAClockDropsAllEvents) {
  for (const auto& [step, unreliable] : {std::pair{std::chrono::microseconds(10), 0}, {std::chrono::microseconds(-300), 2}}) {
    profiler::CuptiCollector collector({}, &api_);
    collector.start();
    const std::uint64_t time = driver_time();
    fake_.work.add(kernel({time, time + 30, 1}, "k")).add(kernel({time + 40, time + 70, 2}, "k"));
    fake_.clock_ahead += step;
    const Trace trace = collector.stop();
    EXPECT_EQ(trace.events.size(), 2U);
    EXPECT_EQ(trace.quality.dropped, unreliable);
  }
}

TEST_F(CuptiCollectorTest, WithoutAClockThereIsNoRecording) {
  fake_.has_clock = false;
  profiler::CuptiCollector collector({}, &api_);
  EXPECT_THAT(error_of([&] { collector.start(); }).problem(), HasSubstr("clock"));
  EXPECT_FALSE(fake_.subscribed);
  fake_.has_clock = true;
  collector.start();
  const std::uint64_t time = driver_time();
  fake_.work.add(kernel({time, time + 30, 1}, "k"));
  fake_.has_clock = false;
  EXPECT_EQ(collector.stop().quality.dropped, 1) << "whether it moved is not known";
}

TEST_F(CuptiCollectorTest, TimesOfAnotherClockAreLost) {
  profiler::CuptiCollector collector({}, &api_);
  collector.start();
  const std::uint64_t time = driver_time();
  fake_.work.add(kernel({time, time + 30, 1}, "k"));
  for (const std::uint64_t other : {static_cast<std::uint64_t>(host_time().count()), time + 100'000'000'000})
    fake_.work.add(kernel({other, other + 30, 2}, "k"));
  const Trace trace = collector.stop();
  EXPECT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.quality.dropped, 2);
}

TEST_F(CuptiCollectorTest, LateRecordsOfOtherThreadsAreNotInTheNextRecording) {
  profiler::CuptiCollector collector({}, &api_);
  collector.start();
  const std::uint64_t time = driver_time();
  fake_.work.add(kernel({time, time + 30, 1}, "k"));
  fake_.late.add(kernel({time + 40, time + 50, 2}, "late"));
  EXPECT_EQ(collector.stop().events.size(), 2U);
  EXPECT_THAT(fake_.ending, ElementsAre("flush", "disable", "flush all", "count", "unsubscribe"));
  collector.start();
  EXPECT_TRUE(collector.stop().events.empty());
}

TEST_F(CuptiCollectorTest, DevicesAreAskedForOnlyWhereCudaRuns) {
  for (const auto& [attach, dumped] :
       {std::pair{profiler::CuptiCollector::Attach::late, 1U}, {profiler::CuptiCollector::Attach::before_cuda, 0U}}) {
    fake_.dumped.clear();
    profiler::CuptiCollector collector({}, &api_, attach);
    collector.start();
    EXPECT_EQ(std::ranges::count(fake_.enabled, CUPTI_ACTIVITY_KIND_DEVICE), 1);
    EXPECT_EQ(fake_.dumped.size(), dumped);
    (void)collector.stop();
    EXPECT_TRUE(fake_.enabled.empty());
  }
}

TEST_F(CuptiCollectorTest, RegistersItsBuffersForEachRecording) {
  profiler::CuptiCollector collector({}, &api_);
  const int before = registered.callbacks;
  for (int i = 0; i < 3; ++i) {
    collector.start();
    const std::uint64_t time = driver_time();
    for (int k = 0; k <= i; ++k) fake_.work.add(kernel({time, time + 5, 1}, "k"));
    EXPECT_EQ(collector.stop().events.size(), as_index(i) + 1) << "nothing of the recording before";
  }
  EXPECT_EQ(registered.callbacks, before + 3);
}

TEST_F(CuptiCollectorTest, NamesTheToolThatAlreadyRecords) {
  fake_.other_tool = "CUPTI for Nsight Systems";
  const int callbacks = registered.callbacks;
  profiler::CuptiCollector collector({}, &api_);
  const Error error = error_of([&] { collector.start(); });
  EXPECT_EQ(error.where(), "CUPTI for Nsight Systems");
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_THAT(error.problem(), HasSubstr("another tool"));
  EXPECT_TRUE(fake_.enabled.empty());
  EXPECT_FALSE(collector.push(1));
  EXPECT_EQ(registered.callbacks, callbacks) << "its buffers would be stolen";
}

TEST_F(CuptiCollectorTest, DisablesEverythingIfAKindIsRefused) {
  fake_.refused_kind = CUPTI_ACTIVITY_KIND_MARKER;
  profiler::CuptiCollector collector({}, &api_);
  EXPECT_THAT(error_of([&] { collector.start(); }).problem(), HasSubstr("INSUFFICIENT_PRIVILEGES"));
  EXPECT_TRUE(fake_.enabled.empty());
  EXPECT_FALSE(fake_.subscribed);
  EXPECT_FALSE(collector.push(1));
  fake_.refused_kind = -1;
  collector.start();
  EXPECT_TRUE(collector.stop().events.empty());
}

TEST_F(CuptiCollectorTest, TheDestructorEndsTheRecording) {
  {
    profiler::CuptiCollector collector({}, &api_);
    collector.start();
    fake_.work.add(kernel({1, 2, 1}, "k"));
  }
  EXPECT_FALSE(fake_.subscribed);
  profiler::CuptiCollector next({}, &api_);
  next.start();
  EXPECT_TRUE(next.stop().events.empty());
}

TEST_F(CuptiCollectorTest, TagsReachCuptiOnlyWhileRecording) {
  profiler::CuptiCollector collector({}, &api_);
  EXPECT_FALSE(collector.push(1));
  const auto before = std::chrono::steady_clock::now().time_since_epoch();
  collector.start();
  EXPECT_GE(collector.started(), before);
  EXPECT_LE(collector.started(), std::chrono::steady_clock::now().time_since_epoch());
  EXPECT_TRUE(collector.push(41));
  EXPECT_TRUE(collector.push(42));
  EXPECT_THAT(fake_.pushed, ElementsAre(41, 42));
  collector.pop();
  const Trace trace = collector.stop();
  collector.pop();
  EXPECT_TRUE(fake_.pushed.empty()) << "what was pushed while recording goes, also afterwards";
  EXPECT_FALSE(collector.push(1));
}

TEST_F(CuptiCollectorTest, TheDevicesThatAreNamedComeFirst) {
  profiler::CuptiCollector collector({{"cuda:0/1of2", "half a GPU", 66, 0}, {"cuda:1", "a GPU", 132, 0}}, &api_);
  collector.start();
  const std::uint64_t time = driver_time();
  fake_.work.add(copy({time, time + 5, 1, 0, 5, 9}, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, 8)).add(kernel({time, time + 5, 2, 1}, "k"));
  const Trace trace = collector.stop();
  ASSERT_EQ(trace.devices.size(), 3U);
  EXPECT_EQ(trace.devices[1], (TraceDevice{"cuda:1", "a GPU", 132, 0}));
  EXPECT_EQ(event_named(trace, "k").device, 1);
  EXPECT_EQ(trace.devices[2].name, "cuda:0") << "CUPTI does not know parts of a GPU";
  EXPECT_EQ(event_named(trace, "copy within device").device, 2);
}

TEST(CuptiWithoutDriver, IsAnErrorThatNamesTheDriver) {
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) {
    GTEST_SKIP() << "this machine has a CUDA driver";
  }
  profiler::CuptiCollector collector({});
  const Error error = error_of([&] { collector.start(); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_THAT(error.problem(), HasSubstr("no CUDA driver"));
  EXPECT_THAT(error.remedy(), HasSubstr("driver"));
}

TEST(CuptiWithoutDriver, RealSubscriptionIsRefusedWithAReason) {
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) {
    GTEST_SKIP() << "this machine has a CUDA driver";
  }
  profiler::CuptiCollector collector({}, &profiler::cupti_api());
  const Error error = error_of([&] { collector.start(); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_THAT(error.problem(), HasSubstr("CUPTI_ERROR_UNKNOWN"));
}

TEST(CuptiBuffers, HandsOutZeroedBuffersAndTakesThemBack) {
  profiler::CuptiBuffers buffers;
  buffers.prepare();
  for (int round = 0; round < 2; ++round) {
    std::byte* buffer = buffers.take();
    ASSERT_NE(buffer, nullptr);
    EXPECT_TRUE(std::all_of(buffer, buffer + profiler::CuptiBuffers::kBytes, [](std::byte byte) { return byte == std::byte{0}; }));
    std::fill_n(buffer, 100, std::byte{7});
    buffers.give(buffer, 100);
    std::size_t seen = 0;
    buffers.drain([&](std::span<std::byte> bytes) { seen += bytes.size(); });
    EXPECT_EQ(seen, 100U);
  }
}

TEST(CuptiBuffers, ReturnsNullWhenAllAreInUse) {
  profiler::CuptiBuffers buffers;
  std::vector<std::byte*> taken;
  for (std::size_t i = 0; i < profiler::CuptiBuffers::kCount; ++i) taken.push_back(buffers.take());
  EXPECT_EQ(std::count(taken.begin(), taken.end(), nullptr), 0);
  EXPECT_EQ(buffers.take(), nullptr);
  buffers.give(taken[17], 1);
  EXPECT_EQ(buffers.take(), nullptr) << "full, but not drained";
  buffers.drain([](std::span<std::byte>) {});
  EXPECT_EQ(buffers.take(), taken[17]);
}

TEST(CuptiBuffers, ThreadsNeverShareOne) {
  profiler::CuptiBuffers buffers;
  std::vector<std::thread> threads;
  std::atomic<int> taken = 0;
  for (std::byte mark{1}; mark < std::byte{5}; mark = static_cast<std::byte>(static_cast<int>(mark) + 1)) {
    threads.emplace_back([&buffers, &taken, mark] {
      while (std::byte* buffer = buffers.take()) {
        EXPECT_EQ(buffer[0], std::byte{0});
        buffer[0] = mark;
        ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, static_cast<int>(profiler::CuptiBuffers::kCount));
}

}  // namespace
}  // namespace mptune::testing
