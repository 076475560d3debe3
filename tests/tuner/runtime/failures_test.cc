// One failure gives one error that says where it happened, whatever fails, in whichever action, under every schedule; the next step works.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <random>
#include <stdexcept>

#include "reference.h"
#include "tests/support/cases.h"
#include "tuner/runtime/pipeline.h"
#include "wrapped_device.h"

namespace mptune::testing {
namespace {

constexpr std::int64_t kFailureWidth = 8;
constexpr int kLayers = 6;
constexpr int kMicrobatches = 4;

enum class Fault { none, forward, backward, loss, hook, memory };

/// Which call throws: the one of `layer` in `microbatch`.
struct Planned {
  std::atomic<Fault> fault{Fault::none};
  std::atomic<int> layer{-1}, microbatch{-1};

  [[nodiscard]] bool is(Fault asked, int in_layer, int in_microbatch) const {
    return fault == asked && layer == in_layer && microbatch == in_microbatch;
  }
};

[[noreturn]] void break_down() {
  throw std::runtime_error("broken on purpose");
}

/// Passes its input on; its backward throws if planned. The layer's own `planned` outlives the graph.
struct Watched : torch::autograd::Function<Watched> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const Planned* planned, std::int64_t layer,
                            std::int64_t microbatch) {
    context->saved_data["planned"] = reinterpret_cast<std::int64_t>(planned);
    context->saved_data["layer"] = layer;
    context->saved_data["microbatch"] = microbatch;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    const auto number = [&](const char* name) { return context->saved_data[name].toInt(); };
    const auto* planned = reinterpret_cast<const Planned*>(number("planned"));
    if (planned->is(Fault::backward, static_cast<int>(number("layer")), static_cast<int>(number("microbatch")))) break_down();
    return {gradients[0], at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

class FaultyLayer final : public Layer {
 public:
  FaultyLayer(int index, std::shared_ptr<Planned> planned)
      : index_(index), planned_(std::move(planned)), weight_(at::eye(kFailureWidth).mul(0.5 + 0.1 * index).requires_grad_()) {}

  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    const int m = context.microbatch;
    if (planned_->is(Fault::forward, index_, m)) break_down();
    if (planned_->is(Fault::memory, index_, m)) C10_THROW_ERROR(OutOfMemoryError, "no memory on purpose");
    at::Tensor output = Watched::apply(inputs[0].matmul(weight_), planned_.get(), std::int64_t{index_}, std::int64_t{m});
    if (output.requires_grad())
      output.register_hook([planned = planned_, layer = index_, m](const at::Tensor&) {
        if (planned->is(Fault::hook, layer, m)) break_down();
      });
    return {output};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"layer" + std::to_string(index_) + ".w", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<FaultyLayer>(index_, planned_); }
  [[nodiscard]] std::string kind() const override { return "Faulty"; }

 private:
  int index_;
  std::shared_ptr<Planned> planned_;
  at::Tensor weight_;
};

Model faulty_model(const std::shared_ptr<Planned>& planned) {
  std::vector<ModelLayer> layers;
  for (int i = 0; i < kLayers; ++i) layers.push_back({"layer" + std::to_string(i), {}, std::make_unique<FaultyLayer>(i, planned)});
  SampleDescription sample;
  sample.inputs = {{.shape = {kFailureWidth}}};
  const Loss loss = Loss::custom("faulty", [planned](const Tensors& outputs, const at::Tensor&) {
    if (planned->fault == Fault::loss) break_down();
    return outputs[0].square().mean();
  });
  return {"faulty", std::move(layers), loss, sample, 2 * kMicrobatches};
}

/// A copy to this device fails where no memory is left for it.
class FillableDevice final : public WrappedDevice {
 public:
  using WrappedDevice::WrappedDevice;
  [[nodiscard]] at::Tensor empty_like(const at::Tensor& tensor) override {
    if (full) break_down();
    return WrappedDevice::empty_like(tensor);
  }
  std::atomic<bool> full{false};
};

struct LossAndGradients {
  double loss = 0;
  std::vector<at::Tensor> gradients;
};
LossAndGradients step(Pipeline& pipeline, const Batch& batch) {
  LossAndGradients trained{pipeline.step(batch.inputs, batch.target).loss, {}};
  for (const NamedTensor& parameter : pipeline.named_parameters()) trained.gradients.push_back(parameter.tensor.grad().clone());
  return trained;
}

std::string error_of_step(Pipeline& pipeline, const Batch& batch) {
  try {
    (void)pipeline.step(batch.inputs, batch.target);
  } catch (const c10::OutOfMemoryError& error) {
    return error.msg();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

class Failures : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Recomputing, Failures, ::testing::Bool());

TEST_P(Failures, EndTheirStepAloneAndAreNamed) {
  for (const Plan& plan : two_device_plans(kLayers, 2 * kMicrobatches, kMicrobatches, GetParam())) {
    SCOPED_TRACE(plan.schedule);
    auto planned = std::make_shared<Planned>();
    Pipeline pipeline(faulty_model(planned), plan, {}, shared_core_devices(plan));
    const Batch batch = synthetic_batch(faulty_model(planned).sample(), 2 * kMicrobatches, 1);
    const LossAndGradients expected = step(pipeline, batch);
    int possible = 0;
    for (const Fault fault : {Fault::forward, Fault::backward, Fault::loss, Fault::hook, Fault::memory})
      for (int layer = 0; layer < kLayers; ++layer)
        for (int m = 0; m < kMicrobatches; ++m) {
          if ((fault == Fault::loss && layer + m > 0) || possible++ % thinned(1) != 0) continue;
          SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " of layer " + std::to_string(layer) + " in micro-batch " +
                       std::to_string(m));
          planned->layer = layer;
          planned->microbatch = m;
          planned->fault = fault;
          EXPECT_THAT(error_of_step(pipeline, batch), ::testing::HasSubstr("on purpose"));
          planned->fault = Fault::none;
          const std::string where = pipeline.failed_at();
          if (fault != Fault::loss) {
            EXPECT_THAT(where, ::testing::HasSubstr("micro-batch " + std::to_string(m)));
          } else {
            EXPECT_THAT(where, ::testing::EndsWith(", the loss"));
          }
          if (fault == Fault::forward || fault == Fault::memory) {
            EXPECT_THAT(where, ::testing::EndsWith("layer 'layer" + std::to_string(layer) + "'"));
          } else if (fault != Fault::loss) {
            EXPECT_THAT(where, ::testing::HasSubstr(", backward"));
          }
          const LossAndGradients next = step(pipeline, batch);
          EXPECT_EQ(pipeline.failed_at(), "");
          EXPECT_EQ(next.loss, expected.loss);
          EXPECT_EQ(relative_difference(next.gradients, expected.gradients), 0);
        }
  }
}

TEST_P(Failures, OfCopiesEndTheirStepAlone) {
  for (const Plan& plan : two_device_plans(kLayers, 2 * kMicrobatches, kMicrobatches, GetParam())) {
    SCOPED_TRACE(plan.schedule);
    auto planned = std::make_shared<Planned>();
    auto devices = shared_core_devices(plan);
    const auto full = std::make_shared<FillableDevice>(devices[1]);
    devices[1] = full;
    Pipeline pipeline(faulty_model(planned), plan, {}, devices);
    const Batch batch = synthetic_batch(faulty_model(planned).sample(), 2 * kMicrobatches, 1);
    full->full = true;
    EXPECT_EQ(error_of_step(pipeline, batch), "broken on purpose");
    full->full = false;
    const double loss = step(pipeline, batch).loss;
    EXPECT_EQ(step(pipeline, batch).loss, loss);
  }
}

/// Its clean-up fails, too.
class LostDevice final : public WrappedDevice {
 public:
  using WrappedDevice::WrappedDevice;
  [[nodiscard]] MomentPtr now() override {
    if (lost) break_down();
    return WrappedDevice::now();
  }
  std::atomic<bool> lost{false};
};

TEST(FailedCleanUp, DoesNotFailTheNextStep) {
  for (const Plan& plan : two_device_plans(kLayers, 2 * kMicrobatches, kMicrobatches, false)) {
    SCOPED_TRACE(plan.schedule);
    auto planned = std::make_shared<Planned>();
    auto devices = shared_core_devices(plan);
    const auto lost = std::make_shared<LostDevice>(devices[1]);
    devices[1] = lost;
    Pipeline pipeline(faulty_model(planned), plan, {}, devices);
    const Batch batch = synthetic_batch(faulty_model(planned).sample(), 2 * kMicrobatches, 1);
    const double loss = step(pipeline, batch).loss;
    lost->lost = true;
    EXPECT_EQ(error_of_step(pipeline, batch), "broken on purpose");
    lost->lost = false;
    EXPECT_EQ(step(pipeline, batch).loss, loss);
  }
}

/// Of so many steps, every twentieth fails.
void train_with_failures(int steps) {
  const Plan plan = two_device_plans(kLayers, 2 * kMicrobatches, kMicrobatches, true)[1];
  auto planned = std::make_shared<Planned>();
  const auto devices = shared_core_devices(plan);
  Pipeline pipeline(faulty_model(planned), plan, {}, devices);
  const Batch batch = synthetic_batch(faulty_model(planned).sample(), 2 * kMicrobatches, 1);
  const double loss = step(pipeline, batch).loss;
  std::vector<std::int64_t> held;
  for (const auto& device : devices) held.push_back(device->current_bytes());
  for (int i = 0; i < steps; ++i) {
    planned->layer = i / 20 % kLayers;
    planned->microbatch = i / 20 % kMicrobatches;
    planned->fault = i % 20 != 19 ? Fault::none : i / 20 % 2 == 0 ? Fault::forward : Fault::backward;
    if (planned->fault == Fault::none) {
      ASSERT_EQ(pipeline.step(batch.inputs, batch.target).loss, loss) << i;
    } else {
      ASSERT_EQ(error_of_step(pipeline, batch), "broken on purpose") << i;
    }
  }
  planned->fault = Fault::none;
  EXPECT_EQ(step(pipeline, batch).loss, loss);
  for (std::size_t d = 0; d < devices.size(); ++d) EXPECT_LE(devices[d]->current_bytes(), held[d] + (64 << 10)) << devices[d]->name();
}

TEST(LongTraining, FailuresNeitherGrowNorHangIt) {
  train_with_failures(cases(1'000));
}

TEST(NightlyLongTraining, FailuresNeitherGrowNorHangIt) {
  train_with_failures(20'000);
}

// Sequences of other lengths in every step: what a length leaves behind is freed for the others.
void train_on_random_lengths(int steps) {
  constexpr int kLongest = 400;
  const Plan plan = two_device_plans(kLayers, 2 * kMicrobatches, kMicrobatches, false)[1];
  const auto devices = shared_core_devices(plan);
  Pipeline pipeline(faulty_model(std::make_shared<Planned>()), plan, {}, devices);
  const auto step = [&](int length) { (void)pipeline.step(at::ones({2 * kMicrobatches, length, kFailureWidth}), {}); };
  step(kLongest);
  const std::vector<std::int64_t> longest = pipeline.peak_bytes();
  std::mt19937 random(1);
  for (int i = 0; i < steps; ++i) step(std::uniform_int_distribution<int>(1, kLongest)(random));
  for (std::size_t d = 0; d < devices.size(); ++d)
    EXPECT_LE(static_cast<double>(pipeline.peak_bytes()[d]), 1.2 * static_cast<double>(longest[d])) << devices[d]->name();
}

TEST(LongTraining, RandomLengthsStayWithinTheLongest) {
  train_on_random_lengths(cases(300));
}

TEST(NightlyLongTraining, RandomLengthsStayWithinTheLongest) {
  train_on_random_lengths(10'000);
}

}  // namespace
}  // namespace mptune::testing
