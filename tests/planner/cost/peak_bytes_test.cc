#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/cost/cost_model.h"
#include "planner/cost/peak_bytes.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/planner/offloading.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_plans.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::scheduled;
using testing::stages_of;

// One layer: parameters 1000, kept 300, workspace 50, boundary 100 bytes per sample.
TEST(PeakBytes, OneDeviceByHand) {
  Profile profile = make_profile({.layers = 4});
  profile.optimizer_state_factor = 2;
  profile.layers[2].buffers_bytes = 77;
  const CostModel cost(profile);
  const Plan whole = scheduled(stages_of(4, {1}, {8}), "naive");
  // The fullest: the last layer's backward makes its gradient, all is kept yet.
  EXPECT_EQ(cost.peak_bytes(whole), (std::vector<std::int64_t>{3 * 4000 + 77 + 4 * 300 * 8 + 50 * 8 + 1000}));
  const Plan parts = scheduled(stages_of(4, {1}, {2, 2, 2, 2}), "1f1b");
  EXPECT_EQ(cost.peak_bytes(parts), (std::vector<std::int64_t>{4 * 4000 + 77 + 4 * 300 * 2 + 50 * 2}));
  const Plan gpipe = scheduled(stages_of(4, {1}, {2, 2, 2, 2}), "gpipe");
  // The fullest: the first backward at the first layer, which has made more than it has freed, the gradient of its output in hand.
  EXPECT_EQ(cost.peak_bytes(gpipe), (std::vector<std::int64_t>{4 * 4000 + 77 + 4 * 300 * 6 + 300 * 2 + 100 * 2 + 50 * 2}));
}

TEST(PeakBytes, TwoStagesByHand) {
  const CostModel cost(make_profile({.layers = 4}));
  const Plan plan = scheduled(stages_of(4, {1, 1}, {1, 1, 1, 1}), "1f1b");
  // First: 2 in flight, gradients of both may have come. Last: 1 in flight, two inputs, its own gradient and the one on its way.
  EXPECT_EQ(cost.peak_bytes(plan),
            (std::vector<std::int64_t>{2 * 2000 + 2 * 2 * 300 + 2 * 100 + 50, 2 * 2000 + 2 * 300 + 2 * 100 + 50 + 200}));
  Plan again = plan;
  again.stages[0].recompute.mode = Recompute::Mode::all;
  // One micro-batch's activations while it runs, the output and the one before it on their way; gradients as before.
  EXPECT_EQ(cost.peak_bytes(again)[0], 2 * 2000 + 2 * 300 + 2 * 100 + 50 + 200);
  EXPECT_EQ(cost.peak_bytes(again)[1], cost.peak_bytes(plan)[1]);
}

// gpipe, four micro-batches of 1200 bytes each: F0 F1 F2 F3 B0 B1 B2 B3. In the first backward those of 0, which came back, of 1, which
// comes back, and of 3, which leaves, are on the device; else it is as in OneDeviceByHand.
TEST(PeakBytes, OffloadedByHand) {
  const CostModel cost(make_profile({.layers = 4}));
  const Plan plain = scheduled(stages_of(4, {1}, testing::ones(4)), "gpipe");
  const Plan plan = testing::with_offload(plain);
  const std::int64_t first_backward = 3 * 1000 + 1000 + 50 + 300 + 100 - 1200;  // at layer 0, above all that is saved
  EXPECT_EQ(cost.peak_bytes(plain)[0], 4000 + 4 * 1200 + first_backward);
  EXPECT_EQ(cost.peak_bytes(plan)[0], 4000 + 3 * 1200 + first_backward);
  EXPECT_EQ(peak_contents(plan, cost)[0].activations_bytes, (std::map<int, std::int64_t>{{0, 1200}, {1, 1200}, {3, 1200}}));
  const MemoryLevels levels = memory_levels(plan, cost)[0];
  EXPECT_EQ(levels.during_bytes,
            (std::vector<std::int64_t>{4000 + 1200 + 50, 4000 + 2400 + 50, 4000 + 2400 + 50, 4000 + 3600 + 50, 4000 + 3600 + first_backward,
                                       8000 + 2400 + 50, 8000 + 2400 + 50, 8000 + 1200 + 50}));
}

// What comes back lies in two buffers that stay: the backward frees nothing of them. Another of 8 micro-batches costs nothing.
TEST(PeakBytes, OffloadedOnAGpuByHand) {
  const CostModel cost(testing::with_gpus(make_profile({.layers = 4}), 0));
  for (const int m : {4, 8}) {
    const Plan plan = testing::with_offload(scheduled(stages_of(4, {1}, testing::ones(m)), "gpipe"));
    const PeakContents contents = peak_contents(plan, cost)[0];
    EXPECT_EQ(contents.communication_buffer_bytes, 2 * 1200);
    EXPECT_EQ(contents.activations_bytes, (std::map<int, std::int64_t>{{m - 1, 1200}})) << "it is still being copied";
    EXPECT_EQ(contents.total(), 4000 + 2400 + 1200 + 3 * 1000 + 1000 + 50 + 100);
  }
}

// Both stages are on one device: the second reads the first one's output while what else the first saved is away.
TEST(PeakBytes, AnOutputStaysForALaterStageOfTheDevice) {
  Profile profile = make_profile({.layers = 2, .devices = 1});
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& cost : layer.by_samples) cost.keeps_output = true;
  const CostModel cost(profile);
  Plan plan = stages_of(2, {1, 1}, testing::ones(2), 1);
  plan.actions = {actions_from_text("0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1", "here")};
  plan.schedule = "by hand";
  const MemoryLevels plain = memory_levels(plan, cost)[0];
  plan.stages[0].offload = true;
  const MemoryLevels away = memory_levels(plan, cost)[0];
  // 1F0: micro-batch 0 of stage 0 is away but for its output.
  EXPECT_EQ(plain.during_bytes[2] - away.during_bytes[2], 300 - 100);
  // 1F1: micro-batch 1, too.
  EXPECT_EQ(plain.during_bytes[3] - away.during_bytes[3], 2 * (300 - 100));
}

TEST(PeakBytes, OffloadingInTheHostsMemoryNeverNeedsMore) {
  std::mt19937 random(12);
  int less = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const Profile profile = make_profile(testing::random_shape(random, 6, 3), testing::random_factors(random, 6));
    const CostModel cost(profile);
    Plan plan = testing::random_plan(random, 6, 3);
    const std::vector<std::int64_t> plain = cost.peak_bytes(plan), offloaded = cost.peak_bytes(testing::with_offload(plan, &random));
    for (std::size_t d = 0; d < plain.size(); ++d) {
      EXPECT_LE(offloaded[d], plain[d]);
      less += offloaded[d] < plain[d] ? 1 : 0;
    }
  }
  EXPECT_GT(less, 30);
}

// Messages of GPUs lie in host memory.
TEST(PeakBytes, MessagesOfReplicasOfOtherRanksTakeNoMemoryOfAGpu) {
  const Profile profile = make_profile({.layers = 2, .devices = 2});
  const auto buffers_on = [&](const std::vector<std::string>& names) {
    Plan plan = scheduled(stages_of(2, {2}, {1, 1}), "1f1b");
    plan.devices = names;
    return peak_contents(plan, CostModel(testing::with_gpus(testing::with_names(profile, names), 0)))[0].communication_buffer_bytes;
  };
  EXPECT_EQ(buffers_on({"0@cuda:0", "1@cuda:0"}), buffers_on({"cuda:0", "cuda:1"}));
}

// In one process replicas read the first one's parameters where they lie. Another rank has its own, and an optimizer's state for them. Of
// three ranks each gets a third of the gradients of one after the other.
TEST(PeakBytes, ReplicasOfOtherRanksHaveParametersOfTheirOwn) {
  Profile profile = make_profile({.layers = 2, .devices = 4});
  profile.optimizer_state_factor = 2;
  const auto contents_on = [&](const std::vector<std::string>& names) {
    Plan plan = scheduled(stages_of(2, {4}, {1, 1, 1, 1}), "1f1b");
    plan.devices = names;
    return peak_contents(plan, CostModel(testing::with_names(profile, names)));
  };
  const auto together = contents_on(testing::cpu_names(4)), apart = contents_on({"0@cpu:0", "0@cpu:1", "1@cpu:2", "2@cpu:3"});
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(together[d].parameters_bytes, d == 0 ? 2000 : 0);
    EXPECT_EQ(apart[d].parameters_bytes, d == 1 ? 0 : 2000);
    EXPECT_EQ(together[d].optimizer_bytes, d == 0 ? 4000 : 0);
    EXPECT_EQ(apart[d].optimizer_bytes, d == 1 ? 0 : 4000);
    EXPECT_EQ(apart[d].communication_buffer_bytes - together[d].communication_buffer_bytes, d == 1 ? 0 : 2 * 667);
  }
}

TEST(PeakBytes, ContentsNameTheMicrobatchesInFlight) {
  const CostModel cost(make_profile({.layers = 4}));
  const std::vector<PeakContents> contents = peak_contents(scheduled(stages_of(4, {1, 1}, {1, 1, 1, 1}), "1f1b"), cost);
  ASSERT_EQ(contents.size(), 2u);
  PeakContents first;
  first.parameters_bytes = first.gradients_bytes = 2000;
  first.activations_bytes = {{1, 600}, {2, 600}};  // behind the first backward, with the gradients
  first.communication_buffer_bytes = 200;
  first.workspace_bytes = 50;
  EXPECT_EQ(contents[0], first);
  EXPECT_EQ(contents[1].activations_bytes, (std::map<int, std::int64_t>{{1, 600}}));
  EXPECT_EQ(contents[1].workspace_bytes, 50 + 200);
}

// Layers 0 and 3 have one parameter of 400 bytes: a stage of both has it once, with its gradient and its optimizer state.
TEST(PeakBytes, TiedWeightsCountOnceInAStage) {
  Profile profile = make_profile({.layers = 4});
  profile.optimizer_state_factor = 2;
  const CostModel apart(profile);
  profile.tied_parameters = {{3, 0, 400}};
  const CostModel tied(profile);
  EXPECT_EQ(tied.parameters_bytes(0, 4), 3600);
  EXPECT_EQ(tied.parameters_bytes(0, 3), 3000);
  EXPECT_EQ(tied.parameters_bytes(1, 4), 3000);
  const Plan one = scheduled(stages_of(4, {1}, {1, 1}), "1f1b"), two = scheduled(stages_of(4, {1, 1}, {1, 1}), "1f1b");
  // The parameter, its state and its gradient. The second backward is fullest in layer 3, with 4 * 300 + 50 bytes; tied in layer 2, with
  // 3 * 300 + 100 + 50, where layer 3's gradient waits for layer 0's.
  EXPECT_EQ(apart.peak_bytes(one)[0] - tied.peak_bytes(one)[0], 4 * 400 - (1050 + 400 - 1250));
  Plan split = one;
  make_schedule(split, "zb1p");
  EXPECT_EQ(apart.peak_bytes(split)[0] - tied.peak_bytes(split)[0], 4 * 400 - 2 * 400) << "that of layer 3 and the sum";
  EXPECT_EQ(apart.peak_bytes(two), tied.peak_bytes(two));
}

// One parameter of three layers: each pair of neighbours among them is named.
TEST(PeakBytes, TiedWeightsOfThreeLayers) {
  Profile profile = make_profile({.layers = 6});
  profile.tied_parameters = {{3, 0, 400}, {5, 3, 400}};
  const CostModel cost(profile);
  EXPECT_EQ(cost.parameters_bytes(0, 6), 6000 - 800);
  EXPECT_EQ(cost.parameters_bytes(0, 5), 5000 - 400);
  EXPECT_EQ(cost.parameters_bytes(1, 6), 5000 - 400);
  EXPECT_EQ(cost.parameters_bytes(1, 5), 4000);
}

// One stage of 4 layers, two micro-batches of one sample: F0 B0 F1 B1.
TEST(MemoryLevels, OneDeviceByHand) {
  const CostModel cost(make_profile({.layers = 4}));
  const std::vector<MemoryLevels> levels = memory_levels(scheduled(stages_of(4, {1}, {1, 1}), "1f1b"), cost);
  ASSERT_EQ(levels.size(), 1u);
  const std::int64_t owned = 4000, kept = 1200, workspace = 50, gradients = 4000;
  EXPECT_EQ(levels[0].before_bytes, owned);
  EXPECT_EQ(levels[0].after_bytes,
            (std::vector<std::int64_t>{owned + kept, owned + gradients, owned + gradients + kept, owned + gradients}));
  // The first backward's fullest moment is at its first layer, which has made all gradients: 300 kept, 100 of its output's gradient.
  EXPECT_EQ(levels[0].during_bytes,
            (std::vector<std::int64_t>{owned + kept + workspace, owned + gradients + 300 + 100 + workspace,
                                       owned + gradients + kept + workspace, owned + gradients + kept + workspace}));
}

// Two layers on one device, one micro-batch of one sample: F0 I0 W0. Each keeps 300 and has parameters of 1000, of which 30 are not split
// off. Each holds 80 of its own, 100 of its input and 100 of the gradients of its output.
TEST(MemoryLevels, OfASplitBackwardByHand) {
  Profile profile = make_profile({.layers = 2, .sizes = {1}});
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& cost : layer.by_samples) cost.split = SplitMemory{280, 100, 100, 40, 60};
  for (ProfileLayer& layer : profile.layers) layer.unsplit_bytes = 30;
  Plan plan = stages_of(2, {1}, {1});
  plan.actions = {{{0, ActionKind::forward, 0}, {0, ActionKind::backward_input, 0}, {0, ActionKind::backward_weight, 0}}};
  const std::vector<MemoryLevels> levels = memory_levels(plan, CostModel(profile));
  ASSERT_EQ(levels.size(), 1u);
  const std::int64_t owned = 2000, held = 2 * 80 + 100 + 100;
  // Input gradients: the last layer's, all kept yet. Weight gradients: the first layer's, whose gradients join those of the last one.
  EXPECT_EQ(levels[0].during_bytes, (std::vector<std::int64_t>{owned + 600 + 50, owned + 60 + 600 + 40, owned + 60 + 1940 + 180 + 60}));
  EXPECT_EQ(levels[0].after_bytes, (std::vector<std::int64_t>{owned + 600, owned + 60 + held, owned + 2000}));
}

std::int64_t parameters_of(const Plan& plan, int device, const CostModel& cost) {
  std::int64_t bytes = 0;
  for (const Stage& stage : plan.stages)
    if (std::ranges::count(stage.devices, device) > 0) bytes += cost.parameters_bytes(stage.first_layer, stage.last_layer);
  return bytes;
}

TEST(MemoryLevels, TheLargestIsThePeakAndNothingIsLeftButGradients) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 100; ++trial) {
    const CostModel cost = testing::random_cost(random, 6, 3);
    const Plan plan = trial % 2 == 0 ? testing::random_plan(random, 6, 3) : testing::random_virtual_plan(random, 6, 3, trial % 3);
    const std::vector<MemoryLevels> levels = memory_levels(plan, cost);
    const std::vector<std::int64_t> peaks = cost.peak_bytes(plan);
    for (std::size_t d = 0; d < levels.size(); ++d) {
      const MemoryLevels& level = levels[d];
      ASSERT_EQ(level.during_bytes.size(), plan.actions[d].size());
      ASSERT_EQ(level.after_bytes.size(), plan.actions[d].size());
      if (plan.actions[d].empty()) continue;
      EXPECT_EQ(*std::ranges::max_element(level.during_bytes), peaks[d]);
      for (std::size_t q = 0; q < level.during_bytes.size(); ++q)
        EXPECT_LE(level.after_bytes[q], level.during_bytes[q]) << trial << " " << q;
      EXPECT_EQ(level.after_bytes.back() - level.before_bytes, parameters_of(plan, static_cast<int>(d), cost)) << "their gradients";
    }
  }
}

TEST(PeakBytes, OneReplicaOwnsTheParametersInHostMemoryAndTheOptimizerState) {
  Profile profile = make_profile({.layers = 2});
  profile.optimizer_state_factor = 1;
  const Plan plan = scheduled(stages_of(2, {2}, {3, 2}), "1f1b");
  // The first layer's backward: all gradients, the first layer's activations, its output's gradient, workspace.
  const std::int64_t first = 300 * 3 + 300 + 150, second = 300 * 2 + 200 + 100;
  EXPECT_EQ(CostModel(profile).peak_bytes(plan), (std::vector<std::int64_t>{3 * 2000 + first, 2000 + second}));
  for (const std::size_t first_gpu : {0, 1})
    EXPECT_EQ(CostModel(testing::with_gpus(profile, first_gpu)).peak_bytes(plan),
              (std::vector<std::int64_t>{3 * 2000 + first, 2 * 2000 + second}))
        << "a GPU's replica has parameters of its own";
}

TEST(PeakBytes, CountsTheInputOfTheFirstStageOfAGpu) {
  Profile profile = make_profile({.layers = 2});
  const Plan plan = scheduled(stages_of(2, {1, 1}, {1, 1}), "1f1b");
  const auto peaks = [&](const Profile& of) { return CostModel(of).peak_bytes(plan); };
  const auto in_host_memory = peaks(profile), without = peaks(testing::with_gpus(profile, 0));
  profile.fingerprint.input = "3x5:float32";
  const auto with = peaks(testing::with_gpus(profile, 0));
  EXPECT_EQ(with[0] - without[0], 2 * 60);
  EXPECT_EQ(with[1], without[1]);
  EXPECT_EQ(peaks(profile), in_host_memory) << "read where it lies";
  profile.fingerprint.input = "64:int64";
  EXPECT_EQ(CostModel(profile).tensors().input_bytes_per_sample(), 512);
  profile.fingerprint.input = "words=64:int64,image=3x5:float32,label=scalar:int64";
  EXPECT_EQ(CostModel(profile).tensors().input_bytes_per_sample(), 512 + 60 + 8);
  profile.fingerprint.input = "99999999x99999999x99999999";
  EXPECT_EQ(CostModel(profile).tensors().input_bytes_per_sample(), 0);
}

TEST(PeakBytes, MoreInFlightRecomputedOrSplitOrdersAsExpected) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    const int stages = std::uniform_int_distribution<int>(2, 4)(random);
    const int m = std::uniform_int_distribution<int>(1, 9)(random);
    const CostModel cost(make_profile({.layers = 8, .devices = 4}, testing::random_factors(random, 8)));
    const Plan bare = stages_of(8, std::vector<int>(as_index(stages), 1), split_evenly(12, m));
    const auto f1b1 = cost.peak_bytes(scheduled(bare, "1f1b"));
    const auto gpipe = cost.peak_bytes(scheduled(bare, "gpipe"));
    Plan again = bare;
    for (Stage& stage : again.stages) stage.recompute.mode = Recompute::Mode::all;
    const auto recomputed = cost.peak_bytes(scheduled(again, "gpipe"));
    for (std::size_t d = 0; d < f1b1.size(); ++d) {
      EXPECT_LE(f1b1[d], gpipe[d]);
      if (m >= 4) {
        EXPECT_LT(recomputed[d], gpipe[d]);
      }
    }
  }
}

TEST(CostModel, KnowsWhereNoStageMayBegin) {
  Profile profile = testing::make_profile({.layers = 3});
  EXPECT_TRUE(CostModel(profile).may_cut(1));
  profile.forbidden_cuts = {{1, "layer 1 works in place"}};
  const CostModel cost(profile);
  EXPECT_TRUE(cost.may_cut(0));
  EXPECT_FALSE(cost.may_cut(1));
  EXPECT_TRUE(cost.may_cut(2));
  for (const int layer : {-1, 0, 3}) {
    profile.forbidden_cuts = {{layer, "nothing"}};
    EXPECT_THROW(CostModel{profile}, Error) << layer;
  }
}

// Four layers on one device: kept 1200, held between both gradients twice that, workspace 50 for one sample.
TEST(PeakBytes, ASplitBackwardHoldsToItsWeightGradients) {
  Profile profile = make_profile({.layers = 4});
  Plan plan = stages_of(4, {1}, {1, 1});
  const auto peak = [&](const char* row) {
    plan.actions = {actions_from_text(row, "")};
    return CostModel(profile).peak_bytes(plan)[0] - 2 * 4000;
  };
  EXPECT_EQ(peak("0F0 0B0 0F1 0B1"), 1200 + 50);
  EXPECT_EQ(peak("0F0 0I0 0W0 0F1 0I1 0W1"), 2 * 1200 + 50);
  EXPECT_EQ(peak("0F0 0I0 0F1 0I1 0W0 0W1"), 4 * 1200 + 50);
  EXPECT_EQ(peak("0F0 0I0 0F1 0W0 0I1 0W1"), 3 * 1200 + 50);
  // Of one layer, held 600 for a micro-batch: both side by side, and workspace for both.
  EXPECT_EQ(peak("0F0 0I0 0F1 0I1 0W0-1"), 4 * 1200 + 2 * 600 + 2 * 50) << "held until the last of the fused micro-batches";
  plan.stages[0].recompute.mode = Recompute::Mode::all;
  EXPECT_EQ(peak("0F0 0F1 0B0 0B1"), 1200 + 50);
  EXPECT_EQ(peak("0F0 0F1 0I0 0W0 0I1 0W1"), 2 * 1200 + 50) << "computed again for the input gradients, kept for the others";
  plan.stages[0].recompute = {};
  for (std::size_t l = 0; l < 4; l += 2) profile.layers[l].parameters_bytes = 0;
  EXPECT_EQ(peak("0F0 0I0 0W0 0F1 0I1 0W1") + 2 * 2000, 1200 + 600 + 50) << "layers without parameters have no weight gradients";
}

TEST(PeakBytes, FusedConvolutionsLieSideBySide) {
  Profile profile = make_profile({.layers = 1});
  Plan plan = stages_of(1, {1}, {1, 1});
  plan.actions = {actions_from_text("0F0 0I0 0F1 0I1 0W0-1", "")};
  const auto peak = [&](double share, std::int64_t bytes, std::int64_t workspace) {
    for (LayerCost& cost : profile.classes[0].layers[0].by_samples)
      cost.split = SplitMemory{600 * cost.samples, 0, 0, 50, workspace * cost.samples, share, bytes * cost.samples};
    return CostModel(profile).peak_bytes(plan)[0];
  };
  EXPECT_EQ(peak(1, 500, 0), peak(1, 400, 0) + 2 * 100);
  EXPECT_EQ(peak(1, 2000, 0), peak(1, 1000, 0)) << "no more than their weight, of 1000 bytes";
  EXPECT_EQ(peak(1, 400, 90), peak(1, 400, 0) + 2 * 90) << "the workspace of both samples";
  EXPECT_GT(peak(-1, 500, 0), peak(1, 500, 0)) << "unknown: what is held";
  EXPECT_LT(peak(0, 0, 0), peak(1, 400, 0));
}

TEST(PeakBytes, StagesOfOneDeviceHandOverWithoutSlots) {
  const CostModel cost(make_profile({.layers = 4}));
  Plan plan = stages_of(4, {1, 1}, {1}, 1);
  plan.actions = {actions_from_text("0F0 1F0 1B0 0B0", "")};
  // The gradient of the second stage's input is held until the first has used it.
  EXPECT_EQ(cost.peak_bytes(plan)[0], 4 * 2000 + 300 + 100 + 100 + 50) << "at the first layer, with its output's gradient";
  plan.actions = {actions_from_text("0F0 1F0 1I0 0I0 0W0 1W0", "")};
  EXPECT_EQ(cost.peak_bytes(plan)[0], 4 * 2000 + 2 * 2 * 300 + 100 + 50) << "at the last weight gradients, the stage's input kept";
}

// One layer a stage: kept 1200 of 4 samples, output 400 of it, workspace 200, gradients of parameters 1000. The fullest is the first
// backward: all gradients may have come, the last two outputs may still be on their way.
TEST(PeakBytes, OutputsThatNoBackwardNeedsLeaveWithTheirCopy) {
  Profile profile = make_profile({.layers = 2});
  const Plan plan = scheduled(stages_of(2, {1, 1}, {4, 4, 4, 4, 4}), "gpipe");
  const auto all = CostModel(profile).peak_bytes(plan);
  EXPECT_EQ(all[0], 1000 + 5 * 1200 + 5 * 400 + 200 + 1000);
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& cost : layer.by_samples) cost.keeps_output = false;
  const auto sent = CostModel(profile).peak_bytes(plan);
  EXPECT_EQ(sent[0], 1000 + 5 * (1200 - 400) + 2 * 400 + 5 * 400 + 200 + 1000);
  EXPECT_EQ(sent[1], all[1]) << "the last stage's output is its loss";
}

// A profile that says so of a layer that keeps less than its output.
TEST(PeakBytes, NoOutputTakesMoreWithItThanTheLayerKept) {
  Profile profile = make_profile({.layers = 2});
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& cost : layer.by_samples) {
      cost.keeps_output = false;
      cost.saved_activation_bytes = 0;
    }
  const Plan plan = scheduled(stages_of(2, {1, 1}, {4, 4, 4, 4, 4}), "gpipe");
  EXPECT_EQ(CostModel(profile).peak_bytes(plan)[0], 1000 + 5 * 400 + 2 * 400 * 0 + 200 + 1000);
}

// One layer a stage, saved 300, output 100, workspace 50, parameters 1000.
TEST(PeakBytes, OfMeasuredPeaksByHand) {
  Profile profile = make_profile({.layers = 2});
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& cost : layer.by_samples) cost.peaks = LayerPeaks{110 * cost.samples, 1000 + 7 * cost.samples};
  profile.classes[0].layers[1].by_samples[0].output_bytes = profile.classes[0].layers[1].by_samples[1].output_bytes = 4;
  Plan plan = scheduled(stages_of(2, {1}, {1, 1}), "gpipe");
  const std::int64_t losses = 3 * 4;
  // The first backward at the first layer: the second layer's gradients, its own, the gradient of its output.
  EXPECT_EQ(CostModel(profile).peak_bytes(plan)[0], 2000 + losses + 600 + 300 + 100 + 1000 + 1007);
  plan.stages[0].recompute.mode = Recompute::Mode::all;
  const MemoryLevels levels = memory_levels(plan, CostModel(profile))[0];
  EXPECT_EQ(levels.during_bytes[0], 2000 + losses + 110 + 100) << "the second layer's forward, and its input";
  EXPECT_EQ(levels.after_bytes[0], 2000 + losses);
}

// A gradient of the first stage may wait while the second stage's inputs are there: not both at their most.
TEST(PeakBytes, ReceivedTensorsAreFreeAgainInHostMemory) {
  std::mt19937 random(12);
  bool less = false;
  for (int trial = 0; trial < 100; ++trial) {
    const Profile profile = make_profile({.layers = 8, .devices = 2});
    const Plan plan = testing::random_virtual_plan(random, 8, 2, trial % 3);
    const auto host = CostModel(profile).peak_bytes(plan), gpus = CostModel(testing::with_gpus(profile, 0)).peak_bytes(plan);
    for (std::size_t d = 0; d < host.size(); ++d) {
      EXPECT_LE(host[d], gpus[d]) << trial;
      less = less || host[d] < gpus[d];
    }
  }
  EXPECT_TRUE(less);
}

// Six forwards in a row, whose outputs backward makes again: the fifth finds the outputs of three before it, no longer all of them.
TEST(PeakBytes, WhatAGpuSendsIsFreeThreeActionsLater) {
  const Profile profile = testing::with_gpus(make_profile({.layers = 2, .devices = 2}), 0);
  Plan plan = scheduled(stages_of(2, {1, 1}, {1, 1, 1, 1, 1, 1}), "gpipe");
  plan.stages[0].recompute.mode = Recompute::Mode::all;
  const std::vector<std::int64_t> during = memory_levels(plan, CostModel(profile))[0].during_bytes;
  const auto growth = [&](std::size_t action) { return during[action] - during[action - 1]; };
  EXPECT_EQ(growth(3), growth(1));
  EXPECT_EQ(growth(3) - growth(4), 100) << "an output";
  EXPECT_EQ(growth(5), growth(4));
}

TEST(PeakBytes, StatisticsOfEveryMicrobatchWaitForTheEndOfTheStep) {
  Profile profile = make_profile({.layers = 2});
  profile.layers[1].buffers_bytes = 70;
  const Plan plan = scheduled(stages_of(2, {1}, {1, 1, 1, 1, 1}), "1f1b");
  const std::int64_t without = CostModel(profile).peak_bytes(plan)[0];
  profile.layers[1].batch_statistics = true;
  EXPECT_EQ(CostModel(profile).peak_bytes(plan)[0], without + 5 * 70);
}

TEST(PeakBytes, AddsTheAllocatorsReserve) {
  Profile profile = make_profile({.layers = 4});
  const Plan plan = scheduled(stages_of(4, {1}, {3}), "naive");
  const std::int64_t without = CostModel(profile).peak_bytes(plan)[0];
  profile.classes[0].allocator_reserve = 0.07;
  const PeakContents contents = peak_contents(plan, CostModel(profile))[0];
  EXPECT_EQ(contents.reserve_bytes, static_cast<std::int64_t>(std::ceil(0.07 * static_cast<double>(without))));
  EXPECT_EQ(CostModel(profile).peak_bytes(plan)[0], without + contents.reserve_bytes);
}

TEST(PeakBytes, AddsWhatLibrariesKeep) {
  Profile profile = make_profile({.layers = 4});
  const Plan plan = scheduled(stages_of(4, {1}, {3}), "naive");
  const std::int64_t without = CostModel(profile).peak_bytes(plan)[0];
  profile.classes[0].library_bytes = 32 << 20;
  EXPECT_EQ(peak_contents(plan, CostModel(profile))[0].library_bytes, 32 << 20);
  EXPECT_EQ(CostModel(profile).peak_bytes(plan)[0], without + (32 << 20));
}

// Both directions of each link that the plan uses; of the links that it does not use, nothing.
TEST(PeakBytes, AddsBuffersOfNcclForEveryDeviceThatIsSpokenTo) {
  Profile profile = make_profile({.layers = 6, .devices = 3});
  for (LinkCost& link : profile.links) link.communicator_bytes = 1000 * (1 + link.source) + link.destination;
  const CostModel cost(profile);
  const std::vector<std::int64_t> both{1001 + 2000, 2002 + 3001};  // of devices 0 and 1, 1 and 2
  std::vector<std::int64_t> bytes;
  for (const PeakContents& contents : peak_contents(scheduled(stages_of(6, {1, 1, 1}, {1, 1}), "1f1b"), cost))
    bytes.push_back(contents.library_bytes);
  EXPECT_EQ(bytes, (std::vector<std::int64_t>{both[0], both[0] + both[1], both[1]}));
}

// Replicas of one stage sum up gradients.
TEST(PeakBytes, AddsBuffersOfNcclForReplicas) {
  Profile profile = make_profile({.layers = 4, .devices = 2});
  for (LinkCost& link : profile.links) link.communicator_bytes = 500;
  const Plan plan = scheduled(stages_of(4, {2}, {1, 1}), "1f1b");
  for (const PeakContents& contents : peak_contents(plan, CostModel(profile))) EXPECT_EQ(contents.library_bytes, 1000);
}

// A skip from the first to the last of three stages goes past the second: only the two ends hold it.
TEST(PeakBytes, SkipsGoPastTheStagesBetween) {
  Profile profile = make_profile({.layers = 3, .devices = 3});
  const Plan plan = scheduled(stages_of(3, {1, 1, 1}, {1, 1}), "gpipe");
  const std::vector<std::int64_t> without = CostModel(profile).peak_bytes(plan);
  profile.edges.push_back({0, 2, 1000, 0, true});
  const std::vector<std::int64_t> with = CostModel(profile).peak_bytes(plan);
  EXPECT_EQ(with[1], without[1]);
  EXPECT_EQ(with[2] - without[2], 2 * 1000 + 2 * 1000) << "two inputs, two gradients on their way";
  EXPECT_EQ(with[0] - without[0], 2 * 1000) << "two gradients; the outputs are saved activations";
}

}  // namespace
}  // namespace mptune::planner
