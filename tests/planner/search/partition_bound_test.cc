#include "mptune/planner/search/partition_bound.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "mptune/tests/planner/search/spaces.h"

namespace mptune {
namespace {

using test::draw_shape;
using test::make_profile;
using test::names;
using test::options_of;

TEST(PartitionBound, LiesBelowEveryPlanBehindIt) {
  std::mt19937 random(40);
  double closest = 1e9;
  for (int round = 0; round < 300; ++round) {
    const int layers = 6;
    const CostModel cost(make_profile(draw_shape(random, layers, 3), test::random_factors(random, layers)));
    const int batch = std::uniform_int_distribution<int>(4, 12)(random);
    const int m = std::uniform_int_distribution<int>(1, 4)(random);
    PlanOptions options = options_of(names(3), batch, layers, "gpipe");
    options.microbatches = m;
    options.cuts = {1, 2};
    options.cuts[0] = std::uniform_int_distribution<int>(1, layers - 2)(random);
    options.cuts[1] = std::uniform_int_distribution<int>(options.cuts[0] + 1, layers - 1)(random);
    const double step = predict(make_plan(options), cost).step_s;
    const PartitionBound bound(cost, {{0}, {1}, {2}}, split_evenly(batch, m));
    std::int64_t before = 0;
    for (std::size_t known = 0; known <= 2; ++known) {
      const std::int64_t now = bound.step_ns({options.cuts.begin(), options.cuts.begin() + static_cast<std::ptrdiff_t>(known)});
      EXPECT_LE(static_cast<double>(now) * 1e-9, step);
      before = now;
    }
    closest = std::min(closest, step / (static_cast<double>(before) * 1e-9));
    const auto peaks = cost.peak_bytes(make_plan(options));
    for (int s = 0; s < 3; ++s) {
      const auto at = static_cast<std::size_t>(s);
      EXPECT_LE(bound.bytes(s, s == 0 ? 0 : options.cuts[at - 1], s == 2 ? layers : options.cuts[at]), peaks[at]);
    }
  }
  EXPECT_LT(closest, 1.02);
}

TEST(PartitionBound, LiesBelowPlansWithReplicas) {
  std::mt19937 random(41);
  double closest = 1e9;
  for (int round = 0; round < 300; ++round) {
    const CostModel cost(make_profile(draw_shape(random, 6, 4), test::random_factors(random, 6)));
    PlanOptions options = options_of(names(4), std::uniform_int_distribution<int>(4, 12)(random), 6, "gpipe");
    options.microbatches = std::uniform_int_distribution<int>(3, 4)(random);
    const bool front = round % 2 == 0;
    options.replicas = front ? std::vector<int>{3, 1} : std::vector<int>{1, 3};
    options.cuts = {std::uniform_int_distribution<int>(1, 5)(random)};
    const Plan plan = make_plan(options);
    const double step = predict(plan, cost).step_s;
    using Devices = std::vector<std::vector<int>>;
    const PartitionBound bound(cost, front ? Devices{{0, 1, 2}, {3}} : Devices{{0}, {1, 2, 3}}, plan.microbatch_sizes);
    for (const std::vector<int>& cuts : {std::vector<int>{}, options.cuts})
      EXPECT_LE(static_cast<double>(bound.step_ns(cuts)) * 1e-9, step);
    closest = std::min(closest, step / (static_cast<double>(bound.step_ns(options.cuts)) * 1e-9));
    const auto peaks = cost.peak_bytes(plan);
    EXPECT_LE(bound.bytes(0, 0, options.cuts[0]), peaks[0]);
    EXPECT_LE(bound.bytes(1, options.cuts[0], 6), peaks[front ? 3 : 1]);
  }
  EXPECT_LT(closest, 1.1);
}

}  // namespace
}  // namespace mptune
