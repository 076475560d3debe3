// A user's loss that returns no number fails its step, and no other.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>

#include "fragile_layer.h"
#include "profiler/base/error.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

TEST(Pipeline, ALossThatIsNoNumberFailsTheStepAndTheNextOneWorks) {
  for (const Plan& plan : two_device_plans(4, 8, 4, false)) {
    SCOPED_TRACE(plan.schedule);
    const auto mean = std::make_shared<std::atomic<bool>>(true);
    const Loss loss = Loss::custom("mine", [mean](const Tensors& outputs, const at::Tensor&) {
      const at::Tensor squares = outputs[0].square();
      return *mean ? squares.mean() : squares.mean(1);
    });
    Pipeline pipeline(fragile_model(4, std::make_shared<FragileLayer::Switches>(), loss), plan, {}, shared_core_devices(plan));
    const at::Tensor data = at::ones({8, FragileLayer::kWidth});
    const double expected = pipeline.step(data, {}).loss;
    *mean = false;
    try {
      (void)pipeline.step(data, {});
      ADD_FAILURE() << "a loss of two numbers was taken";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the loss is a tensor of 2, not a number");
    }
    *mean = true;
    EXPECT_EQ(pipeline.step(data, {}).loss, expected);
  }
}

}  // namespace
}  // namespace mptune::testing
