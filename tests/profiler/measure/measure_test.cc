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
#include "profiler/device/list/device_list.h"
#include "profiler/device/list/gpu_driver.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/statistics/samples.h"
#include "tests/profiler/measure/measuring.h"

namespace mptune::testing {
using namespace profiler;
namespace {

TEST(MeasuredSizes, ArePowersOfTwoAndTheBatch) {
  EXPECT_EQ(profiler::measured_sizes(1), (std::vector<int>{1}));
  EXPECT_EQ(profiler::measured_sizes(4), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(profiler::measured_sizes(6), (std::vector<int>{1, 2, 4, 6}));
  EXPECT_EQ(profiler::measured_sizes(64, {1, 15}), (std::vector<int>{1, 2, 4, 8, 15}));
  EXPECT_EQ(profiler::measured_sizes(20, {3, 0}), (std::vector<int>{3, 6, 12, 20}));
  EXPECT_EQ(profiler::measured_sizes(8, {2, 64}), (std::vector<int>{2, 4, 8}));
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

TEST(MeasureProfile, OfAPoolHasEveryNumberOfCores) {
  const std::vector<int> cores = available_cores();
  if (cores.size() < 2 || cores[1] != cores[0] + 1) GTEST_SKIP() << "needs two neighbouring cores";
  const DevicePool pool{parse_device(cpu_name(cores[0], cores[1]))};
  profiler::MeasureOptions options = options_for(cpu_list(), 4);
  options.pools = {pool};
  options.devices = profiler::measured_devices(options.devices, options.pools);
  options.whole_machine = pool.whole.name;
  options.budget_s = 10;
  const Profile profile = measure_tiny(options);
  EXPECT_EQ(profile.fingerprint.devices, std::vector<std::string>{pool.name()});
  ASSERT_EQ(profile.devices.size(), 3U) << "both cores, and both as one device, once";
  ASSERT_EQ(profile.classes.size(), 2U);
  EXPECT_EQ(profile.classes[1].name, "cpu/2");
  expect_costs(profile, 0, {1, 2, 4}, true);
  expect_costs(profile, 1, {1, 2, 4}, false);
  EXPECT_EQ(profile.links.size(), 2U) << "devices that overlap have none";
}

TEST(MeasureProfile, TransformerAtEverySizeAloneAndBusy) {
  profiler::MeasureOptions options = options_for(cpu_list(), 4);
  const bool several = options.devices.size() > 1;
  options.budget_s = 30;  // enough on a busy machine; the passes are short and few
  options.whole_machine = whole_machine_device(options.devices);
  options.optimizer = {.kind = OptimizerKind::adam, .weight_decay = {}};
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
    EXPECT_EQ(profile.edges[i], (LayerEdge{from, from + 1, kPositions * kWidth * kFloat, 0, true, true}));
    for (const LayerCost& cost : profile.classes[0].layers[i].by_samples)
      EXPECT_EQ(cost.output_bytes, cost.samples * kPositions * kWidth * kFloat);
  }
  const ProfileDevice& device = profile.devices[0];
  EXPECT_EQ(device, (ProfileDevice{options.devices[0].name, 0, 123'456'789, device.to_host, device.from_host}));
  for (const HostCopies& copies : {device.to_host, device.from_host}) {
    EXPECT_TRUE(copies.device_copies) << "within the host, unthrottled";
    EXPECT_GE(copies.latency_s, 0);
    EXPECT_GT(copies.bytes_per_second, 1e7);
  }
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
  const bool share_a_core = overlap(options.devices[0], options.devices[1]);
  EXPECT_EQ(profile.links.size(), share_a_core ? 0U : 2U) << "no plan has devices that share a core";
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
  EXPECT_NE(profile.fingerprint.cuda.find(" SMs"), std::string::npos) << profile.fingerprint.cuda;
}

}  // namespace
}  // namespace mptune::testing
