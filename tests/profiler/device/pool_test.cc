#include "profiler/device/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace mptune::profiler {
namespace {

/// Says how many were made, and whether two use one at a time.
struct Counted {
  static inline std::atomic<int> made{0};
  explicit Counted(int first) : number(first) { ++made; }
  int number;
  std::atomic<bool> in_use{false};
};

TEST(Pool, LendsAgainWhatCameBack) {
  Pool<Counted> pool;
  Counted::made = 0;
  const Counted* first = nullptr;
  {
    const auto lent = pool.take(7);
    EXPECT_EQ(lent->number, 7);
    lent->number = 8;
    first = lent.get();
  }
  const auto again = pool.take(9);
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(again->number, 8) << "as it was left";
  const auto other = pool.take(10);
  EXPECT_NE(other.get(), first);
  EXPECT_EQ(other->number, 10);
  EXPECT_EQ(Counted::made, 2);
}

TEST(Pool, MovedLoansComeBackOnce) {
  Pool<Counted> pool;
  Counted::made = 0;
  {
    auto lent = pool.take(1);
    const auto moved = std::move(lent);
  }
  const auto first = pool.take(2), second = pool.take(3);
  EXPECT_NE(first.get(), second.get());
  EXPECT_EQ(Counted::made, 2);
}

TEST(Pool, ThreadsNeverShareOne) {
  Pool<Counted> pool;
  Counted::made = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto lent = pool.take(i), second = pool.take(i);
        EXPECT_FALSE(lent->in_use.exchange(true) || second->in_use.exchange(true));
        lent->in_use = second->in_use = false;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(Counted::made, 8);
}

}  // namespace
}  // namespace mptune::profiler
