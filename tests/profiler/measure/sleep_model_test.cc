#include "profiler/measure/sleep_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/optimizer.h>

#include <cmath>
#include <functional>
#include <limits>

#include "profiler/base/error.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/link_timing.h"
#include "profiler/measure/optimizer.h"
#include "profiler/model/layers/graph_piece.h"
#include "profiler/model/layers/split_backward.h"
#include "profiler/trace/statistics/samples.h"

namespace mptune::testing {
using namespace profiler;
namespace {

LayerCost cost(int samples, double forward_s, double backward_s) {
  LayerCost result;
  result.samples = samples;
  result.forward = exactly(forward_s);
  result.backward = exactly(backward_s);
  return result;
}

/// Two layers of 1 ms and 2 ms (forward; twice that backward) per sample, a third of that per further sample.
Profile two_layers() {
  Profile profile;
  profile.model = "two";
  profile.batch = 8;
  profile.layers = {{"first", "", {}, 0, 0, 0, false}, {"second", "", {}, 0, 0, 0, false}};
  profile.edges = {{0, 1, 400, 0, true}};
  DeviceClass sleeping;
  sleeping.name = "sleep";
  sleeping.layers = {{{cost(1, 1e-3, 2e-3), cost(4, 2e-3, 4e-3)}}, {{cost(1, 2e-3, 4e-3), cost(4, 4e-3, 8e-3)}}};
  profile.classes = {sleeping};
  return profile;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = profiler::SteadyClock::now();
  work();
  return std::chrono::duration<double>(profiler::SteadyClock::now() - start).count();
}

RunContext context_for(std::int64_t samples) {
  RunContext context;
  context.samples = samples;
  return context;
}

// One layer of 4 ms input gradients and 9 ms weight gradients.
TEST(SleepModel, SleepsInBothPartsOfASplitBackward) {
  Profile profile = two_layers();
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& of : layer.by_samples) of.backward_input = exactly(4e-3), of.backward_weight = exactly(9e-3);
  const Model model = profiler::make_sleep_model(profile);
  Layer& layer = *model.layers()[1].layer;
  const at::Tensor weight = layer.parameters()[0].tensor;
  GraphPiece piece{as_leaves({at::zeros({1, 100}).requires_grad_()}), {}, {}};
  set_roots(piece, layer.forward(piece.inputs, context_for(1)));
  const WeightGradients weights = set_weights_aside(piece);
  ASSERT_EQ(weights.size(), 1U);
  EXPECT_TRUE(weights[0]->weight().is_same(weight));
  Tensors gradients;
  EXPECT_GE(seconds_of([&] { gradients = backward_through(std::move(piece), {at::ones({1, 1})}); }), 4e-3);
  EXPECT_EQ(gradients[0].sizes(), (std::vector<std::int64_t>{1, 100}));
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_GE(seconds_of([&] { weights[0]->run(); }), 9e-3);
  EXPECT_TRUE(weight.grad().defined());
}

TEST(SleepModel, SleepsAsTheProfileSaysAndPassesItsBytes) {
  Model model = profiler::make_sleep_model(two_layers());
  ASSERT_EQ(model.size(), 2);
  // Between the sizes linear, beyond them proportional.
  for (const auto& [samples, forward_s] : std::vector<std::pair<int, double>>{{1, 3e-3}, {2, 4e-3}, {4, 6e-3}, {8, 12e-3}}) {
    const Batch batch = synthetic_batch(model.sample(), samples, 0);
    Tensors middle, last;
    const double forward = seconds_of([&] {
      middle = model.layers()[0].layer->forward({batch.inputs[0]}, context_for(samples));
      last = model.layers()[1].layer->forward(middle, context_for(samples));
    });
    EXPECT_GE(forward, forward_s) << samples;
    EXPECT_EQ(static_cast<std::int64_t>(middle[0].nbytes()), 400 * samples);
    EXPECT_EQ(middle[0].size(0), samples);
    EXPECT_EQ(static_cast<std::int64_t>(last[0].nbytes()), 4 * samples);
    const at::Tensor loss = model.loss()(last, batch.target);
    EXPECT_EQ(loss.item<float>(), 0);
    EXPECT_GE(seconds_of([&] { loss.backward(); }), 2 * forward_s) << samples;
  }
}

TEST(SleepModel, CarriesWhatNeedsNoGradient) {
  Profile profile = two_layers();
  profile.edges.push_back({0, 1, 80, 0, false});
  Model model = profiler::make_sleep_model(profile);
  const Tensors middle = model.layers()[0].layer->forward({at::zeros({3, 1})}, context_for(3));
  ASSERT_EQ(middle.size(), 2U);
  EXPECT_EQ(static_cast<std::int64_t>(middle[0].nbytes()), 3 * 400);
  EXPECT_EQ(static_cast<std::int64_t>(middle[1].nbytes()), 3 * 80);
  EXPECT_TRUE(middle[0].requires_grad());
  EXPECT_FALSE(middle[1].requires_grad());
}

TEST(SleepModel, GradientsFlowThroughACut) {
  Model model = profiler::make_sleep_model(two_layers());
  const at::Tensor input = at::zeros({3, 100}).requires_grad_();
  const Tensors output = model.layers()[1].layer->forward({input}, context_for(3));
  output[0].backward(at::ones_like(output[0]));
  ASSERT_TRUE(input.grad().defined());
  EXPECT_EQ(input.grad().sizes(), input.sizes());
  EXPECT_TRUE(model.layers()[1].layer->parameters().at(0).tensor.grad().defined());
}

TEST(SleepModel, SleepsWithoutGradientsToo) {
  Model model = profiler::make_sleep_model(two_layers());
  const at::NoGradGuard no_grad;
  Tensors output;
  EXPECT_GE(seconds_of([&] { output = forward_all(model, {at::zeros({4, 1})}, context_for(4)); }), 6e-3);
  EXPECT_FALSE(output[0].requires_grad());
}

TEST(SleepModel, CloneIsIndependent) {
  const Model model = profiler::make_sleep_model(two_layers());
  const auto copy = model.layers()[0].layer->clone();
  const NamedTensor original = model.layers()[0].layer->parameters().at(0), cloned = copy->parameters().at(0);
  EXPECT_EQ(cloned.name, original.name);
  EXPECT_NE(cloned.tensor.data_ptr(), original.tensor.data_ptr());
}

std::vector<profiler::CopyTime> line(double latency_s, double bytes_per_second) {
  std::vector<profiler::CopyTime> times;
  for (std::int64_t bytes = 4 << 10; bytes <= 16 << 20; bytes *= 4)
    times.push_back({bytes, latency_s + static_cast<double>(bytes) / bytes_per_second});
  return times;
}

TEST(FitLink, RecoversALine) {
  for (const double latency : {1e-6, 20e-6, 5e-3})
    for (const double speed : {10e6, 5e9, 50e9}) {
      const LinkCost cost = profiler::fit_link(line(latency, speed));
      EXPECT_NEAR(cost.latency_s / latency, 1, 1e-6);
      EXPECT_NEAR(cost.bytes_per_second / speed, 1, 1e-6);
    }
}

TEST(FitLink, OneOutlierChangesLittleAndNothingIsNegative) {
  std::vector<profiler::CopyTime> times = line(20e-6, 5e9);
  times[5].seconds *= 3;  // 4 MiB
  const LinkCost cost = profiler::fit_link(times);
  EXPECT_NEAR(cost.bytes_per_second / 5e9, 1, 0.35);
  for (profiler::CopyTime& time : times) time.seconds = 1e-6;
  const LinkCost flat = profiler::fit_link(times);
  EXPECT_GE(flat.latency_s, 0);
  EXPECT_TRUE(std::isfinite(flat.bytes_per_second) && flat.bytes_per_second > 0);
}

TEST(SweepLink, MeasuresTheThrottle) {
  const auto device = make_device(parse_device("cpu:" + std::to_string(available_cores()[0])));
  const auto other = make_device(parse_device("cpu:" + std::to_string(available_cores().back())));
  const auto times = profiler::sweep_link(device, other, {2e9, 300e-6}, 1);
  ASSERT_GE(times.size(), 4U);
  EXPECT_EQ(times.front().bytes, 4 << 10);
  EXPECT_EQ(times.back().bytes, 16 << 20);
  for (const profiler::CopyTime& time : times) EXPECT_GE(time.seconds, 300e-6 + static_cast<double>(time.bytes) / 2e9 - 1e-6) << time.bytes;
}

TEST(SweepLink, SlowLinkIsSweptUpToTheFirstMebibyteOnly) {
  const auto device = make_device(parse_device("sleep:0"));
  const auto other = make_device(parse_device("sleep:1"));
  const auto times = profiler::sweep_link(device, other, {20e6, 0}, 1);
  EXPECT_EQ(times.size(), 5U);
  EXPECT_EQ(times.back().bytes, 1 << 20);
  for (const profiler::CopyTime& time : times) EXPECT_GE(time.seconds, static_cast<double>(time.bytes) / 20e6 - 1e-6) << time.bytes;
  EXPECT_TRUE(std::isfinite(profiler::fit_link(times).bytes_per_second));
}

TEST(SweepLink, TakesTheCallersSizes) {
  const auto device = make_device(parse_device("sleep:0"));
  const auto other = make_device(parse_device("sleep:1"));
  std::vector<std::int64_t> sizes;
  for (const profiler::CopyTime& time : profiler::sweep_link(device, other, {}, 1, 1 << 10, 64 << 10)) sizes.push_back(time.bytes);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{1 << 10, 4 << 10, 16 << 10, 64 << 10}));
}

TEST(Optimizer, RefusesInvalidRates) {
  const std::vector<at::Tensor> parameters{at::ones({2}).requires_grad_()};
  EXPECT_THROW((void)profiler::make_optimizer(parse_optimizer("sgd"), -0.1, parameters), Error);
  EXPECT_THROW((void)profiler::make_optimizer(parse_optimizer("adam"), std::nan(""), parameters), Error);
  EXPECT_THROW((void)profiler::make_optimizer(parse_optimizer("adamw"), std::numeric_limits<double>::infinity(), parameters), Error);
}

/// Every number begins as 1, and has the gradient 4 in every step.
double parameter_after(const char* optimizer, double rate, at::IntArrayRef shape, int steps) {
  at::Tensor parameter = at::ones(shape).requires_grad_();
  parameter.mutable_grad() = at::full(shape, 4.0);
  const auto made = profiler::make_optimizer(parse_optimizer(optimizer), rate, {parameter});
  for (int step = 0; step < steps; ++step) made->step();
  return parameter.flatten()[0].item<double>();
}

TEST(Optimizer, FirstStepIsTheClosedForm) {
  const auto step = [](const char* name, double rate) { return parameter_after(name, rate, {1}, 1); };
  EXPECT_FLOAT_EQ(static_cast<float>(step("sgd", 0)), 1 - 0.01F * 4);
  EXPECT_FLOAT_EQ(static_cast<float>(step("sgd", 0.5)), 1 - 0.5F * 4);
  // The first step of Adam has the length of the learning rate, whatever the gradient.
  EXPECT_NEAR(step("adam", 0), 1 - 0.001, 1e-6);
  EXPECT_NEAR(step("adamw", 0), 1 - 0.001 - 0.001 * 0.01, 1e-6);
}

TEST(Optimizer, MomentumAndDecayAreTheClosedForm) {
  const double rate = 0.5, gradient = 4, momentum = 0.9, decay = 0.25;
  // Velocity v = momentum v + (gradient + decay w), w -= rate v.
  double weight = 1, velocity = 0;
  for (int step = 0; step < 3; ++step) {
    velocity = momentum * velocity + gradient + decay * weight;
    weight -= rate * velocity;
  }
  EXPECT_NEAR(parameter_after("sgd:momentum=0.9:weight_decay=0.25", rate, {2, 2}, 3), weight, 1e-5);
  // Nesterov looks one step ahead.
  EXPECT_NEAR(parameter_after("sgd:momentum=0.9:nesterov=true", rate, {1}, 1), 1 - rate * (gradient + momentum * gradient), 1e-5);
}

TEST(Optimizer, VectorsDecayUnlessToldOtherwise) {
  const double rate = 0.001, all = parameter_after("adamw:weight_decay=0.5", rate, {3}, 1);
  EXPECT_NEAR(all, 1 - rate * 0.5 - rate, 1e-6);
  EXPECT_NEAR(parameter_after("adamw:weight_decay=0.5:decay=matrices", rate, {3}, 1), 1 - rate, 1e-6);
  EXPECT_NEAR(parameter_after("adamw:weight_decay=0.5:decay=matrices", rate, {3, 1}, 1), all, 1e-7);
}

}  // namespace
}  // namespace mptune::testing
