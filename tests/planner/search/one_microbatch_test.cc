#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "planner/plan/plan.h"
#include "planner/schedule/schedule.h"
#include "planner/search/search.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/search/spaces.h"

namespace mptune::planner {
namespace {

using testing::names;
using testing::random_cost;

/// All orders of the actions of one micro-batch on a device that has these stages: forwards, and whole backwards, or gradients of inputs
/// and later those of weights. With several stages, some block each other.
std::vector<std::vector<Action>> orders_of(const std::vector<int>& stages, const std::vector<ActionKind>& backwards) {
  std::vector<std::vector<Action>> found;
  std::vector<Action> row;
  const auto done = [&](int stage, ActionKind kind) {
    return std::ranges::any_of(row, [&](const Action& action) { return action.stage == stage && action.kind == kind; });
  };
  const std::function<void()> extend = [&] {
    bool ended = true;
    for (const int s : stages) {
      const bool forward = done(s, ActionKind::forward);
      const bool inputs = done(s, ActionKind::backward_input);
      const bool ends = done(s, ActionKind::backward) || done(s, ActionKind::backward_weight);
      ended &= ends;
      if (ends) continue;
      std::vector<ActionKind> next{ActionKind::forward};
      if (forward) next = backwards;
      if (inputs) next = {ActionKind::backward_weight};
      for (const ActionKind kind : next) {
        row.push_back({s, kind, 0});
        extend();
        row.pop_back();
      }
    }
    if (ended) found.push_back(row);
  };
  extend();
  return found;
}

/// The least step of all plans of one micro-batch with these stages: every order on every device, of forwards and these
/// beginnings of a backward.
double least_step(Plan plan, const std::vector<ActionKind>& backwards, const CostModel& cost) {
  std::vector<std::vector<std::vector<Action>>> choices;
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d) {
    std::vector<int> stages;
    for (int s = 0; s < plan.num_stages(); ++s)
      if (plan.stages[as_index(s)].devices.front() == d) stages.push_back(s);
    choices.push_back(orders_of(stages, backwards));
  }
  double least = std::numeric_limits<double>::infinity();
  plan.schedule = "custom";
  plan.actions.assign(choices.size(), {});
  const std::function<void(std::size_t)> choose = [&](std::size_t d) {
    if (d == choices.size()) {
      try {
        validate_schedule(plan, "plan");
      } catch (const Error&) {
        return;  // its rows block each other
      }
      least = std::min(least, predict(plan, cost).step_s);
      return;
    }
    for (const std::vector<Action>& row : choices[d]) {
      plan.actions[d] = row;
      choose(d + 1);
    }
  };
  choose(0);
  return least;
}

/// Calls `use` with a plan of every set of cuts and every placement of a stage on each of `stages` devices.
void each_plan(const SearchSpace& space, int stages, int layers, const std::function<void(const Plan&)>& use) {
  Plan plan;
  plan.microbatch_sizes = {space.batch};
  std::vector<int> order(space.devices.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int>(d);
  const std::function<void(int)> cut = [&](int first) {
    const int left = stages - static_cast<int>(plan.stages.size());
    const int s = static_cast<int>(plan.stages.size());
    if (left == 1) {
      plan.stages.push_back({first, layers, {s}, {}});
      use(plan);
      plan.stages.pop_back();
      return;
    }
    for (int last = first + 1; last <= layers - left + 1; ++last) {
      plan.stages.push_back({first, last, {s}, {}});
      cut(last);
      plan.stages.pop_back();
    }
  };
  do {
    plan.devices.clear();
    for (int s = 0; s < stages; ++s) plan.devices.push_back(space.devices[as_index(order[as_index(s)])]);
    cut(0);
  } while (std::ranges::next_permutation(order).found);
}

TEST(OneMicrobatch, NoProvedPlanIsBeatenAndNoBoundIsFalse) {
  std::mt19937 random(471);
  int proved = 0;
  int split = 0;
  for (int round = 0; round < 300; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 3)(random);
    const int layers = std::uniform_int_distribution<int>(devices, 5)(random);
    const CostModel cost = random_cost(random, layers, devices);
    SearchSpace space;
    space.devices = names(devices);
    space.batch = std::uniform_int_distribution<int>(1, 4)(random);
    space.microbatch_counts = {1};
    space.virtual_counts = {1};
    const SearchResult found = search_plans(space, cost);
    ASSERT_FALSE(found.ranked.empty()) << round;
    double least = std::numeric_limits<double>::infinity();
    for (int stages = 1; stages <= devices; ++stages) {
      each_plan(space, stages, layers, [&](const Plan& plan) {
        const double step = std::min(least_step(plan, {ActionKind::backward}, cost), least_step(plan, {ActionKind::backward_input}, cost));
        const double mixed = least_step(plan, {ActionKind::backward, ActionKind::backward_input}, cost);
        Plan whole = plan;
        make_schedule(whole, "naive");
        EXPECT_LE(lower_bound_of_any_schedule_seconds(whole, cost), mixed + 1e-12) << round;
        least = std::min(least, step);
      });
    }
    EXPECT_LE(found.lower_bound_s, least + 1e-12) << round;
    if (!found.complete) continue;
    ++proved;
    EXPECT_LE(found.ranked.front().prediction.step_s, least + 1e-12) << round;
    split += std::ranges::any_of(found.ranked.front().plan.actions.front(),
                                 [](const Action& a) { return a.kind == ActionKind::backward_input; });
  }
  EXPECT_GT(proved, 250);
  EXPECT_GT(split, 20);
}

}  // namespace
}  // namespace mptune::planner
