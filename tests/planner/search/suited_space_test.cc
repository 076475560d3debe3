#include "planner/search/space/suited_space.h"

#include <gmock/gmock.h>

#include "planner/plan/numerics.h"
#include "planner/search/baselines.h"
#include "planner/search/search.h"
#include "planner/search/search_result.h"
#include "tests/planner/search/spaces.h"
#include "tests/support/error_of.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;

enum class Has { nothing, norm, writer };

Profile profile_of(Has has) {
  std::mt19937 random(1);
  Profile profile = testing::with_names(testing::make_profile(testing::random_shape(random, 6, 2), testing::random_factors(random, 6)),
                                        testing::names(2));
  for (std::size_t i = 0; i < profile.layers.size(); ++i) profile.layers[i].name = "layer" + std::to_string(i);
  if (has == Has::norm) profile.layers[2].batch_statistics = profile.layers[4].batch_statistics = true;
  if (has == Has::writer) profile.layers[3].written_buffer = "layer3.average";
  return profile;
}

SearchSpace space_of(bool keep_numerics) {
  SearchSpace space;
  space.devices = testing::names(2);
  space.batch = 8;
  space.keep_numerics = keep_numerics;
  space.keep = 1'000;
  return space;
}

bool replicated(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) { return stage.devices.size() > 1; });
}

struct Seen {
  bool replicas = false, microbatches = false, changed = false;
};
Seen plans_of(Has has, bool keep_numerics) {
  const Profile profile = profile_of(has);
  const SearchSpace space = suited_space(space_of(keep_numerics), profile.layers);
  std::vector<Plan> plans;
  const SearchResult result = search_plans(space, profile);
  for (const Candidate& candidate : result.ranked) plans.push_back(candidate.plan);
  for (const NotExecutable& beyond : result.not_executable) plans.push_back(beyond.candidate.plan);
  for (const NamedPlan& baseline : baseline_plans(space, static_cast<int>(profile.layers.size()))) plans.push_back(baseline.plan);
  Seen seen;
  for (const Plan& plan : plans) {
    seen.replicas |= replicated(plan);
    seen.microbatches |= plan.num_microbatches() > 1;
    seen.changed |= changed_numerics(plan, profile.layers).has_value();
  }
  EXPECT_FALSE(plans.empty());
  return seen;
}

TEST(SuitedSpace, OfIndependentSamplesIsTheWholeSpace) {
  for (const bool keep : {false, true}) {
    const Seen seen = plans_of(Has::nothing, keep);
    EXPECT_TRUE(seen.replicas && seen.microbatches);
    EXPECT_FALSE(seen.changed);
  }
}

TEST(SuitedSpace, BatchNormsGoWithMicrobatchesUnlessNumericsAreKept) {
  const Seen any = plans_of(Has::norm, false);
  EXPECT_TRUE(any.replicas && any.microbatches && any.changed);
  const Seen kept = plans_of(Has::norm, true);
  EXPECT_FALSE(kept.replicas || kept.microbatches || kept.changed);
}

TEST(SuitedSpace, WrittenBuffersGoWithNoReplicas) {
  const Seen any = plans_of(Has::writer, false);
  EXPECT_FALSE(any.replicas);
  EXPECT_TRUE(any.microbatches && any.changed);
  const Seen kept = plans_of(Has::writer, true);
  EXPECT_FALSE(kept.replicas || kept.microbatches || kept.changed);
}

TEST(SuitedSpace, WhatIsAskedForAndNotAllowedIsRefused) {
  SearchSpace space = space_of(true);
  space.microbatch_counts = {4};
  EXPECT_THAT(testing::refusal_of([&] { (void)suited_space(space, profile_of(Has::norm).layers); }),
              HasSubstr("layer2 normalises over the samples of a micro-batch"));
  space = space_of(false);
  space.replicas = {2};
  EXPECT_THAT(testing::refusal_of([&] { (void)suited_space(space, profile_of(Has::writer).layers); }),
              HasSubstr("layer3 writes its buffer layer3.average once a micro-batch"));
  space.replicas = {1, 1};
  EXPECT_EQ(suited_space(space, profile_of(Has::writer).layers).replicas, space.replicas);
}

TEST(ChangedNumerics, CountsLayersAndTheSmallestMicrobatch) {
  PlanOptions options = testing::options_of(testing::names(2), 7, 6);
  options.microbatches = 3;
  const auto changed = changed_numerics(make_plan(options), profile_of(Has::norm).layers);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->norms, (std::vector<std::string>{"layer2", "layer4"}));
  EXPECT_EQ(changed->samples, 2);
  EXPECT_EQ(changed->batch, 7);
}

/// Sizes of micro-batches of all plans that the search finds, and of the baselines.
std::vector<int> sizes_of(const SearchSpace& space, const Profile& profile) {
  std::vector<int> sizes;
  const auto add = [&](const Plan& plan) { sizes.insert(sizes.end(), plan.microbatch_sizes.begin(), plan.microbatch_sizes.end()); };
  for (const Candidate& candidate : search_plans(space, profile).ranked) add(candidate.plan);
  for (const NamedPlan& baseline : baseline_plans(space, static_cast<int>(profile.layers.size()))) add(baseline.plan);
  return sizes;
}

TEST(SuitedSpace, MicrobatchesAreAsLargeAsAllLayersTakeThem) {
  for (const auto& [least, most] :
       {std::pair{1, 3}, std::pair{2, 0}, std::pair{2, 5}, std::pair{8, 8}, std::pair{1, 1}, std::pair{3, 64}}) {
    Profile profile = profile_of(Has::nothing);
    profile.layers[1].samples.least = least;
    profile.layers[4].samples.most = most;
    const SearchSpace space = suited_space(space_of(false), profile.layers);
    const std::vector<int> sizes = sizes_of(space, profile);
    ASSERT_FALSE(sizes.empty());
    EXPECT_GE(std::ranges::min(sizes), least);
    EXPECT_LE(std::ranges::max(sizes), most > 0 ? most : 8);
    const std::vector<NamedPlan> baselines = baseline_plans(space, static_cast<int>(profile.layers.size()));
    EXPECT_EQ(baselines.front().plan.num_microbatches(), most == 0 ? 1 : (8 + most - 1) / most) << "as few as one device can";
  }
}

TEST(SuitedSpace, OfSizesThatNoSplitHasTheRemedyIsNamed) {
  const auto refusal = [](const SampleRange& samples, const std::vector<int>& counts) {
    Profile profile = profile_of(Has::nothing);
    profile.layers[0].samples = samples;
    SearchSpace space = space_of(false);
    space.microbatch_counts = counts;
    const Error error = testing::error_of([&] { (void)suited_space(space, profile.layers); });
    return error.where() + ": " + error.problem() + "; " + error.remedy();
  };
  EXPECT_EQ(refusal({1, 3}, {2}), "--microbatches: the model takes micro-batches of 1 to 3 samples; give --microbatches from 3 to 8");
  EXPECT_EQ(refusal({8, 0}, {2}), "--microbatches: the model takes micro-batches of at least 8 samples; give --microbatches 1");
  EXPECT_EQ(refusal({4, 4}, {1}), "--microbatches: the model takes micro-batches of 4 samples; give --microbatches 2");
  EXPECT_EQ(refusal({6, 7}, {}),
            "--batch: the model takes micro-batches of 6 to 7 samples, which a batch of 8 can't be split into; give a multiple of 7");
  EXPECT_EQ(refusal({16, 0}, {}),
            "--batch: the model takes micro-batches of at least 16 samples, which a batch of 8 can't be split into; give at least 16");
}

TEST(SuitedSpace, NumericsAreKeptByOneMicrobatchIfTheModelTakesIt) {
  Profile profile = profile_of(Has::norm);
  profile.layers[0].samples = {1, 3};
  const Error error = testing::error_of([&] { (void)suited_space(space_of(true), profile.layers); });
  EXPECT_EQ(error.where(), "--keep-numerics");
  EXPECT_EQ(error.remedy(), "leave it out, or give --batch 3 or less");
}

TEST(SuitedSpace, PlansByOptionsHaveSizesThatTheModelTakes) {
  for (const SampleRange& samples : {SampleRange{1, 3}, SampleRange{4, 0}, SampleRange{8, 8}, SampleRange{2, 2}}) {
    PlanOptions options;
    options.devices = testing::names(2);
    options.batch = 16;
    options.layers = 6;
    options.samples = samples;
    for (const char* schedule : {"1f1b", "gpipe"}) {
      options.schedule = schedule;
      for (const int size : make_plan(options).microbatch_sizes) EXPECT_TRUE(samples.takes(size)) << size << " of " << samples.least;
    }
  }
}

/// Against all splits.
TEST(AllowedCounts, AreThoseOfWhichEverySizeIsAllowed) {
  for (int batch = 1; batch <= 24; ++batch)
    for (int least = 1; least <= 6; ++least)
      for (int most = 0; most <= 12; ++most) {
        if (most > 0 && most < least) continue;
        const auto [fewest, largest] = allowed_counts({least, most}, batch);
        for (int count = 1; count <= batch; ++count) {
          const std::vector<int> sizes = split_evenly(batch, count);
          const SampleRange range{least, most};
          const bool allowed = std::ranges::all_of(sizes, [&](int size) { return range.takes(size); });
          EXPECT_EQ(allowed, fewest <= count && count <= largest) << batch << " " << count << " " << least << " " << most;
        }
      }
}

}  // namespace
}  // namespace mptune::planner
