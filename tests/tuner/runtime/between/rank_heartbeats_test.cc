#include "tuner/runtime/between/rank_heartbeats.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace mptune::tuner {
namespace {

constexpr auto kBeyondSilence = std::chrono::seconds(RankHeartbeats::kSilentSeconds + 3);

TEST(SlowRankHeartbeats, OnlyARankThatIsWaitedForAndGivesNoSignIsSilent) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int> silent_for_0 = 0, silent_for_1 = 0;
  RankHeartbeats first(store, 0, [&](int rank) { silent_for_0 |= 1 << rank; });
  RankHeartbeats second(store, 1, [&](int rank) { silent_for_1 |= 1 << rank; });
  auto third = std::make_unique<RankHeartbeats>(store, 2, [](int) {});
  const RankHeartbeats::Wait all(first, {1, 2});
  const RankHeartbeats::Wait living(second, {0});
  std::this_thread::sleep_for(std::chrono::seconds(2));
  third.reset();
  EXPECT_EQ(silent_for_0, 0);
  std::this_thread::sleep_for(kBeyondSilence);
  EXPECT_EQ(silent_for_0, 1 << 2);
  EXPECT_EQ(silent_for_1, 0) << "it does not wait for rank 2";
}

}  // namespace
}  // namespace mptune::tuner
