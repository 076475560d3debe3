// On a GPU where there is one: parts of it, copies between them and the host, memory.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/device/copy_lane.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/gpu_library.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/list/gpu_driver.h"

namespace mptune::testing {
using namespace profiler;
namespace {

class GpuDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (profiler::gpu_driver().gpus == 0) {
      GTEST_SKIP() << profiler::gpu_driver().problem;
    }
  }
};
using GpuCopies = GpuDevice;
using GpuMemory = GpuDevice;

std::shared_ptr<Device> device(const std::string& name) {
  return make_device(parse_device(name));
}

constexpr const char* kWaitAndSet = R"(
extern "C" __global__ void wait_and_set(float* value, long long ticks) {
  const long long begin = clock64();
  while (clock64() - begin < ticks) {}
  *value = 1;
})";

/// One, from work that keeps the compute lane of `like`'s device busy for some milliseconds.
at::Tensor long_work(const at::Tensor& like) {
  const at::Tensor one = at::zeros({}, like.options().dtype(at::kFloat));
  if (!one.is_cuda()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return one.fill_(1);
  }
  auto* value = one.mutable_data_ptr<float>();
  long long ticks = 20'000'000;  // of a clock of one to two GHz
  std::array<void*, 2> arguments{static_cast<void*>(&value), static_cast<void*>(&ticks)};
  EXPECT_EQ(gpu_library("cuda:0").launch({kWaitAndSet, "wait_and_set", one.get_device(), {1, 1}, {1, 1}, arguments.data()}), "");
  return one;
}

/// Copies over a lane from one device to another and back to the host, as stages do.
struct GpuLane {
  GpuLane(const std::string& from, const std::string& to, LinkThrottle throttle = {}) : GpuLane(device(from), device(to), throttle) {}
  GpuLane(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to, LinkThrottle throttle)
      : source(from), destination(to), lane(from, to, throttle) {}

  /// What `make` gives on the source's compute thread, as the destination's compute thread sees it.
  at::Tensor pass(const std::function<at::Tensor()>& make) {
    std::promise<profiler::CopyLane::Arrival> promise;
    source.run([&] {
      lane.copy(
          {make()}, [&](profiler::CopyLane::Arrival arrival) { promise.set_value(std::move(arrival)); },
          [&](const std::exception_ptr& error) { promise.set_exception(error); });
    });
    auto arrival = promise.get_future().get();
    at::Tensor seen;
    destination.run([&] {
      destination.device().after(arrival.there);
      seen = arrival.tensors[0].to(at::kCPU, arrival.tensors[0].scalar_type(), false, /*copy=*/true);
      arrival.tensors.clear();
    });
    last = arrival;
    return seen;
  }

  profiler::DeviceWorker source, destination;
  profiler::CopyLane lane;
  profiler::CopyLane::Arrival last;
};

/// A process divides a GPU once: a test for each division, in a process of its own as all of these.
void expect_parts(int parts) {
  const int all = device("cuda:0")->description().cores;
  EXPECT_GT(all, 0);
  int sum = 0;
  for (int part = 1; part <= parts; ++part) {
    const TraceDevice found = device("cuda:0/" + std::to_string(part) + "of" + std::to_string(parts))->description();
    std::printf("%s: %s\n", found.name.c_str(), found.description.c_str());
    EXPECT_GT(found.cores, 0);
    sum += found.cores;
  }
  EXPECT_LE(sum, all);
}

TEST_F(GpuDevice, HalvesHaveMultiprocessorsOfTheirOwn) {
  expect_parts(2);
}

TEST_F(GpuDevice, QuartersHaveMultiprocessorsOfTheirOwn) {
  expect_parts(4);
}

TEST_F(GpuDevice, BackwardRunsOnTheDevicesOwnThread) {
  profiler::DeviceWorker worker(device("cuda:0/1of2"));
  std::thread::id forward, backward;
  worker.run([&] {
    const at::Tensor weight = worker.device().from_host(at::ones({64, 64})).requires_grad_();
    at::Tensor output = at::mm(weight, weight);
    output.register_hook([&](const at::Tensor&) { backward = std::this_thread::get_id(); });
    forward = std::this_thread::get_id();
    output.sum().backward();
    EXPECT_TRUE(at::equal(weight.grad().cpu(), at::full({64, 64}, 128.0F)));
  });
  EXPECT_EQ(backward, forward);
}

TEST_F(GpuDevice, AdoptsInPlace) {
  profiler::DeviceWorker worker(device("cuda:0"));
  const at::Tensor parameter = at::arange(10, at::kFloat).requires_grad_();
  const at::Tensor alias = parameter;
  worker.run([&] { worker.device().adopt(parameter); });
  EXPECT_TRUE(alias.is_cuda());
  EXPECT_TRUE(alias.requires_grad());
  EXPECT_TRUE(at::equal(alias.detach().cpu(), at::arange(10, at::kFloat)));
}

TEST_F(GpuDevice, StampsMeasureItsWork) {
  profiler::DeviceWorker worker(device("cuda:0"));
  worker.run([&] {
    const auto begin = worker.device().stamp();
    (void)long_work(worker.device().from_host(at::ones({1})));
    const auto end = worker.device().stamp();
    EXPECT_GT(end->seconds_since(*begin), 0);
  });
}

TEST_F(GpuDevice, WhatCameFromTheHostIsKeptWhileItIsRead) {
  profiler::DeviceWorker worker(device("cuda:0"));
  std::vector<at::Tensor> seen;
  worker.run([&] {
    for (int i = 0; i < 4; ++i) {
      const at::Tensor values = worker.device().from_host(at::full({1 << 18}, static_cast<float>(i)));
      seen.push_back((values * long_work(values)).max());
    }
    for (int i = 0; i < 4; ++i) EXPECT_EQ(seen[as_index(i)].item<float>(), static_cast<float>(i));
  });
}

TEST_F(GpuDevice, KernelsRunOnTheGpuOfTheirLaunch) {
  if (gpu_driver().gpus < 2) {
    GTEST_SKIP() << "this needs 2 GPUs";
  }
  (void)device("cuda:1");
  const at::Tensor like = at::empty({1}, at::TensorOptions(at::kFloat).device(at::kCUDA, 1));
  EXPECT_EQ(long_work(like).item<float>(), 1) << "the thread's current GPU is another one";
}

TEST_F(GpuCopies, ArriveWhole) {
  const std::string cpu = "cpu:" + std::to_string(available_cores()[0]);
  // Not a multiple of the staging buffers, and larger than all of them.
  const at::Tensor value = at::arange(5'000'001, at::kFloat);
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"cuda:0/1of2", "cuda:0/2of2"}, {cpu, "cuda:0"}, {"cuda:0", cpu}}) {
    for (const LinkThrottle& throttle : {LinkThrottle{}, LinkThrottle{100e9, 0}}) {
      GpuLane lane(from, to, throttle);
      for (int i = 0; i < 5; ++i) {
        const at::Tensor seen = lane.pass([&] { return lane.source.device().from_host(value) + i; });
        EXPECT_TRUE(at::equal(seen, value + i)) << from << " to " << to;
      }
      const at::Tensor transposed = at::arange(12, at::kLong).view({3, 4}).t();
      EXPECT_TRUE(at::equal(lane.pass([&] { return lane.source.device().from_host(transposed.t()).t(); }), transposed));
      EXPECT_EQ(lane.pass([&] { return at::empty({0}); }).numel(), 0);
      const at::Tensor wide = at::arange(20, at::kFloat).view({5, 4});
      EXPECT_TRUE(
          at::equal(lane.pass([&] { return (lane.source.device().from_host(wide) + 1).narrow(1, 0, 2); }), (wide + 1).narrow(1, 0, 2)));
    }
  }
}

TEST_F(GpuCopies, WaitForWhatTheSourceStillComputes) {
  GpuLane lane("cuda:0/1of2", "cuda:0/2of2");
  for (int i = 0; i < 10; ++i) {
    const at::Tensor seen = lane.pass([&] {
      const at::Tensor start = lane.source.device().from_host(at::full({1000}, static_cast<float>(i)));
      return start + long_work(start);
    });
    EXPECT_TRUE(at::equal(seen, at::full({1000}, static_cast<float>(i + 1))));
  }
}

TEST_F(GpuCopies, NothingIsOverwrittenWhileItIsRead) {
  constexpr int kCopies = 40;
  GpuLane lane("cuda:0/1of2", "cuda:0/2of2");
  std::vector<at::Tensor> sums(kCopies);
  for (int i = 0; i < kCopies; ++i) {
    std::promise<profiler::CopyLane::Arrival> promise;
    lane.source.run([&] {
      lane.lane.copy(
          {lane.source.device().from_host(at::full({1 << 20}, static_cast<float>(i)))},
          [&](profiler::CopyLane::Arrival arrival) { promise.set_value(std::move(arrival)); },
          [&](const std::exception_ptr& error) { promise.set_exception(error); });
    });
    auto arrival = promise.get_future().get();
    // The reader is enqueued behind long work and lets go of the copy at once.
    lane.destination.run([&, i] {
      lane.destination.device().after(arrival.there);
      const at::Tensor one = long_work(arrival.tensors[0]);
      sums[as_index(i)] = (arrival.tensors[0] * one).max() - (arrival.tensors[0] * one).min() + arrival.tensors[0][7];
      arrival.tensors.clear();
    });
  }
  lane.destination.run([&] { wait_for(lane.destination.device().now()); });
  for (int i = 0; i < kCopies; ++i) EXPECT_EQ(sums[as_index(i)].item<float>(), static_cast<float>(i));
}

TEST_F(GpuCopies, WhatIsSentOnIsNotOverwrittenBeforeItIsRead) {
  const auto first = device("cuda:0/1of2"), second = device("cuda:0/2of2");
  profiler::DeviceWorker sender(first);
  const auto fail = [](const std::exception_ptr&) { ADD_FAILURE() << "a copy failed"; };
  std::vector<profiler::CopyLane::Arrival> back;
  {
    profiler::CopyLane backward(second, first, {}), forward(first, second, {});
    for (int i = 0; i < 40; ++i)
      sender.run([&] {
        forward.copy(
            {first->from_host(at::full({1 << 20}, static_cast<float>(i)))},
            [&](profiler::CopyLane::Arrival there) {
              second->after(there.there);
              backward.copy(
                  std::move(there.tensors), [&](profiler::CopyLane::Arrival here) { back.push_back(std::move(here)); }, fail);
            },
            fail);
      });
    forward.drain();
    backward.drain();
  }
  ASSERT_EQ(back.size(), 40U);
  sender.run([&] {
    for (std::size_t i = 0; i < back.size(); ++i) {
      first->after(back[i].there);
      EXPECT_TRUE(at::equal(back[i].tensors[0].cpu(), at::full({1 << 20}, static_cast<float>(i))));
    }
  });
}

TEST_F(GpuCopies, ThrottledAreNeverFasterThanAsked) {
  const LinkThrottle throttle{1e9, 500e-6};
  GpuLane lane("cuda:0/1of2", "cuda:0/2of2", throttle);
  const at::Tensor value = at::ones({1 << 20});
  for (int i = 0; i < 3; ++i) {
    std::chrono::steady_clock::time_point asked;
    (void)lane.pass([&] {
      const at::Tensor made = lane.source.device().from_host(value);
      asked = std::chrono::steady_clock::now();
      return made;
    });
    EXPECT_GE(std::chrono::duration<double>(lane.last.ended - asked).count(),
              throttle.seconds_for(static_cast<std::int64_t>(value.nbytes())));
  }
}

/// Calls `use` where the lane hands over a copy that can't be made before 10 ms of work of its destination; `then`, with the lane and the
/// copy's number, when the lane has got it.
void copy_behind_long_work(const std::string& from, const std::string& to, LinkThrottle throttle, CopyLane::Arrived use,
                           const std::function<void(CopyLane&, std::int64_t)>& then = {}) {
  SCOPED_TRACE(from + " to " + to);
  const auto sender = device(from), receiver = device(to);
  profiler::DeviceWorker source(sender), destination(receiver);
  destination.run([&] { (void)long_work(receiver->empty_like(at::empty({1}, at::kMeta))); });
  CopyLane lane(sender, receiver, throttle);
  std::int64_t number = 0;
  source.run([&] {
    number = lane.copy({sender->from_host(at::ones({1 << 20}))}, std::move(use),
                       [](const std::exception_ptr&) { ADD_FAILURE() << "the copy failed"; });
  });
  if (then) then(lane, number);
}

// What a lane copies from, and its buffers, are used again when it is gone.
TEST_F(GpuCopies, AreMadeWhenTheirLaneIsGone) {
  const std::string cpu = "cpu:" + std::to_string(available_cores()[0]);
  for (const std::string& from : {std::string("cuda:0/2of2"), cpu}) {
    CopyLane::Arrival last;
    copy_behind_long_work(from, "cuda:0/1of2", {}, [&](CopyLane::Arrival arrival) { last = std::move(arrival); });
    EXPECT_TRUE(reached(last.there)) << from;
  }
}

TEST_F(GpuCopies, ASenderWaitsUntilTheyAreMade) {
  CopyLane::Arrival last;
  copy_behind_long_work(
      "cuda:0/2of2", "cuda:0/1of2", {}, [&](CopyLane::Arrival arrival) { last = std::move(arrival); },
      [&](CopyLane& lane, std::int64_t number) {
        lane.await(number);
        EXPECT_TRUE(reached(last.there));
      });
}

TEST_F(GpuCopies, ThrottledAreMadeWhenTheyArrive) {
  bool made = false;
  copy_behind_long_work("cuda:0/2of2", "cuda:0/1of2", {100e9, 0}, [&](const CopyLane::Arrival& arrival) { made = reached(arrival.there); });
  EXPECT_TRUE(made);
}

TEST_F(GpuMemory, IsChargedToThePartThatAllocates) {
  profiler::DeviceWorker first(device("cuda:0/1of2")), second(device("cuda:0/2of2"));
  const std::int64_t before = first.device().current_bytes(), other = second.device().current_bytes();
  at::Tensor tensor;
  first.run([&] { tensor = first.device().empty_like(at::empty({250'000}, at::kMeta)); });
  EXPECT_EQ(first.device().current_bytes() - before, 1'000'000);
  EXPECT_GE(first.device().peak_bytes(), before + 1'000'000);
  EXPECT_EQ(second.device().current_bytes(), other);
  tensor.reset();
  EXPECT_EQ(first.device().current_bytes(), before);
}

TEST_F(GpuMemory, DevicesOfOneNameAreChargedApart) {
  const auto first = device("cuda:0/1of2"), second = device("cuda:0/1of2");
  const std::int64_t before = second->current_bytes();
  const at::Tensor tensor = first->empty_like(at::empty({250'000}, at::kMeta));
  EXPECT_GE(first->peak_bytes(), 1'000'000);
  EXPECT_EQ(second->current_bytes(), before);
  second->set_memory_cap(1);
  EXPECT_EQ(first->memory_cap(), 0);
}

TEST_F(GpuMemory, CapRefusesAndTheNextAllocationWorks) {
  profiler::DeviceWorker worker(device("cuda:0/1of2"));
  const std::int64_t used = worker.device().current_bytes();
  worker.device().set_memory_cap(used + 1'500'000);
  const at::Tensor like = at::empty({250'000}, at::kMeta);
  at::Tensor fits;
  worker.run([&] { fits = worker.device().empty_like(like); });
  EXPECT_THROW(worker.run([&] { (void)worker.device().empty_like(like); }), c10::OutOfMemoryError);
  EXPECT_EQ(worker.device().refused_bytes(), 1'000'000);
  fits.reset();
  EXPECT_NO_THROW(worker.run([&] { (void)worker.device().empty_like(like); }));
  profiler::DeviceWorker other(device("cuda:0/2of2"));
  EXPECT_NO_THROW(other.run([&] { (void)other.device().empty_like(at::empty({1'000'000}, at::kMeta)); })) << "the cap of another part";
  worker.device().set_memory_cap(0);
}

TEST_F(GpuMemory, WhatCanBeFreedIsFreedBeforeARefusal) {
  profiler::DeviceWorker worker(device("cuda:0"));
  Device& gpu = worker.device();
  std::vector<at::Tensor> spare;
  int asked = 0;
  const std::shared_ptr<void> asker = gpu.when_short_of_memory([&] {
    ++asked;
    spare.clear();
  });
  const auto add = [&](std::int64_t bytes) {
    worker.run([&] {
      at::Tensor tensor = gpu.empty_like(at::empty({bytes}, at::device(at::kMeta).dtype(at::kByte)));
      spare.push_back(std::move(tensor));
    });
  };
  gpu.set_memory_cap(gpu.current_bytes() + 1'500'000);
  add(1'000'000);
  EXPECT_NO_THROW(add(1'000'000)) << "the cap is reached";
  EXPECT_EQ(asked, 1);
  gpu.set_memory_cap(0);
  constexpr int kMostGibibytes = 4096;
  for (int i = 0; asked == 1 && i < kMostGibibytes; ++i) EXPECT_NO_THROW(add(std::int64_t{1} << 30)) << "the GPU has no more";
  EXPECT_EQ(asked, 2);
}

TEST_F(GpuMemory, GpuWithoutMemoryIsARefusalOfTheSameType) {
  profiler::DeviceWorker worker(device("cuda:0"));
  const at::Tensor like = at::empty({std::int64_t{1} << 46}, at::device(at::kMeta).dtype(at::kByte));
  EXPECT_THROW(worker.run([&] { (void)worker.device().empty_like(like); }), c10::OutOfMemoryError);
  EXPECT_EQ(worker.device().refused_bytes(), std::int64_t{1} << 46);
}

}  // namespace
}  // namespace mptune::testing
