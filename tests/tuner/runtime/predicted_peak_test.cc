// Peak memory is never predicted below what is measured, also where tensors are carried along the chain.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"
#include "profiler/device/device_list.h"
#include "profiler/device/device_worker.h"
#include "profiler/loading/load_model.h"
#include "profiler/measure/measure.h"
#include "profiler/model/split_backward.h"
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

/// On CPU the first stage reads the batch where it lies.
std::int64_t most_of(std::int64_t measured, double most, const Batch& batch) {
  std::int64_t bytes = static_cast<std::int64_t>(most * static_cast<double>(measured));
  for (const at::Tensor& input : batch.inputs) bytes += static_cast<std::int64_t>(input.nbytes());
  return bytes;
}

/// `most`: predicted over measured, here and below.
void expect_enough_predicted(const std::string& text, const std::string& input, const std::vector<int>& cuts, double most) {
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
          EXPECT_LE(predicted[d], most_of(measured[d], most, batch))
              << text << " " << schedule << " " << recompute << " cut " << cut << " device " << d;
        }
      }
}

/// Of 4 stages on two devices, all weight gradients at the end of the step.
Plan weights_at_the_end(PlanOptions options) {
  options.schedule = "interleaved";
  Plan plan = make_plan(options);
  for (std::vector<Action>& row : plan.actions) {
    std::vector<Action> weights;
    for (Action& action : row) {
      if (action.kind != ActionKind::backward) continue;
      action.kind = ActionKind::backward_input;
      weights.push_back({action.stage, ActionKind::backward_weight, action.microbatch});
    }
    row.insert(row.end(), weights.begin(), weights.end());
  }
  return plan;
}

std::vector<Plan> split_plans(int layers) {
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kPredictedPeakBatch;
  options.layers = layers;
  options.microbatches = 4;
  std::vector<Plan> plans;
  for (const char* recompute : {"none", "all"})
    for (const char* schedule : {"zb1p", "zb2p", "zbv"}) {
      options.schedule = schedule;
      options.recompute = recompute;
      plans.push_back(make_plan(options));
    }
  options.recompute = "none";
  PlanOptions late_cut = options;  // a last stage of few layers, also with one micro-batch
  late_cut.schedule = "zb1p";
  for (const int microbatches : {1, 4})
    for (const int cut : {layers - 2, layers - 1}) {
      late_cut.microbatches = microbatches;
      late_cut.cuts = {cut};
      plans.push_back(make_plan(late_cut));
    }
  options.virtual_stages = 2;
  plans.push_back(weights_at_the_end(options));
  return plans;
}

void expect_enough_predicted_split(const std::string& text, const std::string& input, double most) {
  const auto load = [&] { return load_model(text, input, 0).model; };
  const Batch batch = synthetic_batch(load().sample(), kPredictedPeakBatch, 0);
  const CostModel cost = cost_of(load(), batch);
  for (const Plan& plan : split_plans(load().size())) {
    Pipeline pipeline(load(), plan, {}, shared_core_devices(plan));
    const auto predicted = cost.peak_bytes(plan), measured = measured_peaks(pipeline, batch);
    for (std::size_t d = 0; d < 2; ++d) {
      const std::string what = text + " " + plan.schedule + " device " + std::to_string(d);
      EXPECT_GE(predicted[d], measured[d]) << what;
      EXPECT_LE(predicted[d], most_of(measured[d], most, batch)) << what;
    }
  }
}

TEST(PredictedPeak, CoversSplitBackwards) {
  expect_enough_predicted_split("transformer:d=32,layers=4,heads=2,seq=16,vocab=32", "", 1.4);
}
TEST(PredictedPeak, CoversSplitBackwardsOfCarriedSkips) {
  expect_enough_predicted_split("unet:base=4,depth=2", "3x32x32", 1.5);
}

TEST(PredictedPeak, CoversCarriedSkips) {
  expect_enough_predicted("unet:base=4,depth=2", "3x32x32", {1, 2, 3, 4}, 1.75);
}
TEST(PredictedPeak, CoversCarriedImagesAndFeatures) {
  expect_enough_predicted("late-fusion:width=8,classes=10", "2x3x64x64", {2, 9, 10, 14}, 2);
}

// What a split backward of several layers holds between its two parts, by the costs of the single layers.
constexpr int kHeldBytesBatch = 4;

class HeldBytes {
 public:
  HeldBytes(const std::string& text, const std::string& input)
      : text_(text), model_(load_model(text, input, 0).model), batch_(synthetic_batch(model_.sample(), kHeldBytesBatch, 0)) {
    profiler::MeasureOptions options;
    options.devices = {parse_device("cpu:" + std::to_string(available_cores()[0]))};
    options.batch = kHeldBytesBatch;
    options.budget_s = 0;
    cost_ = std::make_unique<CostModel>(measure_profile(model_, batch_, options));
    worker_ = std::make_unique<profiler::DeviceWorker>(make_device(options.devices[0]));
  }

  [[nodiscard]] int layers() const { return model_.size(); }
  [[nodiscard]] const CostModel& cost() const { return *cost_; }

  /// `most`: predicted over measured.
  void expect_predicted(int first, int last, int samples, double most) {
    std::int64_t measured = -1;
    worker_->run([&] { measured = held_by(first, last, samples); });
    const std::int64_t predicted = cost_->held_bytes(0, first, last, samples);
    const std::string what = text_ + " layers " + std::to_string(first) + " to " + std::to_string(last);
    EXPECT_GE(predicted, measured) << what;
    EXPECT_LE(static_cast<double>(predicted), most * static_cast<double>(measured) + 1024) << what;
  }

 private:
  /// By the device's account: behind the input gradients of a piece of these layers, without its input, what the gradients of its outputs
  /// take, and gradients.
  std::int64_t held_by(int first, int last, int samples) {
    Device& device = worker_->device();
    const Batch microbatch = samples_of(batch_, 0, samples);
    const RunContext context{0, 0, 0, 0, samples, false};
    Tensors values = microbatch.inputs;
    {
      const at::NoGradGuard no_grad;
      for (int layer = 0; layer < first; ++layer) values = profiler::marked_outputs(*at(layer).layer, values, run(layer, values, context));
    }
    profiler::GraphPiece piece{profiler::as_leaves(values), {}, {}};
    values.clear();
    const std::int64_t before = device.current_bytes();
    values = piece.inputs;
    for (int layer = first; layer < last; ++layer) values = run(layer, values, context);
    if (last == layers()) values = {model_.loss()(values, microbatch.target)};
    profiler::set_roots(piece, values);
    std::int64_t apart = 0;
    Tensors gradients;
    for (const at::Tensor& value : values) {
      gradients.push_back(value.requires_grad() ? at::ones_like(value) : at::Tensor());
      apart += gradients.back().defined() ? static_cast<std::int64_t>(gradients.back().nbytes()) : 0;
    }
    values.clear();
    profiler::WeightGradients weights = profiler::set_weights_aside(piece);
    const Tensors inputs = piece.inputs;
    (void)profiler::backward_through(std::move(piece), gradients);
    for (const NamedTensor& parameter : model_.parameters()) at::Tensor(parameter.tensor).mutable_grad().reset();
    const std::int64_t held = device.current_bytes() - before - apart;
    for (const auto& weight : weights) weight->run();
    for (const NamedTensor& parameter : model_.parameters()) at::Tensor(parameter.tensor).mutable_grad().reset();
    weights.clear();
    EXPECT_EQ(device.current_bytes() - before - apart, 0) << text_ << ": nothing is left behind the weight gradients";
    return held;
  }

  [[nodiscard]] const ModelLayer& at(int layer) const { return model_.layers()[as_index(layer)]; }
  [[nodiscard]] Tensors run(int layer, const Tensors& values, const RunContext& context) const {
    Tensors outputs = run_layer(at(layer), layer, values, context);
    (void)at(layer).layer->take_statistics();
    return outputs;
  }

  std::string text_;
  Model model_;
  Batch batch_;
  std::unique_ptr<CostModel> cost_;
  std::unique_ptr<profiler::DeviceWorker> worker_;
};

void expect_held_predicted(const std::string& text, const std::string& input, double most = 1.05) {
  HeldBytes model(text, input);
  ASSERT_TRUE(model.cost().split_memory_measured(0));
  const int n = model.layers();
  for (const int cut : {1, n / 2, n - 1}) {
    model.expect_predicted(0, cut, 2, most);
    model.expect_predicted(cut, n, kHeldBytesBatch, most);
  }
  model.expect_predicted(0, n, kHeldBytesBatch, most);
  if (n > 3) model.expect_predicted(1, n - 1, 2, most);
}

TEST(HeldBytesBetweenGradients, OfMatrixProducts) {
  expect_held_predicted("transformer:d=16,layers=3,heads=2,seq=8,vocab=32", "");
  expect_held_predicted("mlp", "");
}
TEST(HeldBytesBetweenGradients, OfConvolutions) {
  expect_held_predicted("resnet50", "3x32x32");
}
TEST(HeldBytesBetweenGradients, WhereTensorsAreCarried) {
  expect_held_predicted("unet:base=4,depth=2", "3x32x32");
  // Layers that hold the same tensor count it each.
  expect_held_predicted("late-fusion:width=8,classes=10", "2x3x64x64", 1.8);
}

}  // namespace
}  // namespace mptune::testing
