#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "reference.h"
#include "tests/support/two_convolutions.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

/// Counts operators of all threads, backward included.
struct OperatorCounts {
  static inline std::atomic<int> slow{0}, fast{0};

  OperatorCounts() : handle(at::addGlobalCallback(at::RecordFunctionCallback(&count).scopes({at::RecordScope::FUNCTION}))) {
    slow = fast = 0;
  }
  ~OperatorCounts() { at::removeCallback(handle); }

  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
    slow += std::strstr(function.name(), "slow_conv2d") != nullptr;
    fast += std::strcmp(function.name(), "aten::mkldnn_convolution") == 0;
    return nullptr;
  }

  at::CallbackHandle handle;
};

struct Step {
  std::vector<at::Tensor> gradients;
  int slow = 0, fast = 0;
};

/// Two stages; `microbatches` of the 16 samples.
Step step_of(const Model& model, const Batch& batch, int microbatches, bool replace, const std::string& recompute) {
  std::vector<ModelLayer> layers;
  for (const ModelLayer& layer : model.layers()) layers.push_back({layer.name, layer.modules, layer.layer->clone()});
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = 16;
  options.layers = 2;
  options.stages = 2;
  options.microbatches = microbatches;
  options.recompute = recompute;
  Plan plan = make_plan(options);
  plan.options.replace_slow_kernels = replace;
  Pipeline pipeline({"two", std::move(layers), model.loss(), model.sample(), 16}, plan, {}, shared_core_devices(plan));
  const OperatorCounts counts;
  (void)pipeline.step(batch.inputs, batch.target);
  Step step;
  step.slow = OperatorCounts::slow;
  step.fast = OperatorCounts::fast;
  for (const NamedTensor& parameter : pipeline.named_parameters()) step.gradients.push_back(parameter.tensor.grad().clone());
  return step;
}

TEST(ReplacedKernels, APlanReplacesThemAndDiffersByRounding) {
  const Model model = two_convolutions();
  const Batch batch = synthetic_batch(model.sample(), 16, 0);
  for (const char* recompute : {"none", "all"}) {
    const int forwards = std::strcmp(recompute, "all") == 0 ? 2 : 1;
    const Step plain = step_of(model, batch, 2, false, recompute), replaced = step_of(model, batch, 2, true, recompute);
    EXPECT_GT(plain.slow, 0);
    EXPECT_EQ(plain.fast, 2 * forwards) << "the 3x3 convolution of two micro-batches";
    EXPECT_EQ(replaced.slow, 0);
    EXPECT_EQ(replaced.fast, 4 * forwards);
    EXPECT_LE(relative_difference(replaced.gradients, plain.gradients), 1e-5);
  }
}

TEST(ReplacedKernels, WithoutAnyAPlanChangesNoBit) {
  const Model model = two_convolutions();
  const Batch batch = synthetic_batch(model.sample(), 16, 0);
  const Step plain = step_of(model, batch, 1, false, "none"), replaced = step_of(model, batch, 1, true, "none");
  EXPECT_EQ(plain.slow, 0);
  EXPECT_EQ(relative_difference(replaced.gradients, plain.gradients), 0);
}

}  // namespace
}  // namespace mptune::testing
