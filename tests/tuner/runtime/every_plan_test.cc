// Every schedule, form of model, number of micro-batches, with and without recomputation, replicas and helping devices: the gradients of
// the un-pipelined loop over the micro-batches, bit for bit, by as many products. Fused weight gradients differ by rounding only.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "planner/schedule/schedule_info.h"
#include "planner/search/finish/fuse_weights.h"
#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "small_models.h"
#include "stage_loop.h"
#include "tests/support/cases.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kEveryPlanBatch = 10;  // unequal micro-batches for m = 3 and 8

struct Choices {
  std::string schedule;
  int devices = 2;  ///< without replicas
  int microbatches = 1;
  bool recompute = false;
  bool replicas = false;
  bool help = false;
  bool fused = false;
};

std::string text_of(const Choices& c) {
  return c.schedule + " D=" + std::to_string(c.devices) + " m=" + std::to_string(c.microbatches) + (c.recompute ? " recompute" : "") +
         (c.replicas ? " replicas" : "") + (c.help ? " help" : "") + (c.fused ? " fused" : "");
}

std::vector<Choices> all_choices(const std::vector<int>& devices) {
  std::vector<Choices> all;
  for (const auto& known : {planner::schedules(), planner::late_schedules()})
    for (const planner::ScheduleInfo& schedule : known)
      for (const int count : devices)
        for (const int m : {1, 2, 3, 5, 8})
          for (const bool recompute : {false, true})
            for (const bool replicas : {false, true})
              for (const bool help : {false, true})
                for (const bool fused : {false, true}) all.push_back({schedule.name, count, m, recompute, replicas, help, fused});
  return all;
}

/// Weight gradients of micro-batches in pairs in the first stage, of all in the second, and so on.
Plan fused(const Plan& plan) {
  std::vector<int> sizes;
  for (int s = 0; s < plan.num_stages(); ++s) sizes.push_back(s % 2 == 0 ? 2 : plan.num_microbatches());
  Plan result = planner::with_fused_weights(plan, sizes);
  if (is_exact(result)) throw Error("no weight gradients can be fused", "plan", "split backwards, several micro-batches, no replicas");
  return result;
}

/// Throws Error where the planner refuses.
Plan plan_of(const Choices& c, int layers) {
  PlanOptions options;
  options.virtual_stages = planner::schedule_info(c.schedule).least_virtual_stages;
  options.stages = c.devices * options.virtual_stages;
  options.batch = kEveryPlanBatch;
  options.layers = layers;
  options.microbatches = c.microbatches;
  options.schedule = c.schedule;
  options.recompute = c.recompute ? "all" : "none";
  // 2 replicas of the first stage, and of the others for even m.
  if (c.replicas) options.replicas.assign(as_index(options.stages), c.microbatches % 2 == 0 ? 2 : 1);
  if (c.replicas) options.replicas[0] = 2;
  int devices = c.devices;
  if (c.replicas) devices = c.microbatches % 2 == 0 ? 2 * options.stages : options.stages + 1;
  options.devices = device_names(devices);
  Plan plan = make_plan(options);
  plan.options.idle_devices_help = c.help;
  return c.fused ? fused(plan) : plan;
}

std::optional<Plan> possible_plan(const Choices& c, int layers) {
  try {
    return plan_of(c, layers);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// A model with the results of the loops that were asked for.
class Covered {
 public:
  explicit Covered(const Model& model)
      : model_(copy_of(model, Loss::mean_square())), batch_(synthetic_batch(model_.sample(), kEveryPlanBatch, 3)) {}

  void check(const Plan& plan, const std::string& what) {
    SCOPED_TRACE(what);
    const StageLoop& loop = loop_of(plan);
    Pipeline pipeline(copy_of(model_), plan, {}, shared_core_devices(plan));
    (void)ProductCounter::take();
    const StepResult result = pipeline.step(batch_.inputs, batch_.target);
    expect_products(ProductCounter::take(), loop, plan);
    EXPECT_NEAR(result.loss, loop.loss, 1e-12 * std::max(1.0, std::abs(loop.loss)));
    expect_gradients(pipeline, sum_ascending(loop, plan), is_exact(plan));
    for (const NamedTensor& buffer : pipeline.named_buffers())
      EXPECT_TRUE(at::equal(buffer.tensor, loop.buffers.at(buffer.name))) << buffer.name;
  }

  /// Products that fusing saved, or that added onto a gradient, in all checked plans.
  [[nodiscard]] int fused_calls() const { return fused_calls_ + fused_convolutions_; }
  [[nodiscard]] int fused_convolutions() const { return fused_convolutions_; }

  /// Checks every `stride`th of the possible plans, from the `first` on. Returns how many are possible.
  int check_all(const std::vector<int>& devices, int stride, int first) {
    int possible = 0;
    const int before = failures();
    bool failed = false;
    for (const Choices& choices : all_choices(devices)) {
      const auto plan = possible_plan(choices, model_.size());
      if (!plan || possible++ % stride != first) continue;
      if (!failed) check(*plan, text_of(choices));  // one plan tells enough
      failed = failed || failures() > before;
    }
    return possible;
  }

 private:
  static int failures() { return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

  const StageLoop& loop_of(const Plan& plan) {
    std::vector<int> cuts;
    for (const Stage& stage : plan.stages) cuts.push_back(stage.last_layer);
    auto& found = loops_[{cuts, plan.microbatch_sizes}];
    (void)ProductCounter::take();
    if (found.gradients.empty()) found = run_stage_loop(model_, plan, batch_);
    return found;
  }

  static ProductCounter::Counts expected_products(const StageLoop& loop, const Plan& plan) {
    ProductCounter::Counts counts = loop.backward;
    const int forwards = plan.stages[0].recompute.mode == Recompute::Mode::all ? 2 : 1;
    for (const auto& [name, count] : loop.forward) counts[name] += forwards * count;
    return counts;
  }

  // Fused convolutions run once for the samples of all their micro-batches, fused matrix products add onto a gradient.
  void expect_products(ProductCounter::Counts counts, const StageLoop& loop, const Plan& plan) {
    ProductCounter::Counts expected = expected_products(loop, plan);
    if (!is_exact(plan)) {
      counts["aten::mm"] += counts["aten::addmm_"];
      fused_calls_ += counts["aten::addmm_"];
      fused_convolutions_ += expected[kConvolutions] - counts[kConvolutions];
      EXPECT_LE(counts[kConvolutions], expected[kConvolutions]);
      for (auto* calls : {&counts, &expected})
        std::erase_if(*calls,
                      [](const auto& call) { return call.second == 0 || call.first == kConvolutions || call.first == "aten::addmm_"; });
    }
    EXPECT_EQ(counts, expected);
  }

  static void expect_gradients(const Pipeline& pipeline, const TensorsByName& expected, bool exact) {
    const auto parameters = pipeline.named_parameters();
    EXPECT_EQ(parameters.size(), expected.size());
    double largest = 0;
    for (const auto& [name, sum] : expected) largest = std::max(largest, sum.norm().item<double>());
    for (const NamedTensor& parameter : parameters) {
      ASSERT_TRUE(expected.contains(parameter.name) && parameter.tensor.grad().defined()) << parameter.name;
      const at::Tensor &gradient = parameter.tensor.grad(), &sum = expected.at(parameter.name);
      if (exact)
        EXPECT_TRUE(at::equal(gradient, sum)) << parameter.name;
      else
        EXPECT_LE((gradient - sum).norm().item<double>(), 1e-5 * std::max(sum.norm().item<double>(), kCancels * largest)) << parameter.name;
    }
  }

  // A bias before a batch norm has a gradient of rounding errors alone.
  static constexpr double kCancels = 1e-3;
  static constexpr const char* kConvolutions = "weight gradient of a convolution";

  const Model model_;
  const Batch batch_;
  const ProductCounter counter_;
  std::map<std::pair<std::vector<int>, std::vector<int>>, StageLoop> loops_;
  int fused_calls_ = 0, fused_convolutions_ = 0;
};

Model of_file(const std::string& name) {
  return load_model(MPTUNE_SOURCE_DIR "/tests/golden/exported/" + name + ".pt2", "", 0).model;
}

/// Models of each form.
const std::vector<SmallModel>& forms() {
  static const std::vector<SmallModel> all{
      {"built_in", [] { return load_model("mlp:layers=5,width=8", "", 0).model; }},
      {"transformer", [] { return load_model("transformer:d=8,layers=3,heads=2,seq=4,vocab=10", "", 0).model; }},
      {"nn", convolutions},
      {"script", scripted_model},
      {"exported", [] { return of_file("residual"); }},
      {"exported_tied", [] { return of_file("language"); }}};
  return all;
}

TEST(EveryPlan, WhatIsImpossibleIsSaidSo) {
  std::map<std::string, std::set<std::string>> refused;  // by the planner's words
  std::map<std::string, std::set<int>> possible;
  for (const Choices& choices : all_choices({2})) {
    try {
      (void)plan_of(choices, 6);
      possible[choices.schedule].insert(choices.microbatches);
    } catch (const Error& error) {
      refused[error.problem() + "; " + error.remedy()].insert(text_of(choices));
    }
  }
  for (const auto& [reason, plans] : refused) {
    std::cout << reason << "\n ";
    for (const std::string& plan : plans) std::cout << " " << plan << ",";
    std::cout << "\n";
  }
  for (const auto& known : {planner::schedules(), planner::late_schedules()})
    for (const planner::ScheduleInfo& schedule : known)
      EXPECT_EQ(possible[schedule.name], schedule.one_microbatch ? std::set<int>({1}) : std::set<int>({1, 2, 3, 5, 8})) << schedule.name;
}

class Forms : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(EveryPlan, Forms, ::testing::Range<std::size_t>(0, 6),
                         [](const auto& form) { return forms().at(form.param).name; });

/// Every `stride`th possible plan.
void check_form(const std::string& name, int stride, int first) {
  const auto form = std::ranges::find(forms(), name, &SmallModel::name);
  ASSERT_NE(form, forms().end()) << name;
  const std::vector<int> devices = name == "built_in" ? std::vector<int>{1, 2, 3} : std::vector<int>{2};
  Covered model(form->make());
  EXPECT_GT(model.check_all(devices, stride, first), 600);
  EXPECT_GT(model.fused_calls(), 0);
  EXPECT_TRUE(name != "nn" || model.fused_convolutions() > 0);
}
void check_small_models(int stride) {
  int index = 0;
  for (const SmallModel& small : small_models()) {
    const int first = index++;
    if (first % thinned(1) != 0) continue;
    SCOPED_TRACE(small.name);
    const Model model = small.make();
    EXPECT_GE(model.size(), 4) << "a V on two devices";
    EXPECT_GT(Covered(model).check_all({2}, stride, first % stride), 400);
  }
}

// Strides that have no factor in common with the numbers of choices: every pair of choices appears.
TEST_P(Forms, EqualTheLoop) {
  check_form(forms().at(GetParam()).name, 23, static_cast<int>(GetParam()));
}
TEST(EveryPlan, SmallModelsEqualTheLoop) {
  check_small_models(thinned(37));
}

class NightlyForms : public Forms {};
INSTANTIATE_TEST_SUITE_P(Nightly, NightlyForms, ::testing::Range<std::size_t>(0, 6),
                         [](const auto& form) { return forms().at(form.param).name; });
TEST_P(NightlyForms, EqualTheLoopUnderEveryPlan) {
  check_form(forms().at(GetParam()).name, 1, 0);
}
TEST(NightlyEveryPlan, SmallModelsEqualTheLoop) {
  check_small_models(1);
}

}  // namespace
}  // namespace mptune::testing
