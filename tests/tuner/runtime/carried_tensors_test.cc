// Tensors that need no gradient cross the cuts without one coming back.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"
#include "profiler/measure/measure.h"
#include "profiler/model/layers/graph_piece.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr std::int64_t kCarriedTensorsWidth = 6;
constexpr int kCarriedTensorsLayers = 4;
constexpr int kCarriedTensorsBatch = 8;

/// Inputs of every layer that required a gradient when it ran.
struct Seen {
  std::mutex mutex;
  std::map<std::string, std::vector<bool>> by_layer;
};

/// h' = h w where the mask is set, beside the raw input and the mask, which are handed on; the first layer makes h and mask of the input.
class CarryingLayer final : public Layer {
 public:
  CarryingLayer(int index, std::shared_ptr<Seen> seen)
      : index_(index),
        seen_(std::move(seen)),
        weight_(at::full({kCarriedTensorsWidth, kCarriedTensorsWidth}, 0.01 * (index + 1)).requires_grad_()) {}

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    {
      const std::lock_guard lock(seen_->mutex);
      std::vector<bool> flags;
      for (const at::Tensor& input : inputs) flags.push_back(input.requires_grad());
      const auto [known, first] = seen_->by_layer.emplace((context.recomputing ? "again " : "layer ") + std::to_string(index_), flags);
      EXPECT_EQ(known->second, flags) << index_;
    }
    if (index_ == 0) return {inputs[0].matmul(weight_), inputs[0], inputs[0] > 0};
    const at::Tensor h = at::where(inputs[2], inputs[0].matmul(weight_), inputs[1]);
    return index_ + 1 == kCarriedTensorsLayers ? Tensors{h} : Tensors{h, inputs[1], inputs[2]};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"layer" + std::to_string(index_) + ".w", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<CarryingLayer>(index_, seen_); }
  [[nodiscard]] std::string kind() const override { return "Carrying"; }

 private:
  int index_;
  std::shared_ptr<Seen> seen_;
  at::Tensor weight_;
};

Model carrying_model(const std::shared_ptr<Seen>& seen = std::make_shared<Seen>()) {
  std::vector<ModelLayer> layers;
  for (int i = 0; i < kCarriedTensorsLayers; ++i)
    layers.push_back({"layer" + std::to_string(i), {}, std::make_unique<CarryingLayer>(i, seen)});
  SampleDescription sample;
  sample.inputs = {{.shape = {kCarriedTensorsWidth}}};
  return {"carrying", std::move(layers), Loss::mean_square(), sample, kCarriedTensorsBatch};
}

Plan carrying_plan(int stages, int virtual_stages, const std::string& recompute) {
  PlanOptions options;
  options.devices = device_names(stages / virtual_stages);
  options.batch = kCarriedTensorsBatch;
  options.layers = kCarriedTensorsLayers;
  options.stages = stages;
  options.virtual_stages = virtual_stages;
  options.microbatches = 2;
  options.schedule = "gpipe";
  options.recompute = recompute;
  return make_plan(options);
}

TEST(CarriedTensors, GetNoGradientInAnyStage) {
  const at::Tensor data = synthetic_batch(carrying_model().sample(), kCarriedTensorsBatch, 1).inputs[0];
  Model whole = carrying_model();
  for (std::int64_t m = 0; m < 2; ++m) {
    const at::Tensor loss = whole.loss()(forward_all(whole, {data.narrow(0, m * 4, 4)}, {}), {});
    loss.backward(at::full_like(loss, 0.5));
  }
  struct PlanShape {
    int stages, per_device;
  };
  for (const PlanShape& shape : {PlanShape{1, 1}, PlanShape{2, 1}, PlanShape{4, 1}, PlanShape{4, 2}})
    for (const char* recompute : {"none", "all"}) {
      SCOPED_TRACE(std::to_string(shape.stages) + " stages, recompute " + recompute);
      const auto seen = std::make_shared<Seen>();
      const Plan plan = carrying_plan(shape.stages, shape.per_device, recompute);
      Pipeline pipeline(carrying_model(seen), plan, {}, shared_core_devices(plan));
      (void)pipeline.step(data, {});
      const auto expected = whole.parameters();
      const auto parameters = pipeline.named_parameters();
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(parameters[i].tensor.grad(), expected[i].tensor.grad()));
      for (const auto& [layer, flags] : seen->by_layer)
        EXPECT_EQ(flags, layer.ends_with(" 0") ? std::vector<bool>{false} : (std::vector<bool>{true, false, false})) << layer;
      EXPECT_EQ(seen->by_layer.size(), recompute == std::string("all") ? 2U * kCarriedTensorsLayers : kCarriedTensorsLayers);
    }
}

TEST(CarriedTensors, OnlyGradientsThatAreNeededAreSent) {
  const Plan plan = carrying_plan(2, 1, "none");
  Pipeline pipeline(carrying_model(), plan, {}, shared_core_devices(plan));
  HostCollector collector(pipeline.trace_devices());
  collector.start();
  pipeline.record(&collector);
  (void)pipeline.step(at::ones({kCarriedTensorsBatch, kCarriedTensorsWidth}), {});
  pipeline.record(nullptr);
  const Trace trace = collector.stop();
  ASSERT_EQ(trace.copies.size(), 4U);
  for (const Copy& copy : trace.copies) EXPECT_EQ(copy.bytes, 4 * kCarriedTensorsWidth * (copy.source == 0 ? 4 + 4 + 1 : 4));
}

/// y = 2 x, without anything to train.
class DoublingLayer final : public Layer {
 public:
  Tensors forward(const Tensors& inputs, const RunContext&) override { return {inputs[0] * 2}; }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<DoublingLayer>(); }
  [[nodiscard]] std::string kind() const override { return "Doubling"; }
};

TEST(CarriedTensors, RecordedBackwardsAreThoseOfTrainedLayers) {
  std::vector<ModelLayer> layers;
  layers.push_back({"doubling", {}, std::make_unique<DoublingLayer>()});
  layers.push_back({"layer0", {}, std::make_unique<CarryingLayer>(0, std::make_shared<Seen>())});
  SampleDescription sample;
  sample.inputs = {{.shape = {kCarriedTensorsWidth}}};
  PlanOptions options;
  options.devices = device_names(1);
  options.batch = kCarriedTensorsBatch;
  options.layers = 2;
  options.stages = 1;
  options.microbatches = 2;
  const Plan plan = make_plan(options);
  Pipeline pipeline({"doubling", std::move(layers), Loss::mean_square(), sample, kCarriedTensorsBatch}, plan, {},
                    shared_core_devices(plan));
  HostCollector collector(pipeline.trace_devices());
  collector.start();
  pipeline.record(&collector);
  (void)pipeline.step(at::ones({kCarriedTensorsBatch, kCarriedTensorsWidth}), {});
  pipeline.record(nullptr);
  const Trace trace = collector.stop();
  std::map<std::string, int> backwards;
  for (const Event& event : trace.events)
    if (event.kind == EventKind::backward) ++backwards[trace.names.at(as_index(event.name))];
  EXPECT_EQ(backwards, (std::map<std::string, int>{{"backward layer0", 2}, {"backward loss", 2}}));
}

TEST(CarriedTensors, AreMeasuredAsEdgesWithoutGradient) {
  const Model model = carrying_model();
  profiler::MeasureOptions options;
  options.devices = parse_devices("cpu:" + std::to_string(available_cores()[0]));
  options.batch = 2;
  options.budget_s = 0.1;
  const Profile profile = profiler::measure_profile(model, synthetic_batch(model.sample(), 2, 0), options);
  std::vector<LayerEdge> expected;
  for (int i = 0; i + 1 < kCarriedTensorsLayers; ++i) {
    expected.push_back({i, i + 1, 4 * kCarriedTensorsWidth, 0, true, true});
    expected.push_back({i, i + 1, 4 * kCarriedTensorsWidth + kCarriedTensorsWidth, 0, false, true});
  }
  EXPECT_EQ(profile.edges, expected);
}

}  // namespace
}  // namespace mptune::testing
