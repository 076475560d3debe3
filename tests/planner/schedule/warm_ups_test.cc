// The warm-ups of 1F1B against brute force over all of them, and the bound of every order against brute force over all orders.
#include "planner/schedule/warm_ups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "planner/schedule/schedule.h"
#include "planner/schedule/timing.h"
#include "profiler/base/index.h"
#include "tests/planner/schedule/mapped.h"

namespace mptune::planner {
namespace {

struct RandomCase {
  Plan plan;
  ScheduleCosts costs;
};

// Copies take up to `slowest_copy_ns`; a forward takes 50 to 149 ns.
RandomCase random_case(unsigned seed, int most_stages, int most_microbatches, int slowest_copy_ns) {
  std::mt19937 random(seed);
  const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  const int stages = 2 + up_to(most_stages - 2);
  RandomCase made{testing::mapped("1f1b", stages, 1, 1 + up_to(most_microbatches - 1)), {}};
  for (int s = 0; s < stages; ++s) {
    StageCosts& stage = made.costs.stages.emplace_back();
    stage.forward_ns = 50 + up_to(99);
    stage.backward_ns = stage.forward_ns + up_to(200);
    stage.recompute_ns = up_to(3) == 0 ? stage.backward_ns / 3 : 0;
    stage.send_output_ns = up_to(slowest_copy_ns);
    stage.send_gradient_ns = up_to(slowest_copy_ns);
    stage.saved_activation_bytes = 1 + up_to(4);
  }
  if (up_to(2) > 0) return made;
  for (int s = 0; s < stages; ++s) made.costs.free_bytes.push_back(1 + up_to(5 * made.plan.num_microbatches()));
  return made;
}

std::int64_t step_of(const RandomCase& given, const std::vector<int>& warm_ups) {
  const Layout layout(given.plan);
  return ScheduleReplay(layout, given.costs).run(one_forward_one_backward(layout, warm_ups));
}

std::int64_t best_step(const RandomCase& given) {
  return step_of(given, best_warm_ups(Layout(given.plan), given.costs));
}

bool fits(const RandomCase& given, int stage, int warm_up) {
  const std::int64_t bytes = warm_up * given.costs.stages[as_index(stage)].saved_activation_bytes;
  return warm_up == 1 || given.costs.free_bytes.empty() || bytes <= given.costs.free_bytes[as_index(stage)];
}

std::int64_t least_over_warm_ups(const RandomCase& given) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::vector<int> warm_ups;
  const std::function<void()> extend = [&] {
    const int stage = static_cast<int>(warm_ups.size());
    if (stage == given.plan.num_stages()) {
      least = std::min(least, step_of(given, warm_ups));
      return;
    }
    const int most = stage == 0 ? given.plan.num_microbatches() : warm_ups.back();
    for (int w = 1; w <= most && fits(given, stage, w); ++w) {
      warm_ups.push_back(w);
      extend();
      warm_ups.pop_back();
    }
  };
  extend();
  return least;
}

// All rows of a stage that run forwards and backwards in ascending order.
std::vector<std::vector<Action>> orders(int stage, int microbatches) {
  std::vector<std::vector<Action>> all;
  std::vector<Action> row;
  const std::function<void(int, int)> extend = [&](int forwards, int backwards) {
    if (backwards == microbatches) all.push_back(row);
    const auto add = [&](ActionKind kind, int microbatch) {
      row.push_back({stage, kind, microbatch});
      extend(forwards + (kind == ActionKind::forward ? 1 : 0), backwards + (kind == ActionKind::forward ? 0 : 1));
      row.pop_back();
    };
    if (forwards < microbatches) add(ActionKind::forward, forwards);
    if (backwards < forwards) add(ActionKind::backward, backwards);
  };
  extend(0, 0);
  return all;
}

std::int64_t least_over_orders(const RandomCase& given) {
  const Layout layout(given.plan);
  ScheduleReplay replay(layout, given.costs);
  std::vector<std::vector<std::vector<Action>>> choices;
  for (int s = 0; s < given.plan.num_stages(); ++s) choices.push_back(orders(s, given.plan.num_microbatches()));
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  Rows rows(choices.size());
  const std::function<void(std::size_t)> choose = [&](std::size_t s) {
    if (s == rows.size()) {
      const std::int64_t ns = replay.run(rows);
      if (ns >= 0) least = std::min(least, ns);
      return;
    }
    for (const std::vector<Action>& row : choices[s]) {
      rows[s] = row;
      choose(s + 1);
    }
  };
  choose(0);
  return least;
}

TEST(WarmUps, AreTheBestOfAll) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const RandomCase given = random_case(seed, 4, 8, seed % 3 == 0 ? 20 : 400);
    EXPECT_EQ(best_step(given), least_over_warm_ups(given)) << seed;
  }
}

TEST(WarmUps, StayWithinTheBytes) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const RandomCase given = random_case(seed, 6, 30, 400);
    const std::vector<int> warm_ups = best_warm_ups(Layout(given.plan), given.costs);
    for (int s = 0; s < given.plan.num_stages(); ++s) EXPECT_TRUE(fits(given, s, warm_ups[as_index(s)])) << seed << " stage " << s;
  }
}

TEST(WarmUps, AreNoSlowerThanTheTextbooksAndAllForwardsFirst) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomCase given = random_case(seed, 8, 40, 300);
    given.costs.free_bytes.clear();
    const std::int64_t best = best_step(given);
    EXPECT_LE(best, step_of(given, textbook_warm_ups(Layout(given.plan)))) << seed;
    EXPECT_LE(best, step_of(given, std::vector<int>(given.costs.stages.size(), given.plan.num_microbatches()))) << seed;
  }
}

TEST(WarmUps, ReachTheBoundOfEveryOrderMostly) {
  int reached = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomCase given = random_case(seed, 3, seed % 2 == 0 ? 3 : 4, 400);
    given.costs.free_bytes.clear();
    const std::int64_t bound = shortest_of_any_order(Layout(given.plan), given.costs);
    const std::int64_t best = best_step(given);
    const std::int64_t least = least_over_orders(given);
    EXPECT_GE(least, bound) << seed;
    EXPECT_GE(best, bound) << seed;
    EXPECT_LE(static_cast<double>(best), 1.05 * static_cast<double>(least)) << "orders that are not 1F1B's, " << seed;
    reached += best == bound ? 1 : 0;
  }
  EXPECT_GT(reached, 240);
}

// All warm-ups are tried here, so the laws hold.
TEST(WarmUps, ObeyTheLaws) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const RandomCase given = random_case(seed, 3, 8, 400);
    const std::int64_t step = best_step(given);
    std::mt19937 random(seed);
    const auto s = std::uniform_int_distribution<std::size_t>(0, given.costs.stages.size() - 1)(random);
    RandomCase other = given;
    other.costs.stages[s].send_output_ns /= 2;
    EXPECT_LE(best_step(other), step) << "a faster link, " << seed;
    other = given;
    other.costs.stages[s].backward_ns -= other.costs.stages[s].backward_ns / 4;
    EXPECT_LE(best_step(other), step) << "a smaller cost, " << seed;
    other = given;
    for (std::int64_t& bytes : other.costs.free_bytes) bytes += 5;
    EXPECT_LE(best_step(other), step) << "more memory, " << seed;
    other = given;
    for (StageCosts& stage : other.costs.stages)
      for (std::int64_t* ns : {&stage.forward_ns, &stage.backward_ns, &stage.recompute_ns, &stage.send_output_ns, &stage.send_gradient_ns})
        *ns *= 2;
    EXPECT_EQ(best_step(other), 2 * step) << "all times doubled, " << seed;
  }
}

}  // namespace
}  // namespace mptune::planner
