// What is measured in other memory formats, with other kernels and with fewer threads.
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
#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"
#include "profiler/measure/measure.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/statistics/samples.h"
#include "tests/profiler/measure/measuring.h"

namespace mptune::testing {
using namespace profiler;
namespace {

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

}  // namespace
}  // namespace mptune::testing
