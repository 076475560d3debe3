// Peak memory is never predicted below what is measured, also where tensors are carried along the chain.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/cost/peak_bytes.h"
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/list/device_list.h"
#include "profiler/measure/measure.h"
#include "profiler/model/layers/split_backward.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kPredictedPeakBatch = 8;

/// Of a chain measured on one core, for `devices` like it.
CostModel cost_of(const Model& model, const Batch& batch, int devices) {
  profiler::MeasureOptions options;
  options.devices = parse_devices("cpu:" + std::to_string(available_cores()[0]));
  options.batch = kPredictedPeakBatch;
  options.budget_s = 0.2;
  Profile profile = profiler::measure_profile(model, batch, options);
  profile.devices.clear();
  for (int d = 0; d < devices; ++d) profile.devices.push_back({device_names(devices)[as_index(d)], 0, 0});
  for (int d = 0; d < devices; ++d)
    for (int other = 0; other < devices; ++other)
      if (d != other) profile.links.push_back({d, other, 1e-6, 1e9, {}, -1, /*sender_copies=*/true});
  return CostModel(profile);
}

/// Peaks of a step behind the first. Where other programs keep a device off its core, what it is sent waits for it and stays in memory:
/// the least of three steps is what the plan asks for.
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

/// Which of the tensors that may wait to be read are held to what is measured. Where devices take turns that differ from machine to
/// machine, any number of them waits.
enum class Waiting { all, none };

/// All that the plan's device is sent in a step, by the chain's cuts; each replica's part is at most this.
std::int64_t received_bytes(const Plan& plan, int device, const CostModel& cost) {
  std::int64_t bytes = 0;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[as_index(s)];
    if (std::ranges::find(stage.devices, device) == stage.devices.end()) continue;
    for (const int samples : plan.microbatch_sizes) {
      if (s > 0) bytes += cost.boundary_bytes(stage.first_layer, samples, false);
      if (s + 1 < plan.num_stages()) bytes += cost.boundary_bytes(stage.last_layer, samples, true);
    }
  }
  return bytes;
}

/// A model, what is known of its costs, and plans for it.
class PredictedPeaks {
 public:
  PredictedPeaks(const std::string& text, const std::string& input, Waiting waiting)
      : text_(text),
        input_(input),
        waiting_(waiting),
        batch_(synthetic_batch(load().sample(), kPredictedPeakBatch, 0)),
        cost_(cost_of(load(), batch_, 3)),
        layers_(load().size()) {}

  [[nodiscard]] int layers() const { return layers_; }

  [[nodiscard]] PlanOptions options(const std::string& schedule, const std::string& recompute = "none", int devices = 2) const {
    PlanOptions options;
    options.devices = device_names(devices);
    options.batch = kPredictedPeakBatch;
    options.layers = layers_;
    options.microbatches = 4;
    options.schedule = schedule;
    options.recompute = recompute;
    return options;
  }

  /// `most`: predicted over measured.
  void expect_near(const Plan& plan, double most) const {
    Pipeline pipeline(load(), plan, {}, shared_core_devices(plan));
    const auto predicted = cost_.peak_bytes(plan), measured = measured_peaks(pipeline, batch_);
    const auto contents = planner::peak_contents(plan, cost_);
    for (std::size_t d = 0; d < measured.size(); ++d) {
      const std::string what = text_ + " " + plan.schedule + " recompute " +
                               std::to_string(static_cast<int>(plan.stages[0].recompute.mode)) + " cut " +
                               std::to_string(plan.stages[0].last_layer) + " device " + std::to_string(d);
      EXPECT_GE(predicted[d], measured[d]) << what;
      const std::int64_t wait = contents[d].communication_buffer_bytes;
      EXPECT_LE(wait, received_bytes(plan, static_cast<int>(d), cost_)) << what;
      const std::int64_t held = waiting_ == Waiting::all ? predicted[d] : predicted[d] - wait;
      EXPECT_LE(static_cast<double>(held), most * static_cast<double>(measured[d])) << what;
    }
  }

 private:
  [[nodiscard]] Model load() const { return load_model(text_, input_, 0).model; }

  std::string text_;
  std::string input_;
  Waiting waiting_;
  Batch batch_;
  CostModel cost_;
  int layers_;
};

/// `most`: of a schedule, predicted over measured.
struct Limits {
  double gpipe = 1;
  double f1b1 = 1;
};

void expect_near_whole(const PredictedPeaks& peaks, const std::vector<int>& cuts, const Limits& most) {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const char* recompute : {"none", "all"})
      for (const int cut : cuts) {
        PlanOptions options = peaks.options(schedule, recompute);
        options.cuts = {cut};
        peaks.expect_near(make_plan(options), options.schedule == "gpipe" ? most.gpipe : most.f1b1);
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

std::vector<Plan> split_plans(const PredictedPeaks& peaks) {
  std::vector<Plan> plans;
  for (const char* recompute : {"none", "all"})
    for (const char* schedule : {"zb1p", "zb2p", "zbv"}) plans.push_back(make_plan(peaks.options(schedule, recompute)));
  for (const int microbatches : {1, 4})
    for (const int cut : {peaks.layers() - 2, peaks.layers() - 1}) {  // a last stage of few layers, also with one micro-batch
      PlanOptions late_cut = peaks.options("zb1p");
      late_cut.microbatches = microbatches;
      late_cut.cuts = {cut};
      plans.push_back(make_plan(late_cut));
    }
  PlanOptions options = peaks.options("interleaved");
  options.virtual_stages = 2;
  plans.push_back(weights_at_the_end(options));
  return plans;
}

void expect_near_split(const PredictedPeaks& peaks, double most) {
  for (const Plan& plan : split_plans(peaks)) peaks.expect_near(plan, most);
}

/// Other devices may compute weight gradients early, and hold less, or late: the prediction covers both.
void expect_near_with_help(const PredictedPeaks& peaks, double most) {
  for (const char* schedule : {"zb1p", "zb2p", "zbv"}) {
    Plan plan = make_plan(peaks.options(schedule));
    plan.options.idle_devices_help = true;
    peaks.expect_near(plan, most);
  }
}

/// Replicas of the only stage, of the first of two, and of the last.
void expect_near_of_replicas(const PredictedPeaks& peaks, double most) {
  const auto replicated = [&](const char* schedule, const std::vector<int>& replicas) {
    PlanOptions options = peaks.options(schedule, "none", replicas[0] + (replicas.size() > 1 ? replicas[1] : 0));
    options.replicas = replicas;
    return make_plan(options);
  };
  peaks.expect_near(replicated("1f1b", {2}), most);
  peaks.expect_near(replicated("1f1b", {2, 1}), most);
  peaks.expect_near(replicated("zb1p", {1, 2}), most);
}

/// Every second layer is computed again: in one stage of one micro-batch, and in two stages of four.
void expect_near_in_pieces(const PredictedPeaks& peaks, double most) {
  for (const int devices : {1, 2}) {
    PlanOptions options = peaks.options("1f1b", "none", devices);
    if (devices == 1) options.microbatches = 1;
    Plan plan = make_plan(options);
    for (Stage& stage : plan.stages)
      for (int layer = stage.first_layer + 1; layer < stage.last_layer; layer += 2) {
        stage.recompute.mode = Recompute::Mode::some;
        stage.recompute.layers.push_back(layer);
      }
    peaks.expect_near(plan, most);
  }
}

/// All stages offload, of as many micro-batches as there are samples.
void expect_near_offloaded(const PredictedPeaks& peaks, double most) {
  for (const char* schedule : {"gpipe", "zb1p"})
    for (const int devices : {1, 2}) {
      PlanOptions options = peaks.options(schedule, "none", devices);
      options.microbatches = kPredictedPeakBatch;
      options.offload = "all";
      peaks.expect_near(make_plan(options), most);
    }
}

// What is above 1.05 where all may wait is mostly tensors that a neighbour may send early, but does not.
TEST(PredictedPeak, OfATransformer) {
  const PredictedPeaks peaks("transformer:d=32,layers=4,heads=2,seq=16,vocab=32", "", Waiting::all);
  expect_near_whole(peaks, {3, 5}, {.gpipe = 1.05, .f1b1 = 1.17});
  expect_near_split(peaks, 1.2);
  expect_near_of_replicas(peaks, 1.1);
  expect_near_with_help(peaks, 2);
  expect_near_offloaded(peaks, 1.1);
  expect_near_in_pieces(peaks, 1.1);
}
TEST(PredictedPeak, OfLinearLayers) {
  const PredictedPeaks peaks("mlp:layers=6,width=10", "", Waiting::all);
  expect_near_whole(peaks, {1, 3}, {.gpipe = 1.15, .f1b1 = 1.1});
  expect_near_split(peaks, 1.25);
  expect_near_of_replicas(peaks, 1.17);
  expect_near_offloaded(peaks, 1.1);
  expect_near_in_pieces(peaks, 1.1);
}
TEST(PredictedPeak, OfCarriedSkips) {
  const PredictedPeaks peaks("unet:base=4,depth=2", "3x32x32", Waiting::none);
  expect_near_whole(peaks, {1, 2, 3, 4}, {.gpipe = 1.1, .f1b1 = 1.25});
  expect_near_split(peaks, 1.27);
  expect_near_of_replicas(peaks, 1.2);
  expect_near_offloaded(peaks, 1.2);
  expect_near_in_pieces(peaks, 1.27);
}
TEST(PredictedPeak, OfCarriedImagesAndFeatures) {
  const PredictedPeaks peaks("late-fusion:width=8,classes=10", "2x3x64x64", Waiting::none);
  expect_near_whole(peaks, {2, 9, 10, 14}, {.gpipe = 1.1, .f1b1 = 1.1});
  expect_near_split(peaks, 1.25);
  expect_near_of_replicas(peaks, 1.22);
  expect_near_in_pieces(peaks, 1.1);
}
// Of a few kilobytes, the workspaces of layers whose largest moments differ are much: `language` is 1.26 above a first device for which
// nothing waits, and nearer wherever something does.
TEST(PredictedPeak, OfTiedWeights) {
  for (const char* name : {"language", "tied"}) {
    const PredictedPeaks peaks(std::string(MPTUNE_SOURCE_DIR "/tests/golden/exported/") + name + ".pt2", "", Waiting::none);
    for (const char* schedule : {"1f1b", "zb1p"})
      for (const char* recompute : {"none", "all"}) peaks.expect_near(make_plan(peaks.options(schedule, recompute, 1)), 1.3);
    peaks.expect_near(make_plan(peaks.options("1f1b")), 1.3);
  }
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
    const std::int64_t predicted = cost_->memory().held_bytes(0, first, last, samples);
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
  ASSERT_TRUE(model.cost().memory().split_memory_measured(0));
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
  expect_held_predicted("resnet18", "3x32x32");
}
TEST(NightlyHeldBytesBetweenGradients, OfConvolutions) {
  expect_held_predicted("resnet50", "3x32x32");
}
TEST(HeldBytesBetweenGradients, WhereTensorsAreCarried) {
  expect_held_predicted("unet:base=4,depth=2", "3x32x32");
  // Layers that hold the same tensor count it each.
  expect_held_predicted("late-fusion:width=8,classes=10", "2x3x64x64", 1.8);
}

}  // namespace
}  // namespace mptune::testing
