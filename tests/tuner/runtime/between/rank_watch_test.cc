#include "tuner/runtime/between/rank_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>

#include "profiler/base/error.h"
#include "tests/support/gloo_ranks.h"

namespace mptune::tuner {
namespace {

constexpr int kTag = 7;

std::string text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error.problem();
  }
}

TEST(RankWatch, RanksThatEndInTheirTurnAreNotLost) {
  std::atomic<int> lost = 0;
  testing::run_gloo(3, 60, [&](const std::shared_ptr<RankGroup>& group) {
    const std::vector<int> others{(group->rank() + 1) % 3, (group->rank() + 2) % 3};
    const RankWatch watch(*group, kTag, others, [&](const std::exception_ptr&) { ++lost; });
    std::this_thread::sleep_for(std::chrono::milliseconds(300 * group->rank()));
  });
  EXPECT_EQ(lost, 0);
}

// Nothing else is received from it.
TEST(RankWatch, ARankThatIsGoneIsLost) {
  std::latch noticed(1);
  std::string said;
  testing::run_gloo(2, 60, [&](const std::shared_ptr<RankGroup>& group) {
    if (group->rank() == 1) return;  // the connection ends with it
    const RankWatch watch(*group, kTag, {1}, [&](const std::exception_ptr& error) {
      said = text_of(error);
      noticed.count_down();
    });
    noticed.wait();
  });
  EXPECT_EQ(said.substr(0, 16), "rank 1 has ended");
}

TEST(RankWatch, ARankThatSaysNothingIsLost) {
  std::latch noticed(1);
  std::string said;
  testing::run_gloo(2, 2, [&](const std::shared_ptr<RankGroup>& group) {
    if (group->rank() == 1) return noticed.wait();  // it is there, and stopped
    const RankWatch watch(*group, kTag, {1}, [&](const std::exception_ptr& error) {
      said = text_of(error);
      noticed.count_down();
    });
    noticed.wait();
  });
  EXPECT_EQ(said, "rank 1 has said nothing for 2 s");
}

}  // namespace
}  // namespace mptune::tuner
