// Plans in channels_last: the same gradients up to rounding, and every bit those of the un-pipelined loop in that format.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/model/files/torch_file.h"
#include "profiler/model/layers/in_memory_format.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tests/support/files.h"
#include "tuner/check/check.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
using namespace tuner;
namespace {

constexpr int kFormatBatch = 7;  // unequal micro-batches

struct FormatCase {
  int stages = 1;
  int microbatches = 1;
  int replicas = 1;
  bool recompute = false;
  std::string schedule = kDefaultSchedule;
};

Plan plan_in_channels_last(const FormatCase& c, int layers) {
  PlanOptions options;
  options.devices = device_names(c.stages * c.replicas);
  options.batch = kFormatBatch;
  options.layers = layers;
  options.stages = c.stages;
  options.microbatches = c.microbatches;
  options.recompute = c.recompute ? "all" : "none";
  options.schedule = c.schedule;
  options.replicas.assign(as_index(c.stages), c.replicas);
  Plan plan = make_plan(options);
  plan.options.memory_format = MemoryFormat::channels_last;
  return plan;
}

Model load(const std::string& text, const std::string& input) {
  return load_model(text, input, 0).model;
}

bool is_channels_last(const at::Tensor& tensor) {
  return tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

/// The un-pipelined loop with the whole model in channels_last.
ReferenceStep reference_in_channels_last(Model model, Batch batch, const std::vector<int>& sizes) {
  profiler::to_memory_format(model.layers(), MemoryFormat::channels_last);
  for (at::Tensor& input : batch.inputs) input = profiler::in_memory_format(input, MemoryFormat::channels_last);
  return run_reference(std::move(model), batch, sizes);
}

void expect_as_the_loop(const std::string& text, const std::string& input, const FormatCase& c) {
  SCOPED_TRACE(text + " K=" + std::to_string(c.stages) + " m=" + std::to_string(c.microbatches) + " R=" + std::to_string(c.replicas) +
               (c.recompute ? " recompute " : " ") + c.schedule);
  const Model model = load(text, input);
  const Batch batch = synthetic_batch(model.sample(), kFormatBatch, 3);
  const Plan plan = plan_in_channels_last(c, model.size());
  const ReferenceStep expected = reference_in_channels_last(load(text, input), batch, plan.microbatch_sizes);
  Pipeline pipeline(load(text, input), plan, {}, shared_core_devices(plan));
  (void)pipeline.step(batch.inputs, batch.target);
  const auto sums = sum_in_plan_order(expected, plan, model);
  const auto gradients = gradients_of(pipeline);
  ASSERT_EQ(gradients.size(), sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_TRUE(at::equal(gradients[i], sums[i])) << pipeline.named_parameters()[i].name;
  const auto buffers = pipeline.named_buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(at::equal(buffers[i].tensor, expected.buffers[i])) << buffers[i].name;
}

TEST(MemoryFormat, PipelinesComputeWhatTheLoopInTheirFormatComputes) {
  for (const FormatCase& c : {FormatCase{1, 1}, FormatCase{1, 3}, FormatCase{2, 2}, FormatCase{2, 3, 1, true}, FormatCase{2, 2, 2},
                              FormatCase{3, 1}, FormatCase{3, 3}, FormatCase{3, 3, 2, true}})
    expect_as_the_loop("resnet18", "3x64x64", c);
}

TEST(MemoryFormat, GradientsAreThoseOfContiguousTensorsButForRounding) {
  const char* const text = "vgg16:width=2,hidden=16,classes=5";  // with dropout, whose masks must not depend on the format
  const Model model = load(text, "3x32x32");
  const Batch batch = synthetic_batch(model.sample(), kFormatBatch, 3);
  const Plan plan = plan_in_channels_last({2, 3}, model.size());
  Pipeline pipeline(load(text, "3x32x32"), plan, {}, shared_core_devices(plan));
  (void)pipeline.step(batch.inputs, batch.target);
  const auto contiguous = sum_in_plan_order(run_reference(load(text, "3x32x32"), batch, plan.microbatch_sizes), plan, model);
  EXPECT_LT(relative_difference(gradients_of(pipeline), contiguous), 1e-5);
  expect_as_the_loop(text, "3x32x32", {2, 3});
}

TEST(MemoryFormat, TheWeightsLieInThePlansFormatAndAreSavedByTheirValues) {
  const Model before = load("resnet18", "3x32x32");
  const Plan plan = plan_in_channels_last({2, 2}, before.size());
  Pipeline pipeline(load("resnet18", "3x32x32"), plan, {}, shared_core_devices(plan));
  int converted = 0;
  const auto held = pipeline.named_parameters();
  const auto given = before.parameters();
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(at::equal(held[i].tensor, given[i].tensor)) << held[i].name;
    converted += is_channels_last(held[i].tensor) ? 1 : 0;
    EXPECT_EQ(is_channels_last(held[i].tensor), held[i].tensor.dim() == 4) << held[i].name;
  }
  EXPECT_EQ(converted, 20) << "convolutions of a ResNet-18";

  Model after = load("resnet18", "3x32x32");
  const at::NoGradGuard no_grad;
  for (const NamedTensor& parameter : held) at::Tensor(parameter.tensor).mul_(2);
  pipeline.copy_state_to(after);
  const TestFolder folder("memory-format");
  profiler::write_torch_file(folder.path("weights.pt"), {{"weight", held.front().tensor}});
  EXPECT_TRUE(at::equal(profiler::read_torch_file(folder.path("weights.pt")).front().second, given.front().tensor * 2));
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_TRUE(at::equal(after.parameters()[i].tensor, given[i].tensor * 2)) << given[i].name;
    EXPECT_TRUE(after.parameters()[i].tensor.is_contiguous()) << given[i].name;
  }
}

TEST(MemoryFormat, ACheckComparesWithTheModelInTheSameFormat) {
  const Model model = load("resnet18", "3x32x32");
  const ModelCheck check(model, synthetic_batch(model.sample(), kFormatBatch, 3), 0);
  const CheckPart part = check.plan(plan_in_channels_last({2, 2}, model.size()));
  EXPECT_FALSE(part.difference);
  EXPECT_EQ(part.largest, 0) << part.largest_at;
}

TEST(MemoryFormat, OtherTensorsStayAsTheyAre) {
  const at::Tensor matrix = at::rand({3, 4}), whole_numbers = at::arange(16).view({1, 2, 2, 4}), image = at::rand({2, 3, 4, 5});
  for (const at::Tensor& tensor : {matrix, whole_numbers, at::Tensor()})
    EXPECT_TRUE(profiler::in_memory_format(tensor, MemoryFormat::channels_last).is_same(tensor));
  EXPECT_TRUE(profiler::in_memory_format(image, MemoryFormat::contiguous).is_same(image));
  const at::Tensor converted = profiler::in_memory_format(image, MemoryFormat::channels_last);
  EXPECT_TRUE(at::equal(converted, image));
  EXPECT_TRUE(is_channels_last(converted));
  EXPECT_TRUE(profiler::in_memory_format(converted, MemoryFormat::channels_last).is_same(converted));
  EXPECT_FALSE(profiler::has_convolution_weights(load("mlp", "").layers()));
  EXPECT_TRUE(profiler::has_convolution_weights(load("resnet18", "").layers()));
}

}  // namespace
}  // namespace mptune::testing
