#include <gmock/gmock.h>

#include <random>
#include <utility>
#include <vector>

#include "planner/plan/plan_words.h"
#include "planner/search/make_plan.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"
#include "tests/planner/search/brute_force.h"

namespace mptune::planner {
namespace {

using testing::BruteForce;
using ::testing::HasSubstr;
using testing::make_profile;
using testing::names;

// Copies are cheap, sums over replicas expensive: pipelines win.
CostModel for_pipelines(std::mt19937& random, int layers, int devices) {
  testing::ProfileShape shape{.layers = layers, .devices = devices, .latency_s = 1e-5, .bytes_per_second = 1e8, .reduce_s_per_byte = 1e-4};
  return CostModel(make_profile(shape, testing::random_factors(random, layers)));
}

SearchSpace space_of(int devices, int batch) {
  SearchSpace space;
  space.devices = names(devices);
  space.batch = batch;
  space.capabilities = testing::kWholeBackwards;
  return space;
}

TEST(Anytime, TellsOfEveryImprovementAndEndsWithTheBest) {
  std::mt19937 random(50);
  const CostModel cost = for_pipelines(random, 8, 3);
  SearchSpace space = space_of(3, 12);
  std::vector<double> steps;
  space.improved = [&](const Candidate& candidate) { steps.push_back(candidate.prediction.step_s); };
  const SearchResult result = search_plans(space, cost);
  ASSERT_GT(steps.size(), 2u);
  EXPECT_TRUE(std::ranges::is_sorted(steps, std::ranges::greater_equal{}));
  EXPECT_EQ(steps.back(), result.ranked[0].prediction.step_s);
}

TEST(Anytime, TheFirstPlanIsTheFirstThatFits) {
  std::mt19937 random(51);
  const CostModel cost(make_profile(testing::random_shape(random, 20, 4), testing::random_factors(random, 20)));
  SearchSpace space = space_of(4, 16);
  space.most_actions = 1;
  EXPECT_EQ(search_plans(space, cost).ranked.size(), 9u + 3u) << "the un-pipelined plans are looked at in any case";
}

TEST(Anytime, StopsAtOnce) {
  std::mt19937 random(52);
  const CostModel cost = for_pipelines(random, 30, 6);
  SearchSpace space = space_of(6, 64);
  space.keep = 4;
  int asked = 0;
  bool told = false;
  space.stop = [&](double part) {
    EXPECT_EQ(part, 1);
    EXPECT_FALSE(told) << "asked again after it was told to stop";
    return told = ++asked > 20;
  };
  const SearchResult result = search_plans(space, cost);
  EXPECT_FALSE(result.ranked.empty());
  EXPECT_FALSE(result.complete);
  EXPECT_LT(result.lower_bound_s, result.ranked[0].prediction.step_s);
}

// 62 layers on 8 devices: over a thousand families.
CostModel of_many_families() {
  std::mt19937 random(1);
  testing::ProfileShape shape = testing::random_shape(random, 62, 8);
  shape.sender_copies = false;
  shape.reduce_s_per_byte = 1e-4;
  return CostModel(make_profile(shape, testing::random_factors(random, 62)));
}

// A search that is told to stop at a question, and what it told of.
struct StoppedSearch {
  StoppedSearch(const CostModel& cost, int questions) {
    SearchSpace space = space_of(8, 32);
    space.keep = 1;
    space.stop = [&](double) { return ++asked >= questions; };
    space.improved = [&](const Candidate& candidate) { told.emplace_back(asked, candidate.prediction.step_s); };
    result = search_plans(space, cost);
  }
  int asked = 0;
  std::vector<std::pair<int, double>> told;  // questions before a better plan was found, its step
  SearchResult result;
};

// The un-pipelined plans come unasked, a pipeline with the next simulation; whoever says stop is not asked again, and has a bound that
// holds.
TEST(Anytime, HasAPlanAtOnce) {
  const CostModel cost = of_many_families();
  const StoppedSearch first(cost, 1), second(cost, 2);
  EXPECT_LT(first.result.best_pipeline, 0);
  EXPECT_GE(second.result.best_pipeline, 0);
  EXPECT_EQ(second.result.simulated, first.result.simulated + 1);
}

// A search that is stopped has found what one that goes on had found by then.
TEST(Anytime, HasBetterPlansTheLongerItRuns) {
  constexpr int kQuestions = 30'000;
  const CostModel cost = of_many_families();
  std::vector<std::pair<int, double>> told = StoppedSearch(cost, kQuestions).told;
  // Of plans found between two questions the last one counts.
  for (std::size_t i = told.size(); i-- > 1;)
    if (told[i - 1].first == told[i].first) told.erase(told.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  ASSERT_GT(told.size(), 3u);
  for (const auto& [asked, step_s] : told) {
    SCOPED_TRACE(asked);
    const StoppedSearch stopped(cost, asked + 1);
    EXPECT_EQ(stopped.asked, asked + 1);
    EXPECT_EQ(stopped.result.ranked.at(0).prediction.step_s, step_s);
    EXPECT_EQ(stopped.told.back().second, step_s);
    EXPECT_LT(stopped.result.lower_bound_s, step_s);
    EXPECT_FALSE(stopped.result.complete);
  }
}

TEST(NotExecutable, IsListedWhereItIsFaster) {
  std::mt19937 random(53);
  int listed = 0;
  for (int round = 0; round < 12; ++round) {
    const CostModel cost = for_pipelines(random, 5, 2);
    SearchSpace space = space_of(2, 8);
    space.schedules = {"naive", "gpipe", "1f1b", "interleaved", "zb1p", "zbv"};
    BruteForce brute{space, cost, testing::counts_of(8)};
    brute.run();
    const SearchResult result = search_plans(space, cost);
    EXPECT_EQ(result.ranked[0].prediction.step_s, brute.all[0].prediction.step_s);
    ASSERT_EQ(!result.not_executable.empty(), brute.beyond[0].prediction.step_s < brute.all[0].prediction.step_s) << round;
    for (const NotExecutable& plan : result.not_executable) {
      EXPECT_LT(plan.candidate.prediction.step_s, result.ranked[0].prediction.step_s);
      EXPECT_EQ(plan.missing, MissingCapability::split_backward);
    }
    if (result.not_executable.empty()) continue;
    ++listed;
    EXPECT_EQ(result.not_executable[0].candidate.prediction.step_s, brute.beyond[0].prediction.step_s) << round;
  }
  EXPECT_GT(listed, 3);
}

TEST(NotExecutable, NothingIsWhereTheRuntimeDoesAll) {
  std::mt19937 random(56);
  const CostModel cost = for_pipelines(random, 5, 2);
  SearchSpace space = space_of(2, 8);
  space.capabilities = {};
  space.schedules = {"1f1b", "zb1p"};
  const SearchResult result = search_plans(space, cost);
  EXPECT_TRUE(result.not_executable.empty());
  EXPECT_EQ(result.ranked[0].plan.schedule, "zb1p");
}

TEST(RejectedClasses, SayWhy) {
  std::mt19937 random(57);
  const CostModel cost = for_pipelines(random, 6, 3);
  SearchSpace space = space_of(3, 24);
  const SearchResult result = search_plans(space, cost);
  for (const RejectedClass& rejected : result.classes) EXPECT_GT(rejected.count, 0);
  using Kind = PipelineChoice::Kind;
  const auto place = [&](const PipelineChoice& choice) { return std::ranges::find(result.classes, choice, &RejectedClass::choice); };
  const auto twelve = place({Kind::microbatches, 12, ""}), one = place({Kind::microbatches, 1, ""});
  ASSERT_NE(twelve, result.classes.end());
  ASSERT_NE(one, result.classes.end());
  EXPECT_LT(place({Kind::microbatches, 2, ""}), twelve) << "numbers in their order";
  EXPECT_EQ(one->why, RejectedClass::Why::slower_by_bound);
  EXPECT_GT(one->time_ratio, 1);
  const auto split = place({Kind::schedule, 0, "zb1p"});
  ASSERT_NE(split, result.classes.end());
  EXPECT_EQ(split->why, RejectedClass::Why::not_executable);
  EXPECT_EQ(split->missing, MissingCapability::split_backward);
  ASSERT_EQ(result.best_pipeline, 0);
  const Plan& best = result.ranked.at(0).plan;
  EXPECT_EQ(place({Kind::schedule, 0, best.schedule}), result.classes.end());
}

// Of plans as fast as each other, the answer is the same however many are kept: what copies fewer bytes, be they more copies or not.
TEST(Ranking, BreaksTiesAsThePartitionDoes) {
  Profile profile = make_profile({.layers = 8, .devices = 3}, {100, 1, 1, 1, 1, 1, 1, 1});
  for (LayerEdge& edge : profile.edges) edge.bytes_per_sample = edge.to == 1 ? 900 : edge.to == 4 || edge.to == 6 ? 10 : 50;
  for (std::size_t layer = 2; layer < 6; ++layer)
    for (LayerCost& cost : profile.classes[0].layers[layer].by_samples) cost.saved_activation_bytes *= 100'000;
  const CostModel cost(profile);
  SearchSpace space = space_of(3, 6);
  space.microbatch_counts = {6};
  space.schedules = {"1f1b"};
  space.stage_counts = {3};
  space.keep = 1;
  const Plan one = search_plans(space, cost).ranked.at(0).plan;
  EXPECT_EQ(one.stages[2].first_layer, 4);
  space.keep = 40;
  const SearchResult many = search_plans(space, cost);
  EXPECT_EQ(many.ranked.at(0).plan, one);
  EXPECT_EQ(many.ranked.at(1).prediction.step_s, many.ranked.at(0).prediction.step_s);
}

// Every plan that no other beats in both, by brute force.
std::vector<std::pair<double, std::int64_t>> pareto(const std::vector<Candidate>& all) {
  std::vector<std::pair<double, std::int64_t>> points;
  for (const Candidate& candidate : all) points.emplace_back(candidate.prediction.step_s, most_bytes(candidate));
  std::ranges::sort(points);
  std::vector<std::pair<double, std::int64_t>> front;
  for (const auto& point : points)
    if (front.empty() || point.second < front.back().second) front.push_back(point);
  return front;
}

TEST(MemoryFront, EqualsBruteForce) {
  std::mt19937 random(54);
  for (int round = 0; round < 10; ++round) {
    const CostModel cost(make_profile(testing::random_shape(random, 4, 2), testing::random_factors(random, 4)));
    SearchSpace space = space_of(2, 12);
    space.microbatch_counts = {1, 2, 4, 6, 12};
    space.schedules = {"naive", "gpipe", "1f1b"};
    space.recompute = round % 2 == 0 ? "none" : "all";
    std::vector<Candidate> all;
    for (const int m : space.microbatch_counts) {
      for (int stages = 1; stages <= 2; ++stages) {
        for (const std::vector<int>& replicas : {std::vector<int>(as_index(stages), 1), std::vector<int>{2}}) {
          for (int cut = 1; cut < 4; ++cut) {
            for (const std::string schedule : {"naive", "gpipe", "1f1b"}) {
              if ((schedule == "naive") != (m == 1) || (replicas.size() == 1 && (replicas[0] > m || schedule == "gpipe"))) continue;
              PlanOptions options = testing::options_of(names(replicas.size() == 1 ? replicas[0] : stages), 12, 4, schedule);
              options.replicas = replicas;
              options.microbatches = m;
              options.recompute = space.recompute;
              if (replicas.size() > 1) options.cuts = {cut};
              const Plan plan = make_plan(options);
              all.push_back({plan, predict(plan, cost)});
            }
          }
        }
      }
    }
    std::vector<std::pair<double, std::int64_t>> front;
    for (const Candidate& candidate : memory_front(space, cost, 1)) front.emplace_back(candidate.prediction.step_s, most_bytes(candidate));
    EXPECT_EQ(front, pareto(all)) << round;
  }
}

TEST(MemoryFront, StepsDownByItsShare) {
  std::mt19937 random(55);
  const CostModel cost(make_profile(testing::random_shape(random, 8, 3), testing::random_factors(random, 8)));
  const SearchSpace space = space_of(3, 12);
  const std::vector<Candidate> front = memory_front(space, cost, 0.8);
  ASSERT_GT(front.size(), 2u);
  EXPECT_EQ(front[0].prediction.step_s, search_plans(space, cost).ranked[0].prediction.step_s);
  for (std::size_t i = 1; i < front.size(); ++i) {
    EXPECT_LE(static_cast<double>(most_bytes(front[i])), 0.8 * static_cast<double>(most_bytes(front[i - 1])));
    EXPECT_GT(front[i].prediction.step_s, front[i - 1].prediction.step_s);
  }
}

TEST(MemoryFront, BeginsWithThePlansThatAreKnown) {
  std::mt19937 random(56);
  for (int round = 0; round < 5; ++round) {
    const CostModel cost(make_profile(testing::random_shape(random, 6, 2), testing::random_factors(random, 6)));
    SearchSpace space = space_of(2, 12);
    space.schedules = {"naive", "gpipe", "1f1b"};
    const std::vector<Candidate> known = search_plans(space, cost).ranked;
    const std::vector<Candidate> front = memory_front(space, cost, 0.8, known);
    ASSERT_FALSE(front.empty());
    EXPECT_EQ(front[0].plan, known[0].plan);
    for (const Candidate& candidate : known) {
      const auto dominates = [&](const Candidate& point) {
        return point.prediction.step_s <= candidate.prediction.step_s && 4 * most_bytes(point) <= 5 * most_bytes(candidate);
      };
      EXPECT_TRUE(std::ranges::any_of(front, dominates)) << round << " " << describe(candidate.plan);
    }
    space.stop = [](double) { return true; };
    const std::vector<Candidate> first = memory_front(space, cost, 0.8, known);
    ASSERT_EQ(first.size(), 1u);
    EXPECT_EQ(first[0].plan, known[0].plan);
  }
}

}  // namespace
}  // namespace mptune::planner
