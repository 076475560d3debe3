#include "profiler/trace/trace.h"
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

}  // namespace
}  // namespace mptune::profiler
