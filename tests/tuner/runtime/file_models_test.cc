// Invariant 1 for models from files: ResNet-18 as a plug-in and as TorchScript gives the bits of the built-in one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "planner/search/make_plan.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tests/support/files.h"
#include "tests/support/script_modules.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kFileModelsBatch = 8;
constexpr const char* kFileModelsInput = "3x32x32";

Plan plan_of(int layers, bool recompute) {
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kFileModelsBatch;
  options.layers = layers;
  options.stages = 2;
  options.microbatches = 4;
  options.schedule = "1f1b";
  options.recompute = recompute ? "all" : "none";
  return make_plan(options);
}

class FileModels : public ::testing::TestWithParam<const char*> {
 protected:
  FileModels() {
    if (std::string(GetParam()) == "script") script_resnet18().save(folder_.path("resnet.pt"));
  }
  // With the built-in model's weights; both have the same layers in the same order.
  [[nodiscard]] Model load() const {
    const bool script = std::string(GetParam()) == "script";
    Model model = load_model(script ? folder_.path("resnet.pt") : std::string(MPTUNE_BINARY_DIR) + "/plugins/libresnet_plugin.so",
                             kFileModelsInput, 9)
                      .model;
    const Model builtin = load_model("resnet18", kFileModelsInput, 0).model;
    const auto copy = [](const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
      const at::NoGradGuard no_gradients;
      ASSERT_EQ(from.size(), to.size());
      for (std::size_t i = 0; i < from.size(); ++i) at::Tensor(to[i].tensor).copy_(from[i].tensor);
    };
    copy(builtin.parameters(), model.parameters());
    copy(builtin.buffers(), model.buffers());
    return model;
  }

  TestFolder folder_{"file-models"};
  Batch batch_ = synthetic_batch(load_model("resnet18", kFileModelsInput, 0).model.sample(), kFileModelsBatch, 3);
};

TEST_P(FileModels, UnpipelinedIsBitEqualToTheBuiltIn) {
  const auto expected = run_reference("resnet18", kFileModelsInput, batch_, {2, 2, 2, 2});
  const auto step = run_reference(load(), batch_, {2, 2, 2, 2});
  EXPECT_EQ(step.loss, expected.loss);
  for (std::size_t m = 0; m < 4; ++m)
    for (std::size_t i = 0; i < expected.gradients[m].size(); ++i)
      EXPECT_TRUE(at::equal(step.gradients[m][i], expected.gradients[m][i])) << m << " " << i;
  for (std::size_t i = 0; i < expected.buffers.size(); ++i) EXPECT_TRUE(at::equal(step.buffers[i], expected.buffers[i])) << i;
}

TEST_P(FileModels, PipelinedIsBitEqualToTheBuiltIn) {
  const auto expected = run_reference("resnet18", kFileModelsInput, batch_, {2, 2, 2, 2});
  for (const bool recompute : {false, true}) {
    const Model model = load();
    const Plan plan = plan_of(model.size(), recompute);
    const auto sums = sum_in_plan_order(expected, plan, model);
    Pipeline pipeline(load(), plan, {}, shared_core_devices(plan));
    EXPECT_EQ(pipeline.step(batch_.inputs, batch_.target).loss, expected.loss);
    const auto parameters = pipeline.named_parameters();
    ASSERT_EQ(parameters.size(), sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_TRUE(at::equal(parameters[i].tensor.grad(), sums[i])) << parameters[i].name;
    const auto buffers = pipeline.named_buffers();
    ASSERT_EQ(buffers.size(), expected.buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(at::equal(buffers[i].tensor, expected.buffers[i])) << buffers[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, FileModels, ::testing::Values("plugin", "script"),
                         [](const auto& form) { return std::string(form.param); });

}  // namespace
}  // namespace mptune::testing
