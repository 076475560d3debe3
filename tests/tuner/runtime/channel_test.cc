#include "tuner/runtime/graph/channel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "profiler/device/device.h"
#include "profiler/device/list/device_list.h"

namespace mptune::testing {
using namespace tuner;
using namespace std::chrono_literals;
namespace {

std::shared_ptr<Device> core(std::size_t index, const std::string& name) {
  const std::vector<int> cores = available_cores();
  return make_device({DeviceSpec::Kind::cpu, name, {cores[index % cores.size()]}, 0});
}

/// A channel between two devices, and their doorbells.
struct ChannelBench {
  static constexpr int kMicrobatches = 5;
  explicit ChannelBench(std::chrono::nanoseconds spin = {}, const LinkThrottle& link = {})
      : front_bell(spin), back_bell(spin), there(front, back, link), home(back, front, link) {}

  std::shared_ptr<Device> front = core(0, "front"), back = core(1, "back");
  profiler::Doorbell front_bell, back_bell;
  profiler::CopyLane there, home;
  std::vector<std::exception_ptr> errors;
  std::vector<std::thread::id> failed_in;
  MailboxChannel channel{kMicrobatches, {&there, &back_bell}, {&home, &front_bell}, [this](std::exception_ptr error) {
                           errors.push_back(std::move(error));
                           failed_in.push_back(std::this_thread::get_id());
                         }};
};

TEST(Channel, TryReceiveTakesAMessageOnce) {
  ChannelBench bench;
  const at::Tensor value = at::rand({3, 4});
  EXPECT_FALSE(bench.channel.try_receive({false, 2}));
  bench.channel.send({false, 2}, {value});
  EXPECT_FALSE(bench.channel.try_receive({true, 2})) << "a gradient";
  EXPECT_FALSE(bench.channel.try_receive({false, 1})) << "another micro-batch";
  EXPECT_TRUE(bench.channel.arrived({false, 2}));
  const auto message = bench.channel.try_receive({false, 2});
  ASSERT_TRUE(message);
  EXPECT_TRUE(at::equal(message->tensors.at(0), value));
  EXPECT_FALSE(bench.channel.arrived({false, 2}));
  EXPECT_FALSE(bench.channel.try_receive({false, 2}));
}

TEST(Channel, TryReceiveThrowsOnceCancelled) {
  ChannelBench bench;
  bench.channel.send({false, 0}, {at::ones({2})});
  bench.channel.cancel();
  EXPECT_THROW((void)bench.channel.try_receive({false, 0}), StepCancelled);
  EXPECT_THROW((void)bench.channel.receive({true, 1}), StepCancelled);
  bench.channel.reset();
  EXPECT_FALSE(bench.channel.try_receive({false, 0})) << "of the step that was cancelled";
  bench.channel.send({false, 0}, {at::full({2}, 7)});
  EXPECT_EQ(bench.channel.receive({false, 0}).tensors.at(0).sum().item<float>(), 14);
}

TEST(Channel, UnthrottledCopiesAreMadeBySendAndChargedToTheReceiver) {
  ChannelBench bench;
  const at::Tensor wide = at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  std::thread::id copied_in;
  bench.channel.set_observer([&](MessageTag, std::int64_t bytes, auto began, auto ended) {
    copied_in = std::this_thread::get_id();
    EXPECT_EQ(bytes, 480 + 8);
    EXPECT_LE(began, ended);
  });
  bench.channel.send({true, 4}, {wide, {}, at::ones({1}, at::kLong)});
  EXPECT_EQ(copied_in, std::this_thread::get_id());
  const auto message = bench.channel.try_receive({true, 4});
  ASSERT_TRUE(message) << "it has arrived when send() returns";
  const Tensors& got = message->tensors;
  ASSERT_EQ(got.size(), 3U);
  EXPECT_TRUE(at::equal(got[0].detach(), wide.detach()));
  EXPECT_EQ(got[0].strides(), wide.strides());
  EXPECT_TRUE(got[0].requires_grad() && got[0].is_leaf());
  EXPECT_FALSE(got[1].defined());
  EXPECT_FALSE(got[2].requires_grad());
  EXPECT_NE(got[0].data_ptr(), wide.data_ptr());
  EXPECT_EQ(bench.front->current_bytes(), 480 + 8) << "gradients go to the front";
  EXPECT_EQ(bench.back->current_bytes(), 0);
}

TEST(Channel, FailedCopyIsReportedAndNothingArrives) {
  ChannelBench bench;
  bench.back->set_memory_cap(100);
  bench.channel.send({false, 0}, {at::ones({100})});
  ASSERT_EQ(bench.errors.size(), 1U);
  EXPECT_THROW(std::rethrow_exception(bench.errors[0]), c10::OutOfMemoryError);
  EXPECT_EQ(bench.failed_in[0], std::this_thread::get_id());
  EXPECT_FALSE(bench.channel.try_receive({false, 0}));
}

TEST(Channel, OneDevicePassesTensorsOn) {
  profiler::Doorbell bell;
  MailboxChannel channel(1, {nullptr, &bell}, {nullptr, &bell}, nullptr);
  const at::Tensor value = at::rand({3});
  channel.send({false, 0}, {value});
  EXPECT_EQ(channel.receive({false, 0}).tensors.at(0).data_ptr(), value.data_ptr());
}

TEST(Channel, CancelEndsEveryWait) {
  for (const std::chrono::nanoseconds spin : {0ns, 30'000ns, 10'000'000'000ns}) {
    ChannelBench bench(spin);
    std::vector<std::thread> waiting;
    for (const bool gradient : {false, true})
      waiting.emplace_back([&, gradient] { EXPECT_THROW((void)bench.channel.receive({gradient, 0}), StepCancelled); });
    std::this_thread::sleep_for(2ms);
    bench.channel.cancel();
    for (std::thread& thread : waiting) thread.join();
  }
}

void busy(std::mt19937& random) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 80);
  while (std::chrono::steady_clock::now() < until) {
  }
}

// Both ends in a thread of their own, as in a step, at random speeds; every few steps are cancelled in the middle.
TEST(Channel, CarriesEveryMessageAtRandomSpeeds) {
  for (const LinkThrottle& link : {LinkThrottle{}, LinkThrottle{0, 2e-5}})
    for (const std::chrono::nanoseconds spin : {0ns, 20'000ns}) {
      ChannelBench bench(spin, link);
      for (int step = 0; step < 60; ++step) {
        const bool cancelled = step % 7 == 6;
        const auto value = [&](bool gradient, int m) { return at::full({16}, 100 * step + 10 * m + (gradient ? 1 : 0)); };
        const auto end = [&](bool is_front) {
          std::mt19937 random(static_cast<unsigned>(2 * step + (is_front ? 1 : 0)));
          try {
            for (int m = 0; m < ChannelBench::kMicrobatches; ++m) {
              if (cancelled && is_front && m == 3) return bench.channel.cancel();
              busy(random);
              if (is_front) bench.channel.send({false, m}, {value(false, m)});
              const Message message = bench.channel.receive({is_front, m});
              EXPECT_TRUE(at::equal(message.tensors.at(0), value(is_front, m)));
              busy(random);
              if (!is_front) bench.channel.send({true, m}, {value(true, m)});
            }
            EXPECT_FALSE(cancelled);
          } catch (const StepCancelled&) {
            EXPECT_TRUE(cancelled);
          }
        };
        std::thread back([&] { end(false); });
        end(true);
        back.join();
        if (!cancelled) continue;
        bench.there.drain();
        bench.home.drain();
        bench.channel.reset();
      }
      EXPECT_TRUE(bench.errors.empty());
    }
}

}  // namespace
}  // namespace mptune::testing
