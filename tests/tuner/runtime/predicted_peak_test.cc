// Peak memory is never predicted below what is measured, also where tensors are carried along the chain.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/cost/cost_model.h"
#include "planner/search/search.h"
#include "profiler/device/device_list.h"
#include "profiler/loading/load_model.h"
#include "profiler/measure/measure.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kPredictedPeakBatch = 8;

/// Of a chain measured on one core, for two devices like it.
CostModel cost_of(const Model& model, const Batch& batch) {
  profiler::MeasureOptions options;
  options.devices = parse_devices("cpu:" + std::to_string(available_cores()[0]));
  options.batch = kPredictedPeakBatch;
  options.budget_s = 0.2;
  Profile profile = profiler::measure_profile(model, batch, options);
  profile.devices = {{"cpu:0", 0, 0}, {"cpu:1", 0, 0}};
  profile.links = {{0, 1, 1e-6, 1e9}, {1, 0, 1e-6, 1e9}};
  return CostModel(profile);
}

/// Peaks of a step behind the first. Where other programs keep the copying threads off their cores, gradients that were sent wait for them
/// and stay in memory: the least of three steps is what the plan asks for.
std::vector<std::int64_t> measured_peaks(Pipeline& pipeline, const Batch& batch) {
  (void)pipeline.step(batch.inputs, batch.target);
  std::vector<std::int64_t> least;
  for (int step = 0; step < 3; ++step) {
    pipeline.reset_peak_bytes();
    (void)pipeline.step(batch.inputs, batch.target);
    const auto peaks = pipeline.peak_bytes();
    if (least.empty()) least = peaks;
    for (std::size_t d = 0; d < peaks.size(); ++d) least[d] = std::min(least[d], peaks[d]);
  }
  return least;
}

void expect_enough_predicted(const std::string& text, const std::string& input, const std::vector<int>& cuts) {
  const auto load = [&] { return load_model(text, input, 0).model; };
  const Batch batch = synthetic_batch(load().sample(), kPredictedPeakBatch, 0);
  const CostModel cost = cost_of(load(), batch);
  const int layers = load().size();
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const char* recompute : {"none", "all"})
      for (const int cut : cuts) {
        PlanOptions options;
        options.devices = device_names(2);
        options.batch = kPredictedPeakBatch;
        options.layers = layers;
        options.stages = 2;
        options.cuts = {cut};
        options.microbatches = 4;
        options.schedule = schedule;
        options.recompute = recompute;
        const Plan plan = make_plan(options);
        Pipeline pipeline(load(), plan, {}, shared_core_devices(plan));
        const auto predicted = cost.peak_bytes(plan), measured = measured_peaks(pipeline, batch);
        for (std::size_t d = 0; d < 2; ++d) {
          EXPECT_GE(predicted[d], measured[d]) << text << " " << schedule << " " << recompute << " cut " << cut << " device " << d;
          // On CPU the first stage reads the batch where it lies.
          EXPECT_LE(predicted[d], 2 * measured[d] + static_cast<std::int64_t>(batch.inputs[0].nbytes()))
              << text << " " << schedule << " " << recompute << " cut " << cut << " device " << d;
        }
      }
}

TEST(PredictedPeak, CoversCarriedSkips) {
  expect_enough_predicted("unet:base=4,depth=2", "3x32x32", {1, 2, 3, 4});
}
TEST(PredictedPeak, CoversCarriedImagesAndFeatures) {
  expect_enough_predicted("late-fusion:width=8,classes=10", "2x3x64x64", {2, 9, 10, 14});
}

}  // namespace
}  // namespace mptune::testing
