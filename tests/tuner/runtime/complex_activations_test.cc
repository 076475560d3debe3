// Complex tensors cross the cuts, and their gradients come back, recomputed or not.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "profiler/measure/measure.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr std::int64_t kSignalLength = 6, kFrequencies = kSignalLength / 2 + 1;
constexpr int kSpectralLayers = 4;
constexpr int kSpectralBatch = 8;

/// To frequencies, twice weights of them, and back: the outputs of all layers but the last are complex.
class SpectralLayer final : public Layer {
 public:
  explicit SpectralLayer(int index) : index_(index) {
    const bool between = index > 0 && index + 1 < kSpectralLayers;
    const std::vector<std::int64_t> shape = between ? std::vector{kFrequencies} : std::vector{kSignalLength, kSignalLength};
    weight_ = at::linspace(-0.5, 1, between ? kFrequencies : kSignalLength * kSignalLength).view(shape).requires_grad_();
  }
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    if (index_ == 0) return {at::fft_rfft(inputs[0].matmul(weight_))};
    if (index_ + 1 < kSpectralLayers) return {inputs[0] * weight_};
    return {at::fft_irfft(inputs[0], kSignalLength).matmul(weight_)};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"layer" + std::to_string(index_) + ".w", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<SpectralLayer>(index_); }
  [[nodiscard]] std::string kind() const override { return "Spectral"; }

 private:
  int index_;
  at::Tensor weight_;
};

Model spectral_model() {
  std::vector<ModelLayer> layers;
  for (int i = 0; i < kSpectralLayers; ++i) layers.push_back({"layer" + std::to_string(i), {}, std::make_unique<SpectralLayer>(i)});
  SampleDescription sample;
  sample.inputs = {{.shape = {kSignalLength}}};
  return {"spectral", std::move(layers), Loss::mean_square(), sample, kSpectralBatch};
}

TEST(ComplexActivations, GradientsComeBackOverEveryCut) {
  const Batch batch = synthetic_batch(spectral_model().sample(), kSpectralBatch, 1);
  const ReferenceStep reference = run_reference(spectral_model(), batch, {4, 4});
  for (const bool recompute : {false, true})
    for (const Plan& plan : two_device_plans(kSpectralLayers, kSpectralBatch, 2, recompute)) {
      SCOPED_TRACE(plan.schedule + (recompute ? ", recomputing" : ""));
      Pipeline pipeline(spectral_model(), plan, {}, shared_core_devices(plan));
      (void)pipeline.step(batch.inputs, batch.target);
      std::vector<at::Tensor> gradients;
      for (const NamedTensor& parameter : pipeline.named_parameters()) {
        ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
        gradients.push_back(parameter.tensor.grad());
      }
      EXPECT_EQ(relative_difference(gradients, sum_in_plan_order(reference, plan, spectral_model())), 0);
    }
}

}  // namespace
}  // namespace mptune::testing
