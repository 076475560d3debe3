#include "tuner/study/recommend/finalists.h"

#include <gtest/gtest.h>

#include "planner/plan/file/plan_file.h"
#include "tests/support/tuner_fakes.h"

namespace mptune::tuner {
namespace {

TEST(Finalists, ReasonsForASeat) {
  std::vector<Trial> trials;
  const auto add = [&](const Plan& plan, double step_s, std::int64_t peak) {
    Trial trial;
    trial.plan = plan;
    trial.plan_key = plan_key(plan);
    trial.outcome = Measured{samples_of({step_s, step_s}), {peak}, 0};
    trials.push_back(trial);
  };
  add(testing::fake_plan(0, 1), 1.0, 100);  // baseline, fastest
  add(testing::fake_plan(4, 4), 1.3, 60);   // best pipeline
  add(testing::fake_plan(3, 8), 1.4, 40);   // best in half the memory
  add(testing::fake_plan(0, 4), 1.04, 90);  // runner-up
  add(testing::fake_plan(2, 8), 1.5, 45);   // no reason
  const std::vector<planner::NamedPlan> baselines{{"single_device", testing::fake_plan(0, 1)}, {"gone", testing::fake_plan(6, 2)}};
  const auto entries = choose_finalists(trials, baselines, 100);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].name, "single_device");
  EXPECT_EQ(entries[1].plan, testing::fake_plan(4, 4));
  EXPECT_EQ(entries[2].plan, testing::fake_plan(3, 8));
  EXPECT_EQ(entries[3].plan, testing::fake_plan(0, 4));
}

TEST(Finalists, WhatTheAnswerLeadsWithIsLeftOutLast) {
  std::vector<Trial> trials;
  std::vector<planner::NamedPlan> baselines;
  const auto add = [&](const std::string& name, const Plan& plan, double step_s) {
    trials.push_back({.name = name,
                      .plan_key = plan_key(plan),
                      .plan = plan,
                      .prediction = {},
                      .outcome = Measured{samples_of({step_s, step_s}), {100}, 0}});
    if (name != kCandidateName) baselines.push_back({name, plan});
  };
  Plan all_cores = testing::fake_plan(0, 1), channels_last = all_cores;
  all_cores.devices = channels_last.devices = {"cpu:0-1"};
  channels_last.options.memory_format = MemoryFormat::channels_last;
  add("single_device", testing::fake_plan(0, 1), 2.0);
  add("all_cores", all_cores, 1.2);
  add("all_cores_channels_last", channels_last, 1.1);
  add("naive_model_parallel", testing::fake_plan(4, 1), 2.1);
  add("default_pipeline", testing::fake_plan(4, 8), 1.6);
  add("data_parallel", testing::fake_data_parallel_plan(), 1.3);
  add("candidate", testing::fake_plan(5, 4), 1.0);
  std::vector<Series::Entry> entries = choose_finalists(trials, baselines, 0);
  std::vector<std::string> order;
  while (!entries.empty()) order.insert(order.begin(), take_least_important(entries).name);
  EXPECT_EQ(order, (std::vector<std::string>{"candidate", "all_cores_channels_last", "single_device", "all_cores", "data_parallel",
                                             "default_pipeline", "naive_model_parallel"}));
}

std::vector<Series::Entry> three_entries() {
  std::vector<Series::Entry> entries(3);
  for (int i = 0; i < 3; ++i) entries[static_cast<std::size_t>(i)] = {std::to_string(i), {}, {}, 3 - i};
  return entries;
}

// Start-up 1 s, then a second for each step, warm-up included.
double cost_of(const std::vector<Series::Entry>& entries, int rounds) {
  return 1 + static_cast<double>(entries.size()) * (1 + rounds);
}

TEST(Finalists, TimeGoesToTheVerdictsThatItSufficesFor) {
  const auto left_of = [](double budget_s) {
    std::vector<Series::Entry> entries = three_entries();
    const auto taken = take_those_without_time(entries, cost_of, budget_s, budget_s);
    EXPECT_EQ(entries.size() + taken.size(), 3U);
    EXPECT_EQ(entries.front().name, "0") << "the most important one stays";
    return entries.size();
  };
  EXPECT_EQ(left_of(16), 3U) << "four rounds of all";
  EXPECT_EQ(left_of(15), 2U);
  EXPECT_EQ(left_of(5), 2U) << "one round of both";
  EXPECT_EQ(left_of(4), 1U);
  EXPECT_EQ(least_rounds(three_entries(), cost_of, 34), 10);
  EXPECT_EQ(least_rounds(three_entries(), cost_of, 33), 6);
  EXPECT_EQ(least_rounds(three_entries(), cost_of, 22), 6);
  EXPECT_EQ(least_rounds(three_entries(), cost_of, 21), 4);
}

}  // namespace
}  // namespace mptune::tuner
