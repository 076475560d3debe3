// What devices that run behind their threads ask of buffers and lanes, on a device whose moments the test holds back.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>

#include "profiler/base/index.h"
#include "profiler/device/communication_buffers.h"
#include "profiler/device/copy_lane.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/list/gpu_driver.h"

namespace mptune::testing {
using namespace profiler;
namespace {

class HeldMoment final : public Moment {
 public:
  void reach() {
    {
      const std::lock_guard lock(mutex_);
      reached_ = true;
    }
    changed_.notify_all();
  }
  [[nodiscard]] bool reached() const override {
    const std::lock_guard lock(mutex_);
    return reached_;
  }
  void wait() const override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool reached_ = false;
};

/// Memory of the host, moments of the test.
class BehindDevice final : public Device {
 public:
  [[nodiscard]] const DeviceSpec& spec() const override { return spec_; }
  [[nodiscard]] TraceDevice description() const override { return {}; }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_compute() override { return std::make_unique<ThreadBinding>(); }
  [[nodiscard]] std::unique_ptr<ThreadBinding> bind_copy(Device&) override { return std::make_unique<ThreadBinding>(); }
  [[nodiscard]] at::Tensor empty_like(const at::Tensor& tensor) override {
    ++made;
    return at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  }
  [[nodiscard]] at::Tensor from_host(const at::Tensor& tensor) override { return tensor; }
  void adopt(const at::Tensor&) override {}
  [[nodiscard]] MomentPtr now() override { return current; }
  [[nodiscard]] MomentPtr now_of_caller() override { return nullptr; }
  void after(const MomentPtr& moment) override { wait_for(moment); }
  [[nodiscard]] std::unique_ptr<const Stamp> stamp() override { return nullptr; }
  [[nodiscard]] std::int64_t current_bytes() const override { return 0; }
  [[nodiscard]] std::int64_t peak_bytes() const override { return 0; }
  void reset_peak() override {}
  void set_memory_cap(std::int64_t) override {}
  [[nodiscard]] std::int64_t memory_cap() const override { return 0; }
  [[nodiscard]] std::int64_t refused_bytes() const override { return 0; }
  [[nodiscard]] std::shared_ptr<void> when_short_of_memory(std::function<void()> free) override {
    free_some = std::move(free);
    return nullptr;
  }

  BehindDevice() { current->reach(); }
  std::shared_ptr<HeldMoment> current = std::make_shared<HeldMoment>();
  std::function<void()> free_some;
  int made = 0;

 private:
  DeviceSpec spec_{DeviceSpec::Kind::cpu, "behind", {}, 0};
};

TEST(CommunicationBuffers, MemoryWhoseReadersAreDoneComesFirst) {
  const auto device = std::make_shared<BehindDevice>();
  profiler::CommunicationBuffers buffers(device);
  const at::Tensor like = at::ones({4});
  auto first = buffers.take(like);
  EXPECT_TRUE(reached(first.free)) << "nothing to wait for";
  auto second = buffers.take(like);
  const void* slow = first.tensor.data_ptr();
  const void* done = second.tensor.data_ptr();
  device->current = std::make_shared<HeldMoment>();
  const auto reading = device->current;
  first.tensor.reset();
  device->current = nullptr;
  second.tensor.reset();
  auto third = buffers.take(like);
  EXPECT_EQ(third.tensor.data_ptr(), done);
  EXPECT_EQ(device->made, 2);
  reading->reach();
  EXPECT_EQ(buffers.take(like).tensor.data_ptr(), slow);
}

TEST(CommunicationBuffers, NeverMoreThanTwoWaitForTheirReaders) {
  const auto device = std::make_shared<BehindDevice>();
  profiler::CommunicationBuffers buffers(device);
  const at::Tensor like = at::ones({4});
  std::vector<const void*> data;
  std::vector<std::shared_ptr<HeldMoment>> readers;
  for (int i = 0; i < 6; ++i) {
    device->current = nullptr;
    auto buffer = buffers.take(like);
    if (i >= 2) {
      EXPECT_EQ(buffer.tensor.data_ptr(), data[as_index(i - 2)]) << "the one that has waited longest";
      EXPECT_EQ(buffer.free, readers[as_index(i - 2)]);
    }
    data.push_back(buffer.tensor.data_ptr());
    readers.push_back(device->current = std::make_shared<HeldMoment>());
  }
  EXPECT_EQ(device->made, 2);
}

TEST(CommunicationBuffers, AnotherShapeOrTypeHasItsOwn) {
  const auto device = std::make_shared<BehindDevice>();
  profiler::CommunicationBuffers buffers(device);
  (void)buffers.take(at::ones({4}));
  EXPECT_EQ(buffers.take(at::ones({2, 2})).tensor.sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(buffers.take(at::ones({4}, at::kLong)).tensor.scalar_type(), at::kLong);
  EXPECT_EQ(buffers.take(at::ones({0})).tensor.numel(), 0);
  EXPECT_EQ(device->made, 4);
  (void)buffers.take(at::ones({4}));
  EXPECT_EQ(device->made, 4);
}

TEST(CommunicationBuffers, MemoryOfOldShapesIsFreed) {
  const auto device = make_device(parse_device("cpu:0"));
  profiler::CommunicationBuffers buffers(device);
  constexpr std::int64_t kMiB = 1 << 20;
  std::int64_t most = 0;
  for (std::int64_t length = 1; length <= 40; ++length) {
    const at::Tensor like = at::empty({(1 + length * 7 % 5) * kMiB + length}, at::kByte);
    const auto first = buffers.take(like), second = buffers.take(like);
    most = std::max(most, device->current_bytes());
  }
  EXPECT_LE(most, 2 * (5 * kMiB + 40) + kMiB);
}

TEST(CommunicationBuffers, AreFreedWhereMemoryIsShort) {
  const auto device = make_device(parse_device("cpu:0"));
  profiler::CommunicationBuffers buffers(device);
  device->set_memory_cap(3 << 20);
  (void)buffers.take(at::empty({2 << 20}, at::kByte));
  EXPECT_EQ(device->current_bytes(), 2 << 20) << "kept for the next copy";
  const auto charged = device->charge_thread();
  EXPECT_EQ(at::empty({2 << 20}, at::kByte).nbytes(), std::size_t{2} << 20);
  EXPECT_EQ(device->refused_bytes(), 0);
}

TEST(CommunicationBuffers, WhatIsStillReadIsNotFreed) {
  const auto device = std::make_shared<BehindDevice>();
  profiler::CommunicationBuffers buffers(device);
  const at::Tensor like = at::ones({4});
  {
    const auto first = buffers.take(like), second = buffers.take(like);
    device->current = std::make_shared<HeldMoment>();
  }
  device->free_some();
  EXPECT_FALSE(reached(buffers.take(like).free));
  EXPECT_EQ(device->made, 2) << "those two are used again";
}

TEST(CommunicationBuffers, WhatWasHandedOutOutlivesThem) {
  const auto device = std::make_shared<BehindDevice>();
  at::Tensor tensor;
  {
    profiler::CommunicationBuffers buffers(device);
    tensor = buffers.take(at::ones({1000})).tensor;
    tensor.fill_(7);
  }
  EXPECT_EQ(tensor.sum().item<float>(), 7000);
  tensor.reset();
  EXPECT_EQ(device.use_count(), 1);
}

struct LaneOfMoments {
  std::shared_ptr<BehindDevice> source = std::make_shared<BehindDevice>(), destination = std::make_shared<BehindDevice>();
  std::atomic<int> arrived{0};
  at::Tensor copy;
  profiler::CopyLane lane;

  // Throttled, so that the lane has a thread.
  explicit LaneOfMoments(LinkThrottle throttle = {1e9, 0}) : lane(source, destination, throttle) {}
  LaneOfMoments(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to) : lane(from, to, {}) {}
  std::int64_t send(const at::Tensor& tensor) {
    return lane.copy(
        {tensor},
        [this](profiler::CopyLane::Arrival arrival) {
          copy = arrival.tensors[0];
          ++arrived;
        },
        [](const std::exception_ptr&) { ADD_FAILURE() << "the copy failed"; });
  }
};

TEST(CopyLane, ItsTimeBeginsWhenTheSourceHasComputed) {
  const LinkThrottle throttle{1e9, 0.03};
  LaneOfMoments bench(throttle);
  const auto making = bench.source->current = std::make_shared<HeldMoment>();
  bench.send(at::zeros({8}));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto made = std::chrono::steady_clock::now();
  making->reach();
  bench.lane.drain();
  EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - made).count(), throttle.seconds_for(0));
}

TEST(CopyLane, WithoutAThreadTheCallerWaitsForTheSource) {
  LaneOfMoments bench(LinkThrottle{});
  const auto making = bench.source->current = std::make_shared<HeldMoment>();
  const auto sent = std::async(std::launch::async, [&] { bench.send(at::zeros({8})); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(bench.arrived, 0);
  making->reach();
  sent.wait();
  EXPECT_EQ(bench.arrived, 1);
}

TEST(CopyLane, WaitsUntilTheSourceHasComputed) {
  LaneOfMoments bench;
  const auto making = bench.source->current = std::make_shared<HeldMoment>();
  at::Tensor value = at::zeros({8});
  bench.send(value);
  // What is enqueued later does not hold it up.
  bench.source->current = std::make_shared<HeldMoment>();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(bench.arrived, 0);
  value.fill_(3);
  making->reach();
  bench.lane.drain();
  EXPECT_EQ(bench.arrived, 1);
  EXPECT_TRUE(at::equal(bench.copy, value));
}

TEST(CopyLane, ASenderWaitsForOneOfItsCopies) {
  LaneOfMoments bench;
  std::vector<std::shared_ptr<HeldMoment>> making;
  std::vector<std::int64_t> numbers;
  for (int i = 0; i < 20; ++i) {
    bench.source->current = making.emplace_back(std::make_shared<HeldMoment>());
    numbers.push_back(bench.send(at::full({8}, i)));
  }
  for (const std::size_t copy : {2U, 11U, 19U}) {
    const auto waiting = std::async(std::launch::async, [&] { bench.lane.await(numbers[copy]); });
    for (std::size_t i = 0; i < copy; ++i) making[i]->reach();
    EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    making[copy]->reach();
    waiting.wait();
    EXPECT_EQ(bench.arrived, static_cast<int>(copy) + 1);
  }
  bench.lane.await(numbers[0]);
}

TEST(CopyLane, NobodyWaitsForACopyThatFailed) {
  LaneOfMoments bench;
  const std::int64_t number = bench.lane.copy(
      {at::ones({8})}, [](auto&&) { throw std::runtime_error("not taken"); }, [](auto&&) {});
  bench.lane.await(number);
}

TEST(CopyLane, OverwritesNothingThatIsStillRead) {
  LaneOfMoments bench;
  std::vector<at::Tensor> held;
  for (int i = 0; i < 2; ++i) {
    bench.send(at::full({8}, i));
    bench.lane.drain();
    held.push_back(std::exchange(bench.copy, {}));
  }
  const auto reading = bench.destination->current = std::make_shared<HeldMoment>();
  held.clear();
  bench.send(at::full({8}, 2));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(bench.arrived, 2) << "it went into memory that is still read";
  reading->reach();
  bench.lane.drain();
  EXPECT_EQ(bench.arrived, 3);
  EXPECT_EQ(bench.destination->made, 2);
  EXPECT_EQ(bench.copy[0].item<float>(), 2);
}

/// Hosts that run behind their threads, and a GPU.
class GpuMoments : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_driver().gpus == 0) {
      GTEST_SKIP() << gpu_driver().problem;
    }
    gpu = make_device(parse_device("cuda:0"));
  }
  /// Expects that `until()` comes after `moment`.
  static void expect_after(HeldMoment& moment, const std::function<bool()>& until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(until());
    moment.reach();
  }
  std::shared_ptr<Device> gpu;
  std::shared_ptr<BehindDevice> host = std::make_shared<BehindDevice>();
};

TEST_F(GpuMoments, AGpuWaitsForAHost) {
  profiler::DeviceWorker worker(gpu);
  const auto making = std::make_shared<HeldMoment>();
  std::atomic<bool> waited{false};
  worker.post([&] {
    gpu->after(making);
    waited = true;
  });
  expect_after(*making, [&] { return waited.load(); });
  EXPECT_EQ(worker.wait(), nullptr);
}

TEST_F(GpuMoments, CopiesToAGpuWaitForWhatTheHostComputes) {
  LaneOfMoments bench(host, gpu);
  const auto making = host->current = std::make_shared<HeldMoment>();
  bench.send(at::ones({8}));
  expect_after(*making, [&] { return bench.arrived > 0; });
  bench.lane.drain();
  EXPECT_EQ(bench.arrived, 1);
}

TEST_F(GpuMoments, CopiesFromAGpuOverwriteNothingThatTheHostReads) {
  LaneOfMoments bench(gpu, host);
  const at::Tensor values = gpu->empty_like(at::empty({8}, at::kMeta));
  std::vector<at::Tensor> held;
  for (int i = 0; i < 2; ++i) {
    bench.send(values);
    bench.lane.drain();
    held.push_back(std::exchange(bench.copy, {}));
  }
  const auto reading = host->current = std::make_shared<HeldMoment>();
  held.clear();
  bench.send(values);
  expect_after(*reading, [&] { return bench.arrived > 2; });
  bench.lane.drain();
  EXPECT_EQ(bench.arrived, 3);
}

}  // namespace
}  // namespace mptune::testing
