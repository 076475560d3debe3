#include "profiler/device/device.h"
#include "profiler/base/index.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <thread>

#include "profiler/base/error.h"
#include "profiler/device/copy_lane.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/thread_count.h"

namespace mptune::testing {
using namespace profiler;
namespace {

std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<unsigned>(core), &set)) cores.push_back(core);
  return cores;
}

std::shared_ptr<Device> cpu(const std::vector<int>& cores, const std::string& name = "cpu:test") {
  return make_device({DeviceSpec::Kind::cpu, name, cores, 0});
}

int missing_core() {
  return available_cores().back() + 1;
}

TEST(DeviceWorker, IsPinnedAndUsesAsManyThreadsAsCores) {
  const std::vector<int> cores = available_cores();
  const std::vector<int> here = affinity();
  for (std::size_t count = 1; count <= std::min<std::size_t>(cores.size(), 2); ++count) {
    const std::vector<int> wanted(cores.end() - static_cast<std::ptrdiff_t>(count), cores.end());
    profiler::DeviceWorker worker(cpu(wanted));
    for (int repeat = 0; repeat < 2; ++repeat)
      worker.run([&] {
        EXPECT_EQ(affinity(), wanted);
        EXPECT_EQ(at::get_num_threads(), static_cast<int>(count));
      });
  }
  EXPECT_EQ(affinity(), here) << "the owner's thread was moved";
}

TEST(DeviceWorker, UsesAsManyThreadsAsItIsTold) {
  const std::vector<int> cores = available_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  profiler::DeviceWorker worker(cpu({cores[0], cores[1]}));
  const auto expect_threads = [&](int count) {
    worker.run([&] {
      EXPECT_EQ(at::get_num_threads(), count);
      EXPECT_EQ(affinity(), (std::vector<int>{cores[0], cores[1]}));
    });
  };
  for (const int count : {1, 2, 1}) {
    worker.use_threads(count);
    std::thread([] { at::set_num_threads(3); }).join();
    expect_threads(count);
  }
  worker.use_threads(5);
  expect_threads(2);
  at::set_num_threads(static_cast<int>(cores.size()));
}

// A thread's first question or parallel region takes over what the process set last.
TEST(DeviceWorker, KeepsItsThreadCountWhateverOtherThreadsSet) {
  const int before = at::get_num_threads();
  for (const auto& device : {cpu({available_cores()[0]}), make_device({DeviceSpec::Kind::sleep, "sleep:0", {}, 0})}) {
    profiler::DeviceWorker worker(device);
    std::thread([] { at::set_num_threads(3); }).join();
    worker.run([] {
      (void)at::ones({1 << 20}).add_(1);
      EXPECT_EQ(at::get_num_threads(), 1);
    });
  }
  at::set_num_threads(before);
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

/// Whether this process soon has `threads` threads: one that was joined leaves the list a moment later.
bool falls_to(std::ptrdiff_t threads) {
  for (int i = 0; i < 1000 && threads_of_this_process() > threads; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return threads_of_this_process() == threads;
}

// Threads kept by the owner would count as users of cores, and OpenMP's threads of the device would sleep between parallel regions.
TEST(DeviceWorker, EndsItsOwnersIdleParallelThreads) {
  const std::vector<int> cores = available_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  profiler::DeviceWorker worker(cpu({cores[0], cores[1]}));
  std::thread([&] {
    fix_thread_count(2);
    const std::ptrdiff_t before = threads_of_this_process();
    (void)at::ones({1 << 20}).add_(1);
    EXPECT_EQ(threads_of_this_process(), before + 1);
    worker.run([] {});
    EXPECT_TRUE(falls_to(before));
  }).join();
}

// More workers than the cores have room for would keep each other's threads from spinning.
TEST(DeviceWorker, KeepsParallelThreadsOnlyWhileAllHaveACore) {
  const std::vector<int> cores = available_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  const auto work = [&] { (void)at::ones({static_cast<std::int64_t>(cores.size()) << 16}).add_(1); };
  profiler::DeviceWorker worker(cpu(cores));
  const std::ptrdiff_t alone = threads_of_this_process();
  worker.run(work);
  EXPECT_EQ(threads_of_this_process(), alone + static_cast<std::ptrdiff_t>(cores.size()) - 1);
  profiler::DeviceWorker other(cpu(cores));
  for (profiler::DeviceWorker* each : {&other, &worker}) each->run(work);
  EXPECT_TRUE(falls_to(alone + 1));
}

TEST(DeviceWorker, ChargesItsDevice) {
  const auto device = cpu({available_cores()[0]});
  at::Tensor tensor;
  {
    profiler::DeviceWorker worker(device);
    worker.run([&] { tensor = at::zeros({250}); });
    EXPECT_EQ(device->current_bytes(), 1000);
    device->set_memory_cap(1500);
    EXPECT_THROW(worker.run([] { (void)at::zeros({250}); }), c10::OutOfMemoryError);
    EXPECT_EQ(device->refused_bytes(), 1000);
  }
  tensor.reset();
  EXPECT_EQ(device->current_bytes(), 0);
  EXPECT_EQ(device->description().memory_bytes, 1500);
}

TEST(DeviceWorker, RethrowsAnExceptionOnceAndContinues) {
  profiler::DeviceWorker worker(cpu({available_cores()[0]}));
  for (int repeat = 0; repeat < 3; ++repeat) {
    worker.post([] { throw std::runtime_error("on purpose"); });
    const auto error = worker.wait();
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), std::runtime_error);
    EXPECT_FALSE(worker.wait()) << "the exception came twice";
    int done = 0;
    worker.run([&] { ++done; });
    EXPECT_EQ(done, 1);
  }
}

TEST(DeviceWorker, UnavailableCoresAreAnEnvironmentError) {
  for (const std::vector<int>& cores : {std::vector<int>{missing_core()}, std::vector<int>{available_cores()[0], missing_core()}}) {
    try {
      const profiler::DeviceWorker worker(cpu(cores, "cpu:missing"));
      FAIL() << "a device with a core that is not there";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::environment);
      EXPECT_EQ(error.where(), "cpu:missing");
    }
  }
}

/// A lane between two devices, and what arrived on it.
struct LaneBench {
  explicit LaneBench(const LinkThrottle& throttle = {})
      : source(cpu({available_cores().front()}, "source")),
        destination(cpu({available_cores().back()}, "destination")),
        lane(source, destination, throttle) {}

  void copy(std::vector<at::Tensor> tensors) {
    lane.copy(
        std::move(tensors),
        [this](profiler::CopyLane::Arrival arrival) {
          wait_for(arrival.there);
          arrived.push_back(std::move(arrival.tensors));
          times.emplace_back(arrival.began, arrival.ended);
        },
        [this](std::exception_ptr error) { errors.push_back(std::move(error)); });
  }
  at::Tensor copy_one(const at::Tensor& tensor) {
    copy({tensor});
    lane.drain();
    return arrived.empty() ? at::Tensor() : std::exchange(arrived, {})[0][0];
  }

  std::shared_ptr<Device> source, destination;
  std::vector<std::vector<at::Tensor>> arrived;
  std::vector<std::pair<profiler::SteadyClock::time_point, profiler::SteadyClock::time_point>> times;
  std::vector<std::exception_ptr> errors;
  profiler::CopyLane lane;
};

TEST(CopyLane, CopiesContentsInOrder) {
  LaneBench bench;
  std::vector<std::vector<at::Tensor>> sent;
  for (int i = 0; i < 30; ++i) {
    const at::Tensor numbers = at::arange(i, i + 12, at::kFloat).view({3, 4});
    sent.push_back({numbers, numbers.t(), at::arange(i % 4, at::kLong), numbers > 5});
    bench.copy(sent.back());
  }
  bench.lane.drain();
  ASSERT_EQ(bench.arrived.size(), sent.size());
  EXPECT_TRUE(bench.errors.empty());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(bench.arrived[i].size(), sent[i].size());
    for (std::size_t j = 0; j < sent[i].size(); ++j) {
      EXPECT_TRUE(at::equal(bench.arrived[i][j], sent[i][j]));
      EXPECT_EQ(bench.arrived[i][j].scalar_type(), sent[i][j].scalar_type());
      if (sent[i][j].numel() > 0) {
        EXPECT_NE(bench.arrived[i][j].data_ptr(), sent[i][j].data_ptr());
      }
    }
    EXPECT_LE(bench.times[i].first, bench.times[i].second);
    if (i > 0) {
      EXPECT_GE(bench.times[i].first, bench.times[i - 1].second) << "copies of one lane overlap";
    }
  }
}

TEST(CopyLane, KeepsTheOrderOfDimensionsInMemory) {
  LaneBench bench;
  const at::Tensor whole = at::arange(2 * 3 * 4 * 5, at::kFloat).view({2, 3, 4, 5});
  const std::vector<at::Tensor> sent{whole.permute({2, 0, 3, 1}), whole.contiguous(at::MemoryFormat::ChannelsLast),
                                     whole.transpose(0, 1).narrow(3, 1, 2), whole.narrow(0, 1, 1).expand({6, 3, 4, 5}).transpose(1, 2)};
  for (const at::Tensor& tensor : sent) {
    const at::Tensor copy = bench.copy_one(tensor);
    ASSERT_TRUE(copy.defined());
    EXPECT_TRUE(at::equal(copy, tensor));
    EXPECT_TRUE(copy.is_non_overlapping_and_dense());
    EXPECT_FALSE(copy.is_view());
    if (tensor.is_non_overlapping_and_dense()) {
      EXPECT_EQ(copy.strides(), tensor.strides());
    }
  }
  // What can be viewed before can be viewed after.
  const at::Tensor rows = whole.permute({2, 0, 1, 3});
  EXPECT_TRUE(at::equal(bench.copy_one(rows).transpose(0, 1).transpose(1, 2).view({6, 20}), whole.view({6, 20})));
}
TEST(CopyLane, AHostCopyIsFreeAsSoonAsNobodyHoldsIt) {
  LaneBench bench;
  const at::Tensor value = at::ones({100});
  at::Tensor first = bench.copy_one(value);
  EXPECT_EQ(bench.destination->current_bytes(), 400);
  EXPECT_EQ(bench.source->current_bytes(), 0);
  at::Tensor second = bench.copy_one(value * 2);
  EXPECT_EQ(bench.destination->current_bytes(), 2 * 400);
  EXPECT_TRUE(at::equal(first, value)) << "a copy that is held was overwritten";
  at::Tensor view = first.narrow(0, 50, 50);
  first.reset();
  EXPECT_EQ(bench.destination->current_bytes(), 2 * 400) << "a view still refers to it";
  (void)bench.copy_one(value * 3);
  EXPECT_TRUE(at::equal(view, value.narrow(0, 50, 50)));
  view.reset();
  EXPECT_EQ(bench.destination->current_bytes(), 400);
  second.reset();
  EXPECT_EQ(bench.destination->current_bytes(), 0);
}

TEST(CopyLane, OnlyThrottledCopiesHaveAThreadOfTheirOwn) {
  for (const LinkThrottle& throttle : {LinkThrottle{}, LinkThrottle{1e9, 0}}) {
    LaneBench bench(throttle);
    std::thread::id copied_in;
    bench.lane.copy(
        {at::ones({10})}, [&](auto&&...) { copied_in = std::this_thread::get_id(); }, nullptr);
    bench.lane.drain();
    EXPECT_EQ(copied_in == std::this_thread::get_id(), throttle == LinkThrottle{});
  }
}

TEST(CopyLane, FailureIsHandedOverAndTheNextCopyWorks) {
  LaneBench bench;
  bench.destination->set_memory_cap(100);
  bench.copy({at::ones({100})});
  bench.lane.drain();
  ASSERT_EQ(bench.errors.size(), 1U);
  EXPECT_TRUE(bench.arrived.empty());
  EXPECT_THROW(std::rethrow_exception(bench.errors[0]), c10::OutOfMemoryError);
  EXPECT_EQ(bench.destination->refused_bytes(), 400);
  bench.destination->set_memory_cap(0);
  EXPECT_TRUE(at::equal(bench.copy_one(at::ones({100})), at::ones({100})));
}

TEST(CopyLane, AnUnavailableDeviceFailsEveryCopy) {
  profiler::CopyLane lane(cpu({missing_core()}, "cpu:missing"), cpu({missing_core()}, "cpu:missing"), LinkThrottle{1e9, 0});
  int failures = 0;
  for (int i = 0; i < 2; ++i)
    lane.copy(
        {at::ones({1})}, [](auto&&...) { ADD_FAILURE() << "copied"; }, [&](const std::exception_ptr&) { ++failures; });
  lane.drain();
  EXPECT_EQ(failures, 2);
}

TEST(CopyLane, ThrottledIsNeverFasterThanAsked) {
  constexpr int kCopies = 40;
  const LinkThrottle throttle{100e6, 200e-6};
  const at::Tensor value = at::ones({25'000});
  const double asked = throttle.latency_s + static_cast<double>(value.nbytes()) / throttle.bytes_per_second;
  LaneBench bench(throttle);
  (void)bench.copy_one(value);
  bench.times.clear();
  const auto start = profiler::SteadyClock::now();
  for (int i = 0; i < kCopies; ++i) bench.copy({value});
  bench.lane.drain();
  for (int i = 0; i < kCopies; ++i) {
    const double elapsed = std::chrono::duration<double>(bench.times[as_index(i)].second - start).count();
    EXPECT_GE(elapsed, (i + 1) * asked - 1e-9) << "copy " << i;
  }
  const double whole = std::chrono::duration<double>(bench.times.back().second - start).count();
  std::printf("throttled: %.4f of the time asked\n", whole / (kCopies * asked));
}

TEST(SleepUntil, IsNeverEarly) {
  for (const int microseconds : {-100, 0, 5, 50, 500, 2000}) {
    const auto deadline = profiler::SteadyClock::now() + std::chrono::microseconds(microseconds);
    profiler::sleep_until(deadline);
    EXPECT_GE(profiler::SteadyClock::now(), deadline) << microseconds;
  }
}

}  // namespace
}  // namespace mptune::testing
