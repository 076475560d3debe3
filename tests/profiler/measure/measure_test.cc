#include "profiler/measure/measure.h"
#include "profiler/base/index.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/device/device_list.h"
#include "profiler/device/gpu_driver.h"
#include "profiler/loading/load_model.h"
#include "profiler/statistics/samples.h"

namespace mptune::testing {
using namespace profiler;
namespace {

constexpr const char* kTiny = "transformer:d=16,layers=1,heads=2,seq=4,vocab=8";

profiler::MeasureOptions options_for(const std::string& devices, int batch) {
  profiler::MeasureOptions options;
  options.devices = parse_devices(devices);
  options.batch = batch;
  options.budget_s = 1;
  return options;
}

/// The first cores there are, two where the machine has two.
std::string cpu_list() {
  const std::vector<int> cores = available_cores();
  return "cpu:" + std::to_string(cores[0]) + (cores.size() > 1 ? ",cpu:" + std::to_string(cores[1]) : "");
}

Profile measure_tiny(const profiler::MeasureOptions& options) {
  const Model model = load_model(kTiny, "", 0).model;
  return profiler::measure_profile(model, synthetic_batch(model.sample(), options.batch, 0), options);
}

TEST(MeasuredSizes, ArePowersOfTwoAndTheBatch) {
  EXPECT_EQ(profiler::measured_sizes(1), (std::vector<int>{1}));
  EXPECT_EQ(profiler::measured_sizes(4), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(profiler::measured_sizes(6), (std::vector<int>{1, 2, 4, 6}));
}

void expect_all_positive(const Samples& samples, const std::string& what) {
  EXPECT_GE(samples.size(), 1U) << what;
  for (const Sample& sample : samples.values) EXPECT_TRUE(std::isfinite(sample.value) && sample.value > 0) << what;
}

void expect_split_memory(const LayerCost& cost, const std::string& what) {
  ASSERT_TRUE(cost.split.has_value()) << what;
  EXPECT_GE(cost.split->held_bytes, cost.split->held_input_bytes + cost.split->held_gradient_bytes) << what;
  EXPECT_LE(cost.split->held_bytes, 2 * cost.saved_activation_bytes + cost.output_bytes) << what;
  EXPECT_GT(cost.split->input_workspace_bytes, 0) << what;
  EXPECT_GE(cost.split->weight_workspace_bytes, 0) << what;
}

void expect_peaks(const LayerCost& cost, std::int64_t parameters_bytes, const std::string& what) {
  ASSERT_TRUE(cost.peaks.has_value()) << what;
  EXPECT_GE(cost.peaks->bare_forward_bytes, cost.output_bytes) << what;
  EXPECT_LE(cost.peaks->bare_forward_bytes, cost.saved_activation_bytes + cost.workspace_bytes) << what;
  EXPECT_GT(cost.peaks->first_backward_bytes, 0) << what << ": saved activations go while gradients come";
  EXPECT_LE(cost.peaks->first_backward_bytes, cost.workspace_bytes + parameters_bytes) << what;
}

void expect_costs(const Profile& profile, std::size_t index, const std::vector<int>& sizes, bool busy) {
  const DeviceClass& measured = profile.classes.at(index);
  const std::size_t layers = profile.layers.size();
  ASSERT_EQ(measured.layers.size(), layers);
  for (std::size_t i = 0; i < layers; ++i) {
    const auto& costs = measured.layers[i].by_samples;
    ASSERT_EQ(costs.size(), sizes.size());
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      const std::string what = measured.name + " layer " + std::to_string(i) + " at " + std::to_string(sizes[s]);
      EXPECT_EQ(costs[s].samples, sizes[s]);
      expect_all_positive(costs[s].forward, what + " forward");
      expect_all_positive(costs[s].backward, what + " backward");
      expect_all_positive(costs[s].backward_input, what + " backward_input");
      expect_all_positive(costs[s].backward_weight, what + " backward_weight");
      EXPECT_GT(costs[s].forward.size(), costs[s].backward.size()) << what << ": passes of both kinds measure the forward";
      expect_split_memory(costs[s], what);
      expect_peaks(costs[s], profile.layers[i].parameters_bytes, what);
      EXPECT_EQ(costs[s].forward_busy.empty(), !busy) << what;
      EXPECT_EQ(costs[s].backward_busy.empty(), !busy) << what;
      EXPECT_GE(costs[s].saved_activation_bytes, costs[s].output_bytes) << what;
      EXPECT_GT(costs[s].workspace_bytes, 0) << what;
      if (s > 0) {
        EXPECT_GT(costs[s].saved_activation_bytes, costs[s - 1].saved_activation_bytes) << what;
      }
    }
  }
}

TEST(MeasureProfile, TransformerAtEverySizeAloneAndBusy) {
  profiler::MeasureOptions options = options_for(cpu_list(), 4);
  const bool several = options.devices.size() > 1;
  options.budget_s = 30;  // enough on a busy machine; the passes are short and few
  options.whole_machine = whole_machine_device(options.devices);
  options.optimizer = profiler::OptimizerKind::adam;
  options.memory_bytes = {123'456'789};
  std::vector<double> fractions;
  options.progress = [&](const std::string& what, double fraction) {
    EXPECT_FALSE(what.empty());
    fractions.push_back(fraction);
  };
  const Profile profile = measure_tiny(options);
  const Model model = load_model(kTiny, "", 0).model;
  const auto layers = as_index(model.size());

  EXPECT_EQ(profile.model, "transformer");
  EXPECT_EQ(profile.batch, 4);
  EXPECT_EQ(profile.layers.size(), layers);
  EXPECT_EQ(profile.optimizer_state_factor, 2);
  EXPECT_EQ(profile.fingerprint.model, model.fingerprint());
  EXPECT_EQ(profile.fingerprint.input, model.input_text());
  EXPECT_FALSE(profile.fingerprint.libtorch.empty());
  std::int64_t parameters = 0, expected = 0;
  for (const ProfileLayer& layer : profile.layers) parameters += layer.parameters;
  for (const NamedTensor& parameter : model.parameters()) expected += parameter.tensor.numel();
  EXPECT_EQ(parameters, expected);

  ASSERT_EQ(profile.classes.size(), options.whole_machine.empty() ? 1U : 2U);
  EXPECT_EQ(profile.classes[0].name, "cpu/1");
  expect_costs(profile, 0, {1, 2, 4}, several);
  for (const DeviceClass& measured : profile.classes) {
    EXPECT_GT(measured.action_seconds, 0);
    EXPECT_GT(measured.step_seconds, 0);
    EXPECT_GT(measured.optimizer_seconds_per_byte, 0);
    EXPECT_GT(measured.reduce_seconds_per_byte, 0);
  }
  if (profile.classes.size() > 1) {
    EXPECT_EQ(profile.classes[1].name, "cpu/2");
    expect_costs(profile, 1, {4}, false);
  }

  constexpr std::int64_t kPositions = 4, kWidth = 16, kFloat = 4;
  ASSERT_EQ(profile.edges.size(), layers - 1);
  for (std::size_t i = 0; i < profile.edges.size(); ++i) {
    const int from = static_cast<int>(i);
    EXPECT_EQ(profile.edges[i], (LayerEdge{from, from + 1, kPositions * kWidth * kFloat, 0, true}));
    for (const LayerCost& cost : profile.classes[0].layers[i].by_samples)
      EXPECT_EQ(cost.output_bytes, cost.samples * kPositions * kWidth * kFloat);
  }
  EXPECT_EQ(profile.devices[0], (ProfileDevice{options.devices[0].name, 0, 123'456'789}));
  EXPECT_GT(profile.co_running_slowdown, 0);
  ASSERT_EQ(profile.links.size(), several ? 2U : 0U);
  for (const LinkCost& link : profile.links) {
    EXPECT_TRUE(link.sender_copies) << "between devices of the host, unthrottled";
    EXPECT_EQ(link.source, 1 - link.destination);
    EXPECT_GE(link.latency_s, 0);
    EXPECT_GT(link.bytes_per_second, 1e7);
  }
  if (several) {
    EXPECT_NE(profile.links[0].source, profile.links[1].source);
  }
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.back(), 1);
}

// Two linear layers of 10 -> 10 -> 5 at 2 samples: each holds its input and the gradient of its product, and sums the bias's at once.
TEST(MeasureProfile, SplitBackwardsHoldWhatTheirProductsRead) {
  profiler::MeasureOptions options = options_for("cpu:" + std::to_string(available_cores()[0]), 2);
  options.budget_s = 0;
  const Model model = load_model("mlp:layers=2,width=10", "", 0).model;
  const Profile profile = profiler::measure_profile(model, synthetic_batch(model.sample(), 2, 0), options);
  constexpr std::int64_t kFloat = 4, kInput = 2 * 10 * kFloat;
  const std::int64_t gradients[] = {2 * 10 * kFloat, 2 * 5 * kFloat};
  const std::int64_t biases[] = {10 * kFloat, 5 * kFloat};
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const SplitMemory memory = profile.classes.at(0).layers.at(layer).by_samples.back().split.value();
    EXPECT_EQ(memory.held_input_bytes, kInput) << layer;
    EXPECT_EQ(memory.fused_share, 0) << layer << ": matrix products do not run together";
    EXPECT_EQ(memory.held_gradient_bytes, 0) << layer << ": behind it is an activation, or the loss";
    EXPECT_EQ(memory.held_bytes, kInput + gradients[layer]) << layer;
    EXPECT_EQ(profile.layers.at(layer).unsplit_bytes, biases[layer]) << layer;
    EXPECT_EQ(profile.layers.at(layer).unsplit_share, 0) << layer;
  }
}

/// A convolution with 576 weights, whose input and output have 32 elements per sample each, and a matrix product.
class ConvolutionLayer final : public Layer {
 public:
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    return {at::conv2d(inputs[0], filter_, {}, 1, 1).flatten(1).mm(matrix_)};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"filter", filter_}, {"matrix", matrix_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<ConvolutionLayer>(); }
  [[nodiscard]] std::string kind() const override { return "Convolution"; }

 private:
  at::Tensor filter_ = at::ones({8, 8, 3, 3}).requires_grad_();
  at::Tensor matrix_ = at::ones({32, 4}).requires_grad_();
};

TEST(MeasureProfile, SaysWhichShareOfTheWeightGradientsFuses) {
  std::vector<ModelLayer> layers;
  layers.push_back({"both", {}, std::make_unique<ConvolutionLayer>()});
  SampleDescription sample;
  sample.inputs = {{.shape = {8, 2, 2}}};
  const Model model("both", std::move(layers), Loss::mean_square(), sample, 16);
  profiler::MeasureOptions options = options_for("cpu:" + std::to_string(available_cores()[0]), 16);
  options.budget_s = 0;
  const Profile profile = profiler::measure_profile(model, synthetic_batch(model.sample(), 16, 0), options);
  for (const LayerCost& cost : profile.classes.at(0).layers.at(0).by_samples) {
    const bool fuses = 64 * cost.samples <= 576;
    const double convolution = 32 * 72, matrix = 4 * 32;
    EXPECT_DOUBLE_EQ(cost.split.value().fused_share, fuses ? convolution / (convolution + matrix) : 0) << cost.samples;
    EXPECT_EQ(cost.split->fused_bytes, fuses ? 64 * cost.samples * 4 : 0) << cost.samples;
  }
}

/// y = x u u v: u has two products.
class TwiceLayer final : public Layer {
 public:
  Tensors forward(const Tensors& inputs, const RunContext&) override { return {inputs[0].mm(u_).mm(u_).mm(v_)}; }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"u", u_}, {"v", v_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<TwiceLayer>(); }
  [[nodiscard]] std::string kind() const override { return "Twice"; }

 private:
  at::Tensor u_ = at::eye(3).requires_grad_();
  at::Tensor v_ = at::eye(3).requires_grad_();
};

TEST(MeasureProfile, SaysWhichShareOfTheWeightsIsNotSplit) {
  std::vector<ModelLayer> layers;
  layers.push_back({"twice", {}, std::make_unique<TwiceLayer>()});
  SampleDescription sample;
  sample.inputs = {{.shape = {3}}};
  const Model model("twice", std::move(layers), Loss::mean_square(), sample, 2);
  profiler::MeasureOptions options = options_for("cpu:" + std::to_string(available_cores()[0]), 2);
  options.budget_s = 0;
  const Profile profile = profiler::measure_profile(model, synthetic_batch(model.sample(), 2, 0), options);
  EXPECT_EQ(profile.layers.at(0).unsplit_bytes, 9 * 4);
  EXPECT_EQ(profile.layers.at(0).unsplit_share, 0.5);
}

TEST(MeasureProfile, BatchNormOverOneValueIsLeftOut) {
  const Model model = load_model("resnet18", "3x32x32", 0).model;
  profiler::MeasureOptions options = options_for("cpu:" + std::to_string(available_cores()[0]), 2);
  options.budget_s = 0.1;
  const Profile profile = profiler::measure_profile(model, synthetic_batch(model.sample(), 2, 0), options);
  for (const LayerCosts& layer : profile.classes.at(0).layers) {
    ASSERT_EQ(layer.by_samples.size(), 1U);
    EXPECT_EQ(layer.by_samples[0].samples, 2);
  }
  options.batch = 1;
  EXPECT_THROW((void)profiler::measure_profile(model, synthetic_batch(model.sample(), 1, 0), options), Error);
}

TEST(MeasureProfile, ConvolutionsAreMeasuredInChannelsLastToo) {
  const Model model = load_model("resnet18", "3x32x32", 0).model;
  profiler::MeasureOptions options = options_for("cpu:" + std::to_string(available_cores()[0]), 4);
  options.budget_s = 0.1;
  options.channels_last = true;
  const Profile profile = profiler::measure_profile(model, synthetic_batch(model.sample(), 4, 0), options);
  ASSERT_EQ(profile.classes.size(), 2U);
  const DeviceClass& contiguous = profile.classes[0];
  const DeviceClass& other = profile.classes[1];
  EXPECT_EQ(profile.devices[0].device_class, 0);
  EXPECT_EQ(contiguous.variant_of, -1);
  EXPECT_EQ(other.variant_of, 0);
  EXPECT_EQ(other.variant, (ExecutionVariant{.memory_format = MemoryFormat::channels_last}));
  EXPECT_EQ(other.name, contiguous.name);
  EXPECT_EQ(other.step_seconds, contiguous.step_seconds);
  ASSERT_EQ(other.layers.size(), contiguous.layers.size());
  for (std::size_t i = 0; i < other.layers.size(); ++i) {
    ASSERT_EQ(other.layers[i].by_samples.size(), contiguous.layers[i].by_samples.size());
    for (std::size_t s = 0; s < other.layers[i].by_samples.size(); ++s) {
      expect_all_positive(other.layers[i].by_samples[s].forward, "forward");
      expect_all_positive(other.layers[i].by_samples[s].backward, "backward");
      EXPECT_EQ(other.layers[i].by_samples[s].output_bytes, contiguous.layers[i].by_samples[s].output_bytes);
    }
  }
}

/// A square kernel over images of four channels.
class ConvolvingLayer final : public Layer {
 public:
  ConvolvingLayer(std::string name, std::int64_t width)
      : name_(std::move(name)), width_(width), weight_(at::rand({4, 4, width, width}).requires_grad_()) {}
  Tensors forward(const Tensors& inputs, const RunContext&) override { return {at::conv2d(inputs[0], weight_)}; }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{name_ + ".weight", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<ConvolvingLayer>(name_, width_); }
  [[nodiscard]] std::string kind() const override { return "Convolving"; }

 private:
  std::string name_;
  std::int64_t width_;
  at::Tensor weight_;
};

/// Needs its input contiguous.
class FlatteningLayer final : public Layer {
 public:
  Tensors forward(const Tensors& inputs, const RunContext&) override { return {inputs[0].view({inputs[0].size(0), -1})}; }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<FlatteningLayer>(); }
  [[nodiscard]] std::string kind() const override { return "Flattening"; }
};

struct MeasuredKernels {
  Profile profile;
  std::vector<std::string> warnings;
};

/// With convolutions of these kernels, and a batch of 16.
Model convolving_model(const std::vector<std::int64_t>& widths, bool flatten) {
  std::vector<ModelLayer> layers;
  for (const std::int64_t width : widths) {
    const std::string name = "layer" + std::to_string(layers.size());
    layers.push_back({name, {}, std::make_unique<ConvolvingLayer>(name, width)});
  }
  if (flatten) layers.push_back({"flatten", {}, std::make_unique<FlatteningLayer>()});
  SampleDescription sample;
  sample.inputs = {{.shape = {4, 8, 8}}};
  return {"convolving", std::move(layers), Loss::mean_square(), sample, 16};
}

MeasuredKernels measure_kernels(const std::vector<std::int64_t>& widths, bool channels_last = false, bool flatten = false) {
  const Model model = convolving_model(widths, flatten);
  profiler::MeasureOptions options = options_for("cpu:" + std::to_string(available_cores()[0]), 16);
  options.budget_s = 0.1;
  options.replaced_kernels = true;
  options.channels_last = channels_last;
  MeasuredKernels measured;
  options.warn = [&](const std::string& warning) { measured.warnings.push_back(warning); };
  measured.profile = profiler::measure_profile(model, synthetic_batch(model.sample(), 16, 0), options);
  return measured;
}

/// `widths`: of the kernels; those of one element are slow from 2 to 15 samples.
void expect_replaced_where_slow(const DeviceClass& plain, const DeviceClass& replaced, const std::vector<std::int64_t>& widths) {
  for (std::size_t i = 0; i < widths.size(); ++i)
    for (std::size_t s = 0; s < plain.layers[i].by_samples.size(); ++s) {
      const LayerCost &cost = replaced.layers[i].by_samples[s], &before = plain.layers[i].by_samples[s];
      const bool slow = widths[i] == 1 && cost.samples > 1 && cost.samples < 16;
      EXPECT_EQ(cost.samples, before.samples);
      EXPECT_EQ(cost == before, !slow) << "layer " << i << " at " << cost.samples;
      EXPECT_EQ(cost.output_bytes, before.output_bytes);
      EXPECT_EQ(cost.saved_activation_bytes, before.saved_activation_bytes);
      ASSERT_TRUE(cost.split && before.split);
      EXPECT_EQ(cost.split->held_bytes, before.split->held_bytes) << "layer " << i << " at " << cost.samples;
      for (const Samples* samples : {&cost.forward, &cost.backward, &cost.backward_input, &cost.backward_weight})
        expect_all_positive(*samples, "layer " + std::to_string(i));
    }
}

TEST(MeasureProfile, SlowKernelsAreMeasuredReplacedWhereTheyWouldBeTaken) {
  const std::vector<std::int64_t> widths{3, 1, 3, 1, 3};
  const Profile profile = measure_kernels(widths).profile;
  ASSERT_EQ(profile.classes.size(), 2U);
  const DeviceClass& plain = profile.classes[0];
  const DeviceClass& replaced = profile.classes[1];
  EXPECT_EQ(replaced.variant_of, 0);
  EXPECT_EQ(replaced.variant, (ExecutionVariant{.replaces_slow_kernels = true}));
  EXPECT_EQ(replaced.name, plain.name);
  EXPECT_EQ(replaced.optimizer_seconds_per_byte, plain.optimizer_seconds_per_byte);
  expect_replaced_where_slow(plain, replaced, widths);
}

TEST(MeasureProfile, SlowKernelsAreMeasuredReplacedInEitherFormat) {
  const std::vector<std::int64_t> widths{1, 3};
  const Profile profile = measure_kernels(widths, true).profile;
  ASSERT_EQ(profile.classes.size(), 4U);
  EXPECT_EQ(profile.classes[1].variant, (ExecutionVariant{.memory_format = MemoryFormat::channels_last}));
  EXPECT_EQ(profile.classes[3].variant, (ExecutionVariant{MemoryFormat::channels_last, true}));
  EXPECT_EQ(profile.classes[3].variant_of, 0);
  expect_replaced_where_slow(profile.classes[0], profile.classes[2], widths);
  expect_replaced_where_slow(profile.classes[1], profile.classes[3], widths);
}

TEST(MeasureProfile, DevicesOfSeveralCoresAreMeasuredWithFewerThreadsToo) {
  const std::vector<int> cores = available_cores();
  if (cores.size() < 2 || cores[1] != cores[0] + 1) GTEST_SKIP() << "needs two neighbouring cores";
  const Model model = convolving_model({1, 3}, false);
  profiler::MeasureOptions options = options_for(cpu_name(cores[0], cores[1]), 16);
  options.budget_s = 0.1;
  options.channels_last = true;
  options.replaced_kernels = true;
  options.threads = {1, 2, 7};
  const Profile profile = profiler::measure_profile(model, synthetic_batch(model.sample(), 16, 0), options);
  std::vector<ExecutionVariant> plain, replacing;
  for (const DeviceClass& device_class : profile.classes) {
    EXPECT_EQ(device_class.variant_of, plain.empty() ? -1 : 0);
    (device_class.variant.replaces_slow_kernels ? replacing : plain).push_back(device_class.variant);
    ASSERT_EQ(device_class.layers.size(), 2U);
    for (const LayerCosts& layer : device_class.layers) expect_all_positive(layer.by_samples.back().forward, "forward");
  }
  EXPECT_EQ(plain,
            (std::vector<ExecutionVariant>{{}, {MemoryFormat::channels_last}, {.threads = 1}, {MemoryFormat::channels_last, false, 1}}));
  EXPECT_NE(std::ranges::find(replacing, ExecutionVariant{MemoryFormat::contiguous, true, 1}), replacing.end()) << "slow on one thread";
  options = options_for(cpu_name(cores[0], cores[0]), 16);
  options.budget_s = 0;
  options.threads = {1};
  EXPECT_EQ(profiler::measure_profile(model, synthetic_batch(model.sample(), 16, 0), options).classes.size(), 1U);
}

TEST(MeasureProfile, WithoutSlowKernelsNothingIsMeasuredTwice) {
  const MeasuredKernels measured = measure_kernels({3, 3});
  EXPECT_EQ(measured.profile.classes.size(), 1U);
  EXPECT_TRUE(measured.warnings.empty());
}

TEST(MeasureProfile, AFormatInWhichTheModelCantRunIsWarnedOf) {
  const MeasuredKernels measured = measure_kernels({1}, true, true);
  ASSERT_EQ(measured.profile.classes.size(), 2U);
  EXPECT_EQ(measured.profile.classes[1].variant, (ExecutionVariant{.replaces_slow_kernels = true}));
  ASSERT_EQ(measured.warnings.size(), 1U);
  EXPECT_EQ(measured.warnings[0].rfind("there are no costs of cpu/1 in channels_last: the model can't run: ", 0), 0U)
      << measured.warnings[0];
}

TEST(MeasureProfile, OtherModelsHaveNoVariants) {
  profiler::MeasureOptions options = options_for("cpu:" + std::to_string(available_cores()[0]), 2);
  options.budget_s = 0.1;
  options.channels_last = options.replaced_kernels = true;
  EXPECT_EQ(measure_tiny(options).classes.size(), 1U);
}

/// Reshapes its input by `view`, which channels_last tensors refuse, behind a convolution.
class ViewingLayer final : public Layer {
 public:
  ViewingLayer() : weight_(at::rand({4, 3, 3, 3}).requires_grad_()) {}
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    const at::Tensor convolved = at::conv2d(inputs[0], weight_);
    return {convolved.view({convolved.size(0), -1})};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"weight", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<ViewingLayer>(); }
  [[nodiscard]] std::string kind() const override { return "Viewing"; }

 private:
  at::Tensor weight_;
};

TEST(MeasureProfile, AFormatThatTheModelCannotRunInIsLeftOut) {
  std::vector<ModelLayer> layers;
  layers.push_back({"viewing", {}, std::make_unique<ViewingLayer>()});
  SampleDescription sample;
  sample.inputs = {{.shape = {3, 8, 8}}};
  const Model model("viewing", std::move(layers), Loss::mean_square(), sample, 2);
  profiler::MeasureOptions options = options_for("cpu:" + std::to_string(available_cores()[0]), 2);
  options.budget_s = 0.1;
  options.channels_last = true;
  EXPECT_EQ(profiler::measure_profile(model, synthetic_batch(sample, 2, 0), options).classes.size(), 1U);
}

TEST(MeasureProfile, SleepingDevicesAreOfAClassOfTheirOwnAndNeverBusy) {
  const Profile profile = measure_tiny(options_for("sleep:3", 2));
  ASSERT_EQ(profile.classes.size(), 1U);
  EXPECT_EQ(profile.classes[0].name, "sleep");
  expect_costs(profile, 0, {1, 2}, false);
  EXPECT_EQ(profile.co_running_slowdown, 1);
  ASSERT_EQ(profile.devices.size(), 3U);
  EXPECT_EQ(profile.devices[1].name, "sleep:1");
  std::set<std::pair<int, int>> ends;
  for (const LinkCost& link : profile.links) {
    EXPECT_NE(link.source, link.destination);
    EXPECT_GT(link.bytes_per_second, 1e7);
    ends.emplace(link.source, link.destination);
  }
  EXPECT_EQ(profile.links.size(), 6U);
  EXPECT_EQ(ends.size(), 6U);
}

/// Without the checks of a list of devices: a core may belong to both, which may then be too busy to be measured busy in the time.
void expect_two_classes(const std::vector<std::string>& devices, const std::vector<std::string>& names) {
  profiler::MeasureOptions options = options_for("sleep:1", 4);
  options.devices.clear();
  for (const std::string& name : devices) options.devices.push_back(parse_device(name));
  const Profile profile = measure_tiny(options);
  ASSERT_EQ(profile.classes.size(), 2U);
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_EQ(profile.classes[c].name, names[c]);
    ASSERT_EQ(profile.classes[c].layers.size(), profile.layers.size());
    for (const LayerCosts& layer : profile.classes[c].layers) {
      ASSERT_EQ(layer.by_samples.size(), 3U);
      for (const LayerCost& cost : layer.by_samples) {
        expect_all_positive(cost.forward, names[c] + " forward");
        expect_all_positive(cost.backward, names[c] + " backward");
      }
    }
    EXPECT_EQ(profile.devices[c].device_class, static_cast<int>(c));
  }
  EXPECT_EQ(profile.links.size(), 2U);
}

TEST(MeasureProfile, DevicesOfTwoClassesAreMeasuredApart) {
  const std::vector<int> cores = available_cores();
  if (cores.size() < 2 || cores[1] != cores[0] + 1) {
    GTEST_SKIP() << "needs two neighbouring cores";
  }
  const std::string first = "cpu:" + std::to_string(cores[0]);
  expect_two_classes({first, first + "-" + std::to_string(cores[1])}, {"cpu/1", "cpu/2"});
}

TEST(GpuMeasure, PartsOfAGpuAndTheCpu) {
  if (profiler::gpu_driver().gpus == 0) {
    GTEST_SKIP() << profiler::gpu_driver().problem;
  }
  expect_two_classes({"cuda:0/1of2", "cpu:" + std::to_string(available_cores()[0])}, {"cuda/2", "cpu/1"});
  profiler::MeasureOptions options = options_for("cuda:0/1of2,cuda:0/2of2", 4);
  options.budget_s = 20;  // kernels are loaded at their first use
  const Profile profile = measure_tiny(options);
  ASSERT_EQ(profile.classes.size(), 1U);
  expect_costs(profile, 0, {1, 2, 4}, true);
  EXPECT_GT(profile.devices[0].memory_bytes, 0);
}

}  // namespace
}  // namespace mptune::testing
