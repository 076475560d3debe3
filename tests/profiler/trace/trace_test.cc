#include "mptune/profiler/trace/trace.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace mptune {
namespace {

TEST(What, HasANameOfItsOwn) {
  std::set<std::string> names;
  for (int i = 0; i < kWhatCount; ++i) names.insert(to_string(static_cast<What>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kWhatCount));
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(What, OnlyUsefulWorkIsCompute) {
  for (const What what : {What::forward, What::backward, What::backward_input, What::backward_weight, What::recompute, What::optimizer,
                          What::reduce, What::collective, What::memset, What::kernel})
    EXPECT_TRUE(is_compute(what)) << to_string(what);
  for (const What what : {What::copy, What::sync, What::host, What::action, What::step}) EXPECT_FALSE(is_compute(what)) << to_string(what);
}

}  // namespace
}  // namespace mptune
