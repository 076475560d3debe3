// The peak that the cost model states, against what a device holds at every moment of the simulated step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/simulate/held_over_time.h"

namespace mptune::planner {
namespace {

void drop_outputs(std::mt19937& random, Profile& profile) {
  for (DeviceClass& device_class : profile.classes)
    for (LayerCosts& layer : device_class.layers) {
      const bool keeps = std::bernoulli_distribution(0.5)(random);
      for (LayerCost& cost : layer.by_samples) cost.keeps_output = keeps;
    }
}

// Some layers hold their inputs, some the gradients of their outputs, some parameters are not split off.
void measure_split(std::mt19937& random, Profile& profile) {
  const auto draw = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
  for (ProfileLayer& layer : profile.layers) layer.unsplit_bytes = draw(1) * draw(layer.parameters_bytes);
  for (DeviceClass& device_class : profile.classes)
    for (LayerCosts& layer : device_class.layers) {
      const std::int64_t own = draw(400), input = draw(1), gradient = draw(1), workspace = draw(300);
      for (LayerCost& cost : layer.by_samples) {
        const std::int64_t n = cost.samples, read = input * 100 * n, behind = gradient * 100 * n;
        cost.split = SplitMemory{own * n + read + behind, read, behind, (own + 230 + workspace) * n, workspace * n};
      }
    }
}

// A forward makes at least its output. A backward makes the gradients of inputs and parameters; later ones need more beside the latter.
void measure_peaks(std::mt19937& random, Profile& profile) {
  const auto draw = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
  for (LayerCosts& layer : profile.classes.front().layers) {
    const std::int64_t bare = 100 + draw(100), first = 230 + draw(100), later = first + draw(100);
    for (LayerCost& cost : layer.by_samples) {
      cost.peaks = LayerPeaks{bare * cost.samples, 1000 + first * cost.samples};
      cost.workspace_bytes = later * cost.samples;
    }
  }
}

TEST(Memory, ThePeakIsNeverUnderWhatIsHeldAtAnyMoment) {
  std::mt19937 random(31);
  for (int round = 0; round < 3000; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    testing::ProfileShape shape = testing::random_shape(random, 8, devices);
    shape.latency_s /= 100;
    shape.bytes_per_second *= 1000;
    Profile profile = testing::make_profile(shape, testing::random_factors(random, 8));
    if (round % 2 == 0) profile.edges.push_back({1, 6, 130, 0, true});
    // A backward's own peak has room for the gradients that it makes.
    for (LayerCosts& layer : profile.classes.front().layers)
      for (LayerCost& cost : layer.by_samples) cost.workspace_bytes = 230 * cost.samples;
    if (round % 4 == 0) profile.layers[3].parameters_bytes = 0;
    if (round % 8 > 4) profile.tied_parameters = {{5, 1, 700}, {6, 0, 300}, {7, 6, 500}};
    if (round % 5 == 0) drop_outputs(random, profile);
    if (round % 7 < 3) measure_split(random, profile);
    if (round % 3 == 1) measure_peaks(random, profile);
    const CostModel cost(profile);
    const Plan plan = testing::random_virtual_plan(random, 8, devices, round % 3);
    const HeldOverTime held(plan, cost);
    const std::vector<std::int64_t> peaks = cost.peak_bytes(plan);
    for (std::size_t d = 0; d < peaks.size(); ++d) ASSERT_LE(held.peak(d), peaks[d]) << round << " device " << d;
  }
}

// A layer kept behind one that is computed again holds its input for every micro-batch in flight.
TEST(Memory, KeptLayersBehindRecomputedOnesHoldTheirInputs) {
  const CostModel cost(testing::make_profile({.layers = 2, .devices = 1}));
  Plan plan = testing::stages_of(2, {1}, testing::ones(5));
  plan.stages[0].recompute = {Recompute::Mode::some, {0}, {}};
  make_schedule(plan, "gpipe");
  // The first backward has come to layer 0, with the gradients of all parameters. What layer 1 held is gone.
  const std::int64_t parameters = 2 * 1000, backward = 300 + 100 + 50 + parameters;
  EXPECT_EQ(cost.peak_bytes(plan)[0], parameters + 4 * (300 + 100) + backward);
  plan.stages[0].recompute.layers = {1};
  EXPECT_EQ(cost.peak_bytes(plan)[0], parameters + 4 * 300 + backward) << "layer 1's input is among what layer 0 saves";
}

// How near the stated peaks are to what the devices of some plans hold.
class Nearness {
 public:
  void add(const Plan& plan, const CostModel& cost) {
    const HeldOverTime held(plan, cost);
    const std::vector<std::int64_t> peaks = cost.peak_bytes(plan);
    for (std::size_t d = 0; d < peaks.size(); ++d, ++count_) {
      EXPECT_LE(held.peak(d), peaks[d]) << plan.schedule << " device " << d;
      sum_ += static_cast<double>(peaks[d]) / static_cast<double>(held.peak(d));
    }
  }
  /// Of stated over held.
  [[nodiscard]] double mean() const { return sum_ / count_; }

 private:
  double sum_ = 0;
  int count_ = 0;
};

// One stage on a device: near as well, split where that was measured.
TEST(Memory, ThePeakOfTheUsualSchedulesIsNear) {
  std::mt19937 random(32);
  Nearness nearness;
  for (int round = 0; round < 400; ++round) {
    testing::ProfileShape shape = testing::random_shape(random, 12, 3);
    shape.latency_s /= 100;
    shape.bytes_per_second *= 1000;
    Profile profile = testing::make_profile(shape, testing::random_factors(random, 12));
    measure_split(random, profile);
    const CostModel cost(profile);
    const char* const schedules[] = {"1f1b", "gpipe", "zb1p", "zb2p"};
    nearness.add(testing::scheduled(testing::stages_of(12, {1, 1, 1}, testing::ones(8)), schedules[round % 4]), cost);
  }
  EXPECT_LT(nearness.mean(), 1.05);
}

// Layers of one micro-batch that are computed again, in pieces: at most one piece is held at a time.
TEST(Memory, ThePeakOfRecomputedPiecesIsNear) {
  std::mt19937 random(33);
  Nearness nearness;
  for (int round = 0; round < 400; ++round) {
    testing::ProfileShape shape = testing::random_shape(random, 12, 2);
    shape.latency_s /= 100;
    shape.bytes_per_second *= 1000;
    Profile profile = testing::make_profile(shape, testing::random_factors(random, 12));
    for (ProfileLayer& layer : profile.layers) layer.parameters_bytes = 10;
    if (round % 3 == 0) drop_outputs(random, profile);
    const CostModel cost(profile);
    Plan plan = testing::stages_of(12, {1, 1}, testing::ones(1 + round % 8));
    for (Stage& stage : plan.stages) {
      stage.recompute.mode = Recompute::Mode::some;
      for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
        if ((layer + round) % 3 != 0) stage.recompute.layers.push_back(layer);
    }
    nearness.add(testing::scheduled(plan, "1f1b"), cost);
  }
  EXPECT_LT(nearness.mean(), 1.07) << "what may be on its way to another device included";
}

TEST(Memory, OfASimulatedTraceHasThePeakAsItsLargestSampleWithinTheStep) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    const CostModel cost = testing::random_cost(random, 6, 3);
    const Plan plan = testing::random_plan(random, 6, 3);
    const Simulation simulation = simulate(plan, cost);
    std::vector<std::int64_t> most(plan.devices.size(), 0);
    Nanoseconds before{0};
    for (const MemorySample& sample : simulation.trace.memory) {
      EXPECT_GE(sample.time, before);
      EXPECT_LE(sample.time, simulation.trace.steps.front().end);
      before = sample.time;
      std::int64_t& largest = most.at(as_index(sample.device));
      largest = std::max(largest, sample.current_bytes);
    }
    EXPECT_EQ(most, simulation.prediction.peak_bytes) << trial;
  }
}

}  // namespace
}  // namespace mptune::planner
