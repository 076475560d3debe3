#include "profiler/measure/layer_operators.h"

#include <gtest/gtest.h>

#include "profiler/device/list/device_list.h"
#include "tests/support/two_convolutions.h"

namespace mptune::testing {
using namespace profiler;
namespace {

std::vector<DeviceSpec> first_core() {
  return parse_devices("cpu:" + std::to_string(available_cores()[0]));
}

TEST(MeasureOperators, NamesTheSlowKernelAndWhatReplacingItTakes) {
  const Model model = two_convolutions();
  const Batch batch = synthetic_batch(model.sample(), 16, 0);
  const auto operators =
      measure_operators(model, batch, first_core(), {{0, 1, 8, 16, 2, 0.5}, {0, 0, 8, 16, 2, 0.5}, {1, 0, 8, 16, 2, 0.5}});
  ASSERT_EQ(operators.size(), 4u) << "two layers at two sizes; the second class has no device here";
  for (const LayerOperator& o : operators) {
    const bool slow = o.layer == 1 && o.samples == 8;
    EXPECT_EQ(o.device_class, 0);
    EXPECT_TRUE(o.samples == 8 || o.samples == 16);
    EXPECT_EQ(o.name.find("slow_conv2d") != std::string::npos, slow) << o.name;
    EXPECT_EQ(o.replaced_seconds > 0, slow);
    EXPECT_GT(o.seconds, 0);
    EXPECT_GT(o.share, 0);
    EXPECT_LE(o.share, 1);
  }
}

TEST(MeasureOperators, LeavesTheModelAsItWas) {
  const Model model = two_convolutions();
  const Batch batch = synthetic_batch(model.sample(), 16, 0);
  ASSERT_EQ(measure_operators(model, batch, first_core(), {{0, 1, 8, 16, 2, 0.5}}).size(), 2u);
  for (const NamedTensor& parameter : model.parameters()) EXPECT_FALSE(parameter.tensor.grad().defined());
  EXPECT_TRUE(measure_operators(model, batch, first_core(), {}).empty());
}

}  // namespace
}  // namespace mptune::testing
