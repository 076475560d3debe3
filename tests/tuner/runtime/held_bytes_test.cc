// What a split backward of several layers holds between its two parts, against what the profile of the single layers predicts.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "profiler/device/device_list.h"
#include "profiler/device/device_worker.h"
#include "profiler/loading/load_model.h"
#include "profiler/measure/measure.h"
#include "profiler/model/split_backward.h"

namespace mptune::testing {
using namespace profiler;
namespace {

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
    worker_ = std::make_unique<DeviceWorker>(make_device(options.devices[0]));
  }

  [[nodiscard]] int layers() const { return model_.size(); }
  [[nodiscard]] const CostModel& cost() const { return *cost_; }

  void expect_predicted(int first, int last, int samples) {
    std::int64_t measured = -1;
    worker_->run([&] { measured = held_by(first, last, samples); });
    const std::int64_t predicted = cost_->held_bytes(0, first, last, samples);
    const std::string what = text_ + " layers " + std::to_string(first) + " to " + std::to_string(last);
    EXPECT_GE(predicted, measured) << what;
    EXPECT_LE(static_cast<double>(predicted), 1.05 * static_cast<double>(measured) + 1024) << what;
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
      for (int layer = 0; layer < first; ++layer) values = marked_outputs(*at(layer).layer, values, run(layer, values, context));
    }
    GraphPiece piece{as_leaves(values), {}, {}};
    values.clear();
    const std::int64_t before = device.current_bytes();
    values = piece.inputs;
    for (int layer = first; layer < last; ++layer) values = run(layer, values, context);
    if (last == layers()) values = {model_.loss()(values, microbatch.target)};
    set_roots(piece, values);
    std::int64_t apart = 0;
    Tensors gradients;
    for (const at::Tensor& value : values) {
      gradients.push_back(value.requires_grad() ? at::ones_like(value) : at::Tensor());
      apart += gradients.back().defined() ? static_cast<std::int64_t>(gradients.back().nbytes()) : 0;
    }
    values.clear();
    WeightGradients weights = set_weights_aside(piece);
    const Tensors inputs = piece.inputs;
    (void)backward_through(std::move(piece), gradients);
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
  std::unique_ptr<DeviceWorker> worker_;
};

void expect_held_predicted(const std::string& text, const std::string& input) {
  HeldBytes model(text, input);
  ASSERT_TRUE(model.cost().split_memory_measured(0));
  const int n = model.layers();
  for (const int cut : {1, n / 2, n - 1}) {
    model.expect_predicted(0, cut, 2);
    model.expect_predicted(cut, n, kHeldBytesBatch);
  }
  model.expect_predicted(0, n, kHeldBytesBatch);
  if (n > 3) model.expect_predicted(1, n - 1, 2);
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
  expect_held_predicted("late-fusion:width=8,classes=10", "2x3x64x64");
}

}  // namespace
}  // namespace mptune::testing
