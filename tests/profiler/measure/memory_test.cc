// What is measured where a device has too little memory.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/device/list/device_list.h"
#include "profiler/measure/link_timing.h"
#include "profiler/measure/measure.h"
#include "tests/profiler/measure/measuring.h"

namespace mptune::testing {
using namespace profiler;
namespace {

/// Has memory for micro-batches of so many samples.
class SmallLayer final : public Layer {
 public:
  explicit SmallLayer(std::int64_t most) : most_(most), weight_(at::rand({4}).requires_grad_()) {}
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    if (inputs[0].size(0) > most_) C10_THROW_ERROR(OutOfMemoryError, "out of memory on a device of this test");
    return {inputs[0] * weight_};
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"weight", weight_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<SmallLayer>(most_); }
  [[nodiscard]] std::string kind() const override { return "Small"; }

 private:
  std::int64_t most_;
  at::Tensor weight_;
};

/// Of this process's.
std::string own_core() {
  return "cpu:" + std::to_string(available_cores()[0]);
}

Profile measure_small(std::int64_t most) {
  std::vector<ModelLayer> layers;
  layers.push_back({"small", {}, std::make_unique<SmallLayer>(most)});
  SampleDescription sample;
  sample.inputs = {{.shape = {4}}};
  const Model model("small", std::move(layers), Loss::mean_square(), sample, 8);
  MeasureOptions options = options_for(own_core(), 8);
  options.budget_s = 0.1;
  return measure_profile(model, synthetic_batch(sample, 8, 0), options);
}

TEST(MeasureProfile, SizesThatDoNotFitIntoMemoryAreLeftOut) {
  const Profile profile = measure_small(4);
  std::vector<int> sizes;
  for (const LayerCost& cost : profile.classes.at(0).layers.at(0).by_samples) sizes.push_back(cost.samples);
  EXPECT_EQ(sizes, (std::vector<int>{1, 2, 4}));
}

TEST(MeasureProfile, AModelThatDoesNotFitIntoMemoryIsNamedWithTheDevice) {
  try {
    (void)measure_small(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "not even a micro-batch of 1 sample of the whole model fits into memory");
    EXPECT_EQ(error.where(), own_core());
    EXPECT_EQ(error.code(), ExitCode::infeasible);
  }
}

TEST(SweepLink, EndsBeforeASizeThatADeviceHasNoMemoryFor) {
  const auto device = make_device(parse_device(own_core()));
  const auto other = make_device(parse_device("cpu:" + std::to_string(available_cores().back())));
  device->set_memory_cap(device->current_bytes() + (3 << 20));
  const auto times = sweep_link(device, other, {}, 1);
  EXPECT_EQ(times.back().bytes, 1 << 20);
  device->set_memory_cap(device->current_bytes() + (40 << 10));
  const auto small = sweep_link(device, other, {}, 1);
  EXPECT_EQ(small.back().bytes, 16 << 10);
  EXPECT_GT(fit_link(small).bytes_per_second, 0);
  device->set_memory_cap(device->current_bytes() + (5 << 10));
  EXPECT_THROW((void)sweep_link(device, other, {}, 1), c10::OutOfMemoryError);
  device->set_memory_cap(0);
}

}  // namespace
}  // namespace mptune::testing
