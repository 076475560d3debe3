// Complex tensors cross the cuts, and their gradients come back, recomputed or not.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "profiler/measure/measure.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr std::int64_t kSignalLength = 6;
constexpr int kSpectralLayers = 3;
constexpr int kSpectralBatch = 8;

/// To frequencies, weights of them, and back: the outputs of the first two layers are complex.
class SpectralLayer final : public Layer {
 public:
  explicit SpectralLayer(int index) : index_(index) {
    const std::int64_t frequencies = kSignalLength / 2 + 1;
    const std::vector<std::int64_t> shape = index == 1 ? std::vector{frequencies} : std::vector{kSignalLength, kSignalLength};
    weight_ = at::linspace(-0.5, 1, index == 1 ? frequencies : kSignalLength * kSignalLength).view(shape).requires_grad_();
  }
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    if (index_ == 0) return {at::fft_rfft(inputs[0].matmul(weight_))};
    return {index_ == 1 ? inputs[0] * weight_ : at::fft_irfft(inputs[0], kSignalLength).matmul(weight_)};
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

Plan spectral_plan(int stages, const std::string& recompute) {
  PlanOptions options;
  options.devices = device_names(stages);
  options.batch = kSpectralBatch;
  options.layers = kSpectralLayers;
  options.stages = stages;
  options.microbatches = 2;
  options.schedule = "1f1b";
  options.recompute = recompute;
  return make_plan(options);
}

TEST(ComplexActivations, GradientsComeBackOverEveryCut) {
  const Batch batch = synthetic_batch(spectral_model().sample(), kSpectralBatch, 1);
  const ReferenceStep reference = run_reference(spectral_model(), batch, {4, 4});
  for (int stages = 1; stages <= kSpectralLayers; ++stages)
    for (const char* recompute : {"none", "all"}) {
      SCOPED_TRACE(std::to_string(stages) + " stages, recompute " + recompute);
      const Plan plan = spectral_plan(stages, recompute);
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
