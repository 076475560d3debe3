#include "planner/advise/fit.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "planner/schedule/schedule.h"
#include "planner/search/make_plan.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "tests/planner/random_plans.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::ones;
using testing::ProfileShape;
using testing::random_cost;
using testing::scheduled;
using testing::stages_of;

constexpr Capabilities kWhole{
    .several_stages_per_device = true, .split_backward = false, .replicas = true, .recompute_stages = true, .recompute_layers = true};

std::vector<std::string> sleepers(int count) {
  std::vector<std::string> names;
  for (int d = 0; d < count; ++d) names.push_back("sleep:" + std::to_string(d));
  return names;
}

FitQuestion question_of(const Plan& plan, int devices, std::int64_t cap) {
  return {plan, sleepers(devices), std::vector<std::int64_t>(as_index(devices), cap), kWhole};
}

bool fits(const Plan& plan, const FitQuestion& question, const CostModel& cost) {
  return excess_of(plan, cost.peak_bytes(plan), question.devices, question.memory_bytes).bytes == 0;
}

PlanOptions options_for(int devices, int batch, int layers) {
  PlanOptions options;
  options.devices = sleepers(devices);
  options.batch = batch;
  options.layers = layers;
  return options;
}

Plan one_stage(int devices, int layers) {
  PlanOptions options = options_for(devices, 1, layers);
  options.stages = 1;
  return make_plan(options);
}

std::int64_t largest(const std::vector<std::int64_t>& bytes) {
  return *std::ranges::max_element(bytes);
}

const FittingChange* with_option(const FitAnswer& answer, const FieldValue& option) {
  for (const FittingChange& change : answer.changes)
    if (change.changes == 1 && std::ranges::find(change.options, option) != change.options.end()) return &change;
  return nullptr;
}

/// What each kind of change comes to at least, found without the code under test: amounts as fit.h counts them.
struct SingleChanges {
  std::set<std::pair<std::string, int>> least;  // kind, amount

  SingleChanges(const FitQuestion& question, const CostModel& cost) : question_(question), cost_(cost), base_(question.plan) {
    const int layers = cost.layers();
    for (const char* name : {"gpipe", "1f1b", "eager-1f1b"})
      if (name != base_.schedule) attempt("schedule", 1, [&](Plan& plan) { make_schedule(plan, name); });
    for (int m = base_.num_microbatches() + 1; m <= base_.global_batch_size(); ++m) {
      attempt("split", m, [&](Plan& plan) {
        plan.microbatch_sizes = split_evenly(base_.global_batch_size(), m);
        make_schedule(plan, base_.schedule);
      });
    }
    for (int set = 1; set < 1 << base_.num_stages(); ++set) {
      attempt("recompute", std::popcount(static_cast<unsigned>(set)), [&](Plan& plan) {
        for (int s = 0; s < base_.num_stages(); ++s)
          if ((set >> s & 1) != 0) plan.stages[as_index(s)].recompute = {Recompute::Mode::all, {}, {}};
      });
    }
    for (int s = 0; s + 1 < base_.num_stages(); ++s) {
      for (int cut = 1; cut < layers; ++cut) {
        const auto i = as_index(s);
        if (cut <= base_.stages[i].first_layer || cut >= base_.stages[i + 1].last_layer) continue;
        attempt("cut", std::abs(cut - base_.stages[i].last_layer),
                [&](Plan& plan) { plan.stages[i].last_layer = plan.stages[i + 1].first_layer = cut; });
      }
    }
  }

 private:
  void attempt(const std::string& kind, int amount, const std::function<void(Plan&)>& change) {
    Plan plan = base_;
    change(plan);
    if (!fits(plan, question_, cost_)) return;
    const auto known = std::ranges::find(least, kind, &std::pair<std::string, int>::first);
    if (known != least.end() && known->second <= amount) return;
    if (known != least.end()) least.erase(known);
    least.insert({kind, amount});
  }
  const FitQuestion& question_;
  const CostModel& cost_;
  const Plan& base_;
};

/// Kind and amount of an answer's change.
std::pair<std::string, int> amount_of(const FittingChange& change, const Plan& base) {
  const Field field = change.options.back().field;
  if (field == Field::schedule) return {"schedule", 1};
  if (field == Field::microbatches) return {"split", change.plan.num_microbatches()};
  if (field == Field::recompute) {
    int count = 0;
    for (const Stage& stage : change.plan.stages) count += stage.recompute.mode == Recompute::Mode::all ? 1 : 0;
    return {"recompute", count};
  }
  int moved = 0;
  for (std::size_t s = 0; s + 1 < base.stages.size(); ++s) moved += std::abs(change.plan.stages[s].last_layer - base.stages[s].last_layer);
  return {"cut", moved};
}

TEST(SmallestChanges, AreThoseOfEveryKindThatBruteForceFinds) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  std::map<std::string, int> seen;
  for (int trial = 0; trial < 300; ++trial) {
    const int stages = draw(1, 3);
    const int layers = draw(stages, 7);
    const CostModel cost = random_cost(random, layers, stages);
    Plan plan = stages_of(layers, std::vector<int>(as_index(stages), 1), split_evenly(draw(6, 14), draw(1, 5)));
    make_schedule(plan, draw(0, 1) == 0 ? "gpipe" : "1f1b");
    FitQuestion question = question_of(plan, stages, 0);
    const std::vector<std::int64_t> peaks = cost.peak_bytes(plan);
    for (int d = 0; d < stages; ++d) {
      const double share = std::uniform_real_distribution<double>(0.5, 2.0)(random);
      question.memory_bytes[static_cast<std::size_t>(d)] = static_cast<std::int64_t>(share * static_cast<double>(peaks[as_index(d)]));
    }
    const FitAnswer answer = smallest_changes_that_fit(question, cost);
    ASSERT_EQ(answer.excess.bytes == 0, fits(plan, question, cost));
    if (answer.excess.bytes == 0) continue;
    const SingleChanges truth(question, cost);
    std::set<std::pair<std::string, int>> found;
    double before = 0;
    for (const FittingChange& change : answer.changes) {
      EXPECT_TRUE(fits(change.plan, question, cost));
      EXPECT_NO_THROW(validate(change.plan, layers, "change"));
      EXPECT_NO_THROW(validate_schedule(change.plan, "change"));
      EXPECT_EQ(change.prediction, predict(change.plan, cost));
      EXPECT_TRUE(change.changes > 1 || change.prediction.step_s >= before) << "the fastest comes first";
      before = change.prediction.step_s;
      if (change.changes > 1) continue;
      const auto amount = amount_of(change, plan);
      ++seen[amount.first];
      // All cuts moved at once are the last resort of their kind.
      if (amount.first != "cut" || truth.least.contains(amount)) found.insert(amount);
    }
    ASSERT_EQ(found, truth.least) << trial;
    const bool singles = std::ranges::all_of(answer.changes, [](const FittingChange& c) { return c.changes == 1; });
    EXPECT_TRUE(singles || truth.least.empty()) << "two changes only where one does not do";
  }
  for (const char* kind : {"schedule", "split", "recompute", "cut"}) EXPECT_GT(seen[kind], 5) << kind;
}

TEST(SmallestChanges, AreNoneWhereThePlanFits) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  const Plan plan = scheduled(stages_of(4, {1, 1}, ones(4)), "1f1b");
  const std::int64_t peak = largest(cost.peak_bytes(plan));
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 2, peak), cost);
  EXPECT_EQ(answer.excess, Excess{});
  EXPECT_TRUE(answer.changes.empty());
  EXPECT_EQ(smallest_changes_that_fit(question_of(plan, 2, 0), cost).excess, Excess{}) << "no cap, no excess";
}

TEST(SmallestChanges, OneByteTooManyIsTooMany) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  const Plan plan = scheduled(stages_of(4, {1, 1}, {4, 4}), "1f1b");
  const std::int64_t peak = largest(cost.peak_bytes(plan));
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 2, peak - 1), cost);
  EXPECT_EQ(answer.excess, (Excess{1, "sleep:0", peak - 1}));
  EXPECT_NE(with_option(answer, {Field::microbatches, "3"}), nullptr);
}

TEST(SmallestChanges, GpipeBecomes1f1bWithTheSameSplit) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  const Plan plan = scheduled(stages_of(4, {1, 1}, ones(12)), "gpipe");
  const Plan other = scheduled(plan, "1f1b");
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 2, largest(cost.peak_bytes(other))), cost);
  ASSERT_FALSE(answer.changes.empty());
  const FittingChange* change = with_option(answer, {Field::schedule, "1f1b"});
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->plan, other);
}

TEST(SmallestChanges, NaiveIsSplitAs1f1b) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  const Plan plan = scheduled(stages_of(4, {1, 1}, {12}), "naive");
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 2, largest(cost.peak_bytes(plan)) * 9 / 10), cost);
  const FittingChange* change = with_option(answer, {Field::schedule, "1f1b"});
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->options.back(), (FieldValue{Field::microbatches, std::to_string(change->plan.num_microbatches())}));
  EXPECT_GT(change->plan.num_microbatches(), 1);
}

TEST(SmallestChanges, SpreadOverFurtherDevices) {
  const CostModel cost(make_profile({.layers = 6, .devices = 3}));
  const Plan plan = one_stage(3, 6);
  const Plan three = make_plan(options_for(3, 1, 6));
  // One sample can't be split.
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 3, largest(cost.peak_bytes(three))), cost);
  const FittingChange* change = with_option(answer, {Field::stages, "3"});
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->plan, three) << "what the option makes";
  EXPECT_EQ(change->options.size(), 1u);
}

// Of a plan that recomputes one stage the wider one recomputes all: the options say so, and make the plan that was priced.
TEST(SmallestChanges, SpreadWithWhatTheyRecompute) {
  const CostModel cost(make_profile({.layers = 6, .devices = 3}));
  PlanOptions options = options_for(2, 1, 6);
  options.recompute = "0";
  const Plan plan = make_plan(options);
  options = options_for(3, 1, 6);
  options.recompute = "0,1,2";
  const Plan three = make_plan(options);
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 3, largest(cost.peak_bytes(three))), cost);
  const FittingChange* change = with_option(answer, {Field::stages, "3"});
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->plan, three);
  EXPECT_EQ(change->options, (std::vector<FieldValue>{{Field::stages, "3"}, {Field::recompute, "all"}}));
}

TEST(SmallestChanges, CutFurtherStagesWhereTheyHaveRoom) {
  // The first layer keeps as much as thirty others: cut evenly, its device would be over.
  const CostModel cost(make_profile({.layers = 6, .devices = 2}, {30, 1, 1, 1, 1, 1}));
  const Plan plan = one_stage(2, 6);
  Plan roomy = scheduled(stages_of(6, {1, 1}, {1}), "1f1b");
  roomy.stages[0].last_layer = roomy.stages[1].first_layer = 2;
  const std::int64_t cap = largest(cost.peak_bytes(roomy));
  ASSERT_LT(cap, largest(cost.peak_bytes(scheduled(stages_of(6, {1, 1}, {1}), "1f1b"))));
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 2, cap), cost);
  const FittingChange* change = with_option(answer, {Field::stages, "2"});
  ASSERT_NE(change, nullptr);
  ASSERT_EQ(change->options.size(), 2u);
  EXPECT_EQ(change->options[1].field, Field::cuts);
  EXPECT_TRUE(change->options[1].value == "2" || change->options[1].value == "1") << change->options[1].value;
}

TEST(SmallestChanges, ReplicasBecomeStages) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  PlanOptions options = options_for(2, 2, 4);
  options.microbatches = 2;
  options.replicas = {2};
  const Plan plan = make_plan(options);
  options.replicas = {1, 1};
  const Plan chain = make_plan(options);
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 2, largest(cost.peak_bytes(chain))), cost);
  const FittingChange* change = with_option(answer, {Field::replicas, "1,1"});
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->plan.stages, chain.stages);
}

TEST(SmallestChanges, OnlyTheFullDeviceRecomputes) {
  const CostModel cost(make_profile({.layers = 6, .devices = 3}));
  const Plan plan = scheduled(stages_of(6, {1, 1, 1}, ones(6)), "1f1b");
  FitQuestion question = question_of(plan, 3, 0);
  question.memory_bytes = {0, cost.peak_bytes(plan)[1] - 1, 0};
  const FitAnswer answer = smallest_changes_that_fit(question, cost);
  EXPECT_EQ(answer.excess.device, "sleep:1");
  const FittingChange* change = with_option(answer, {Field::recompute, "1"});
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->plan.stages[0], plan.stages[0]);
}

TEST(SmallestChanges, SeveralStagesOnADeviceRecomputeAsFewAsSuffice) {
  const CostModel cost(make_profile({.layers = 8, .devices = 2}));
  PlanOptions options = options_for(2, 4, 8);
  options.schedule = "interleaved";
  const Plan plan = make_plan(options);
  FitQuestion question = question_of(plan, 2, 0);
  question.memory_bytes = {cost.peak_bytes(plan)[0] - 1, 0};
  const FitAnswer answer = smallest_changes_that_fit(question, cost);
  EXPECT_TRUE(with_option(answer, {Field::recompute, "0"}) != nullptr || with_option(answer, {Field::recompute, "2"}) != nullptr);
  EXPECT_EQ(with_option(answer, {Field::recompute, "0,2"}), nullptr);
}

TEST(SmallestChanges, TakeTwoKindsOnlyWhereNoneAloneDoes) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  const Plan plan = scheduled(stages_of(4, {1, 1}, {4, 4}), "gpipe");
  Plan both = plan;
  both.microbatch_sizes = ones(8);
  both = scheduled(both, "gpipe");
  for (Stage& stage : both.stages) stage.recompute = {Recompute::Mode::all, {}, {}};
  Plan most = scheduled(both, "1f1b");
  const FitQuestion question = question_of(plan, 2, largest(cost.peak_bytes(most)));
  ASSERT_TRUE(SingleChanges(question, cost).least.empty());
  const FitAnswer answer = smallest_changes_that_fit(question, cost);
  ASSERT_FALSE(answer.changes.empty());
  for (const FittingChange& change : answer.changes) {
    EXPECT_GT(change.changes, 1);
    EXPECT_TRUE(fits(change.plan, question, cost));
  }
}

TEST(SmallestChanges, RowsOfNoNamedScheduleStayAsTheyAre) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  Plan plan = scheduled(stages_of(4, {1, 1}, {2, 2, 2}), "gpipe");
  plan.schedule = "mine";
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 2, largest(cost.peak_bytes(plan)) - 1), cost);
  for (const FittingChange& change : answer.changes) {
    const bool scheduled_anew = change.options.front().field == Field::schedule;
    EXPECT_TRUE(scheduled_anew || change.plan.actions == plan.actions);
    EXPECT_EQ(change.plan.num_microbatches(), 3);
  }
  EXPECT_TRUE(std::ranges::any_of(answer.changes, [](const FittingChange& c) { return c.options[0].field == Field::recompute; }));
}

TEST(SmallestChanges, SayHowManyDevicesWouldDoWhereNothingFits) {
  Profile profile = make_profile({.layers = 8, .devices = 5});
  const CostModel cost(profile);
  const std::int64_t cap = largest(cost.peak_bytes(scheduled(stages_of(8, {1, 1, 1, 1}, {1}), "1f1b")));
  const Plan plan = scheduled(stages_of(8, {1, 1}, {1}), "1f1b");
  const FitAnswer answer = smallest_changes_that_fit(question_of(plan, 2, cap), cost);
  EXPECT_TRUE(answer.changes.empty());
  EXPECT_GT(answer.nearest.bytes, 0);
  EXPECT_LE(answer.nearest.bytes, answer.excess.bytes);
  // By brute force over all cuts of three and of four stages.
  const auto some_cuts_fit = [&](int stages) {
    for (int set = 0; set < 1 << 7; ++set) {
      if (std::popcount(static_cast<unsigned>(set)) != stages - 1) continue;
      Plan other = stages_of(8, std::vector<int>(as_index(stages), 1), {1});
      int s = 0;
      for (int cut = 1; cut < 8; ++cut) {
        if ((set >> (cut - 1) & 1) == 0) continue;
        other.stages[as_index(s)].last_layer = other.stages[as_index(s) + 1].first_layer = cut;
        ++s;
      }
      if (fits(scheduled(other, "1f1b"), question_of(other, stages, cap), cost)) return true;
    }
    return false;
  };
  const int least = some_cuts_fit(3) ? 3 : 4;
  ASSERT_TRUE(some_cuts_fit(least));
  EXPECT_EQ(answer.needed.count, least);
  EXPECT_TRUE(answer.needed.options.empty());
}

TEST(SmallestChanges, NoNumberOfDevicesHoldsALayerThatIsTooLarge) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  const FitAnswer answer = smallest_changes_that_fit(question_of(scheduled(stages_of(4, {1, 1}, {4}), "1f1b"), 2, 10), cost);
  EXPECT_TRUE(answer.changes.empty());
  EXPECT_EQ(answer.needed.count, 0);
  EXPECT_GT(answer.nearest.bytes, 0);
}

TEST(SmallestChanges, AreBoundedByTheirWork) {
  const CostModel cost(make_profile({.layers = 7, .devices = 2}));
  FitQuestion question = question_of(scheduled(stages_of(7, {1, 1}, split_evenly(200, 4)), "gpipe"), 2, 10);
  question.most_actions = 100;
  const FitAnswer answer = smallest_changes_that_fit(question, cost);
  EXPECT_TRUE(answer.changes.empty());
  EXPECT_FALSE(answer.complete);
}

}  // namespace
}  // namespace mptune::planner
