#include "profiler/trace/values/trace.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace mptune::profiler {
namespace {

TEST(EventKind, HasANameOfItsOwn) {
  std::set<std::string> names;
  for (int i = 0; i < kEventKindCount; ++i) names.insert(to_string(static_cast<EventKind>(i)));
  EXPECT_EQ(names.size(), as_index(kEventKindCount));
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(EventKind, OnlyUsefulWorkIsCompute) {
  for (const EventKind kind :
       {EventKind::forward, EventKind::backward, EventKind::backward_input, EventKind::backward_weight, EventKind::recompute,
        EventKind::optimizer, EventKind::reduce, EventKind::collective, EventKind::memset, EventKind::kernel})
    EXPECT_TRUE(is_compute(kind)) << to_string(kind);
  for (const EventKind kind : {EventKind::copy, EventKind::sync, EventKind::host, EventKind::action, EventKind::step})
    EXPECT_FALSE(is_compute(kind)) << to_string(kind);
}

TEST(Threads, SayTheirRank) {
  EXPECT_EQ(thread_of_rank(12, "thread 5"), "rank 12, thread 5");
  EXPECT_EQ(rank_of_thread(thread_of_rank(12, "rank 3, thread 5")), 12);
  for (const char* other :
       {"", "thread 5", "rank", "rank 1", "rank 1,", "rank 99999, thread", "rank -1, thread", "rank x, thread", "rank 99999999999, x"})
    EXPECT_EQ(rank_of_thread(other), 0) << other;
}

}  // namespace
}  // namespace mptune::profiler
