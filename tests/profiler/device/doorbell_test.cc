#include "profiler/device/doorbell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::testing {
using namespace profiler;
using namespace std::chrono_literals;
namespace {

// Asleep, about to sleep, and never asleep while the test waits.
constexpr std::chrono::nanoseconds kSpins[] = {0ns, 20us, 10s};

TEST(Doorbell, ReturnsAtOnceIfReady) {
  Doorbell bell;
  int calls = 0;
  bell.wait([&] { return ++calls == 1; });
  EXPECT_EQ(calls, 1);
}

TEST(Doorbell, WaitsUntilReadyNotForARingOnly) {
  for (const auto spin : kSpins) {
    Doorbell bell(spin);
    std::atomic<int> rung = 0;
    std::atomic<bool> done = false;
    std::thread waiting([&] {
      bell.wait([&] { return rung == 3; });
      done = true;
    });
    for (int i = 0; i < 2; ++i) {
      ++rung;
      bell.ring();
    }
    std::this_thread::sleep_for(2ms);
    EXPECT_FALSE(done);
    ++rung;
    bell.ring();
    waiting.join();
    EXPECT_TRUE(done);
  }
}

TEST(Doorbell, WakesAllWhoWait) {
  for (const auto spin : kSpins) {
    Doorbell bell(spin);
    std::atomic<bool> open = false;
    std::vector<std::thread> waiting;
    for (int i = 0; i < 4; ++i) waiting.emplace_back([&] { bell.wait([&] { return open.load(); }); });
    std::this_thread::sleep_for(1ms);
    open = true;
    bell.ring();
    for (std::thread& thread : waiting) thread.join();
  }
}

TEST(Doorbell, WhatReadyThrowsEndsTheWait) {
  for (const auto spin : kSpins) {
    Doorbell bell(spin);
    std::atomic<bool> broken = false;
    std::thread waiting([&] {
      EXPECT_THROW(bell.wait([&]() -> bool { return broken ? throw std::runtime_error("broken") : false; }), std::runtime_error);
    });
    std::this_thread::sleep_for(1ms);
    broken = true;
    bell.ring();
    waiting.join();
  }
}

void pause_at_random(std::mt19937& random) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 60);
  while (std::chrono::steady_clock::now() < until) {
  }
  if (random() % 8 == 0) std::this_thread::yield();
}

// A ring that came between the look and the sleep would be lost for ever: the test would hang.
TEST(Doorbell, LosesNoRing) {
  constexpr int kRounds = 1500;
  for (const auto spin : {0ns, 5ns, 20'000ns}) {
    Doorbell bells[2] = {Doorbell(spin), Doorbell(spin)};
    std::atomic<int> turn = 0;
    const auto play = [&](int me) {
      std::mt19937 random(as_index(me));
      for (int i = 0; i < kRounds; ++i) {
        bells[me].wait([&] { return turn % 2 == me; });
        pause_at_random(random);
        ++turn;
        bells[1 - me].ring();
      }
    };
    std::thread other([&] { play(1); });
    play(0);
    other.join();
    EXPECT_EQ(turn, 2 * kRounds);
  }
}

}  // namespace
}  // namespace mptune::testing
