#include "profiler/base/rate_schedule.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "tests/support/error_of.h"

namespace mptune {
namespace {

using ::testing::HasSubstr;

std::vector<double> factors(const std::string& text, int steps) {
  std::vector<double> all;
  for (int step = 0; step < steps; ++step) all.push_back(rate_factor(parse_rate_schedule(text), step, steps));
  return all;
}

void expect_near(const std::vector<double>& factors, const std::vector<double>& expected) {
  ASSERT_EQ(factors.size(), expected.size());
  for (std::size_t i = 0; i < factors.size(); ++i) EXPECT_NEAR(factors[i], expected[i], 1e-15) << i;
}

TEST(RateSchedule, ByHand) {
  expect_near(factors("constant", 3), {1, 1, 1});
  expect_near(factors("constant:warmup=2", 4), {0.5, 1, 1, 1});
  expect_near(factors("linear", 4), {1, 0.75, 0.5, 0.25});
  expect_near(factors("linear:warmup=50%:end=0.5", 4), {0.5, 1, 1, 0.75});
  expect_near(factors("cosine:end=0.1", 2), {1, 0.55});
  expect_near(factors("cosine:warmup=1", 4), {1, 1, 0.75, 0.25});
}

// The step by step rule that torch.optim.lr_scheduler.CosineAnnealingLR documents (SGDR, Loshchilov and Hutter 2017).
TEST(RateSchedule, TheCosineIsTheRecursionOfPyTorch) {
  const int steps = 50;
  const double end = 0.2;
  double rate = 1;
  const std::vector<double> ours = factors("cosine:end=0.2", steps);
  for (int step = 0; step < steps; ++step) {
    EXPECT_NEAR(ours[static_cast<std::size_t>(step)], rate, 1e-12);
    rate = (1 + std::cos(M_PI * (step + 1) / steps)) / (1 + std::cos(M_PI * step / steps)) * (rate - end) + end;
  }
}

TEST(RateSchedule, TheLastPartCounts) {
  EXPECT_EQ(parse_rate_schedule("cosine:warmup=5:warmup=10%"), (RateSchedule{RateDecay::cosine, 0, 0.1, 0}));
  EXPECT_EQ(parse_rate_schedule("linear:end=1:warmup=3"), (RateSchedule{RateDecay::linear, 3, 0, 1}));
}

TEST(RateSchedule, WhatIsNoneIsRefusedWithItsPart) {
  const auto refusal = [](const std::string& text) { return testing::refusal_of([&] { (void)parse_rate_schedule(text); }); };
  EXPECT_THAT(refusal(""), HasSubstr("unknown schedule ''"));
  EXPECT_THAT(refusal("cosin"), HasSubstr("unknown schedule 'cosin'"));
  EXPECT_THAT(refusal("cosine:warm=3"), HasSubstr("a schedule has no 'warm'"));
  EXPECT_THAT(refusal("cosine:"), HasSubstr("a schedule has no ''"));
  EXPECT_THAT(refusal("constant:end=0.1"), HasSubstr("ends where it begins"));
  EXPECT_THAT(refusal("linear:warmup=1.5"), HasSubstr("not a number of steps"));
  for (const char* part : {"warmup", "warmup=", "warmup=-1", "warmup=1e10", "warmup=100%", "warmup=%", "end=2", "end=-1", "end=nan"})
    EXPECT_THAT(refusal(std::string("linear:") + part), HasSubstr(std::string("'") + part + "' has no value that fits"));
  EXPECT_THAT(testing::refusal_of([] { (void)factors("linear:warmup=3", 3); }), HasSubstr("takes the whole training"));
}

}  // namespace
}  // namespace mptune
