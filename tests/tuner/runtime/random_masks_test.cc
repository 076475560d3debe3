// What layers draw at random depends on (seed, step, layer, sample), never on the plan.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "planner/schedule/schedule.h"
#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/model/nn/nn.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr std::int64_t kRandomMasksWidth = 8;
constexpr int kRandomMasksLayers = 4;
constexpr int kRandomMasksBatch = 10;

/// A digest of every mask, by (step, layer, sample).
struct Digests {
  using Key = std::tuple<std::int64_t, int, std::int64_t>;
  std::mutex mutex;
  std::map<Key, double> by_sample;
  int drawn = 0;

  void add(const at::Tensor& mask, const RunContext& context, int layer) {
    const at::NoGradGuard no_gradients;
    const at::Tensor weights = at::arange(1, kRandomMasksWidth + 1, at::kDouble).sqrt();
    const std::lock_guard lock(mutex);
    for (std::int64_t i = 0; i < context.samples; ++i) {
      const double digest = (mask[i].to(at::kDouble) * weights).sum().item<double>();
      const auto [known, first] = by_sample.emplace(Key{context.step, layer, context.first_sample + i}, digest);
      EXPECT_EQ(known->second, digest) << "drawn again, differently";
      ++drawn;
    }
  }
};

class MaskedLayer final : public Layer {
 public:
  MaskedLayer(int index, std::shared_ptr<Digests> digests)
      : index_(index), digests_(std::move(digests)), weight_(at::full({kRandomMasksWidth}, 1.0 + 0.1 * index).requires_grad_()) {}

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    const at::Tensor mask = at::dropout(at::ones_like(inputs[0]), 0.5, true);
    digests_->add(mask, context, index_);
    return {inputs[0] * mask * weight_ + 0.1};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"layer" + std::to_string(index_) + ".w", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<MaskedLayer>(index_, digests_); }
  [[nodiscard]] std::string kind() const override { return "Masked"; }

 private:
  int index_;
  std::shared_ptr<Digests> digests_;
  at::Tensor weight_;
};

Model masked_model(const std::shared_ptr<Digests>& digests) {
  std::vector<ModelLayer> layers;
  for (int i = 0; i < kRandomMasksLayers; ++i)
    layers.push_back({"layer" + std::to_string(i), {}, std::make_unique<MaskedLayer>(i, digests)});
  SampleDescription sample;
  sample.inputs = {{.shape = {kRandomMasksWidth}}};
  return {"masked", std::move(layers), Loss::mean_square(), sample, kRandomMasksBatch};
}

struct Shape {
  std::string schedule;
  int stages, microbatches;
  std::vector<int> replicas;
  int virtual_stages = 1;
  std::string recompute = "none";
};

Plan plan_of(const Shape& shape) {
  PlanOptions options;
  int devices = 0;
  for (const int replicas : shape.replicas) devices += replicas;
  options.devices = device_names(devices > 0 ? devices : shape.stages / shape.virtual_stages);
  options.batch = kRandomMasksBatch;
  options.layers = kRandomMasksLayers;
  options.stages = shape.stages;
  options.virtual_stages = shape.virtual_stages;
  options.microbatches = shape.microbatches;
  options.schedule = shape.schedule;
  options.replicas = shape.replicas;
  options.recompute = shape.recompute;
  return make_plan(options);
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{"naive", 1, 1, {}},          {"gpipe", 2, 3, {}},          {"1f1b", 4, 8, {}},
                                      {"1f1b", 2, 3, {}, 1, "all"}, {"interleaved", 4, 4, {}, 2}, {"gpipe", 4, 5, {}, 2, "all"},
                                      {"1f1b", 2, 5, {2, 2}},       {"gpipe", 3, 4, {2, 1, 1}}};
  return all;
}

TEST(RandomMasks, AreThoseOfTheSampleUnderEveryPlan) {
  const at::Tensor data = at::linspace(-1, 1, kRandomMasksBatch * kRandomMasksWidth).view({kRandomMasksBatch, kRandomMasksWidth});
  std::map<Digests::Key, double> expected;
  std::vector<at::Tensor> gradients;
  for (const Shape& shape : shapes()) {
    const Plan plan = plan_of(shape);
    SCOPED_TRACE(shape.schedule + " " + std::to_string(shape.stages) + " " + std::to_string(shape.microbatches));
    const auto digests = std::make_shared<Digests>();
    PipelineOptions options;
    options.seed = 12;
    Pipeline pipeline(masked_model(digests), plan, options, shared_core_devices(plan));
    for (int step = 0; step < 2; ++step) (void)pipeline.step(data, {});
    EXPECT_EQ(digests->drawn, 2 * kRandomMasksLayers * kRandomMasksBatch * (shape.recompute == "all" ? 2 : 1));
    std::vector<at::Tensor> own;
    for (const NamedTensor& parameter : pipeline.named_parameters()) own.push_back(parameter.tensor.grad().clone());
    if (expected.empty()) {
      expected = digests->by_sample;
      gradients = own;
    }
    EXPECT_EQ(digests->by_sample, expected);
    EXPECT_LT(relative_difference(own, gradients), 1e-6);
  }
  EXPECT_EQ(expected.size(), 2U * kRandomMasksLayers * kRandomMasksBatch);
  std::set<double> different;
  for (const auto& [key, digest] : expected) different.insert(digest);
  EXPECT_GT(different.size(), expected.size() / 2) << "steps, layers or samples draw the same";
}

TEST(RandomMasks, DependOnTheSeed) {
  const Plan plan = plan_of({"naive", 1, 1, {}});
  std::vector<std::map<Digests::Key, double>> seen;
  for (const std::uint64_t seed : {1, 1, 2}) {
    const auto digests = std::make_shared<Digests>();
    PipelineOptions options;
    options.seed = seed;
    Pipeline pipeline(masked_model(digests), plan, options, shared_core_devices(plan));
    (void)pipeline.step(at::ones({kRandomMasksBatch, kRandomMasksWidth}), {});
    seen.push_back(digests->by_sample);
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_NE(seen[0], seen[2]);
}

torch::nn::Sequential users_net() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(kRandomMasksWidth, 16), torch::nn::ReLU(), torch::nn::Dropout(0.3),
                               torch::nn::Linear(16, 16), torch::nn::Dropout(torch::nn::DropoutOptions(0.2).inplace(true)),
                               torch::nn::Linear(16, 3));
}

TEST(RandomMasks, OfAUsersSequentialAreThoseOfTheWholeBatch) {
  const at::Tensor data = at::linspace(-1, 1, kRandomMasksBatch * kRandomMasksWidth).view({kRandomMasksBatch, kRandomMasksWidth});
  const at::Tensor target = at::arange(kRandomMasksBatch).remainder(3);
  const auto gradients_of = [&](const Shape& shape) {
    PlanOptions options;
    options.devices = device_names(shape.stages);
    options.batch = kRandomMasksBatch;
    options.layers = 6;
    options.stages = shape.stages;
    options.microbatches = shape.microbatches;
    options.schedule = shape.schedule;
    options.recompute = shape.recompute;
    const Plan plan = make_plan(options);
    Pipeline pipeline(from_sequential(users_net(), Loss::cross_entropy()), plan, {}, shared_core_devices(plan));
    (void)pipeline.step(data, target);
    std::vector<at::Tensor> gradients;
    for (const NamedTensor& parameter : pipeline.named_parameters()) gradients.push_back(parameter.tensor.grad().clone());
    return gradients;
  };
  const auto whole = gradients_of({"naive", 1, 1, {}});
  for (const Shape& shape : {Shape{"gpipe", 3, 3, {}}, Shape{"1f1b", 6, 4, {}, 1, "all"}, Shape{"1f1b", 2, 10, {}}})
    EXPECT_LT(relative_difference(gradients_of(shape), whole), 1e-5) << shape.stages;
}

TEST(RandomMasks, AnErrorOfALayerNamesIt) {
  SampleDescription sample;
  sample.inputs = {{.shape = {kRandomMasksWidth}}};
  auto net =
      torch::nn::Sequential(torch::nn::Linear(kRandomMasksWidth, 3),
                            torch::nn::Functional([](const at::Tensor& x) { return at::dropout(x.t().contiguous(), 0.5, true).t(); }));
  const Plan plan = [] {
    PlanOptions options;
    options.devices = device_names(2);
    options.batch = kRandomMasksBatch;
    options.layers = 2;
    options.stages = 2;
    options.microbatches = 2;
    return make_plan(options);
  }();
  Pipeline pipeline(from_sequential(net, Loss::mean_square(), sample), plan, {}, shared_core_devices(plan));
  try {
    (void)pipeline.step(at::ones({kRandomMasksBatch, kRandomMasksWidth}), {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "layer 1");
  }
}

}  // namespace
}  // namespace mptune::testing
