// A plan changes speed and memory, never the result: invariant 1 of the design.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include <torch/optim/optimizer.h>
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"
#include "profiler/measure/optimizer.h"
#include "profiler/model/loading/load_model.h"
#include "reference.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

constexpr int kTransparencyBatch = 10;  // unequal micro-batches for m = 3 and 8

struct Subject {
  std::string model;
  std::string input;
  bool couples_samples = false;
};
const Subject kMlp{"mlp:layers=4,width=16", "", false};
const Subject kTransformer{"transformer:d=32,layers=2,heads=2,seq=8,vocab=40", "", false};
const Subject kResnet18{"resnet18", "3x64x64", true};
const Subject kResnet50{"resnet50", "3x64x64", true};
// With dropout: masks of a sample are those of the full batch, however it is split.
const Subject kVgg16{"vgg16:width=2,hidden=16,classes=5", "3x32x32", false};
const Subject kBert{"bert:d=16,layers=3,heads=2,seq=6,vocab=12,classes=3", "", false};
// With tensors that are handed on over several cuts.
const Subject kUnet{"unet:base=2,depth=2,classes=3", "3x16x16", true};
const Subject kLateFusion{"late-fusion:width=4,classes=5", "2x3x64x64", true};
const Subject kThreeParts{"encoder-decoder-classifier:width=4,hidden=8,classes=4", "3x16x16", false};

struct Case {
  std::string schedule;
  int stages = 1;
  int microbatches = 1;
  int replicas = 1;
  bool recompute = false;
};

std::string text_of(const Case& c) {
  return c.schedule + " K=" + std::to_string(c.stages) + " m=" + std::to_string(c.microbatches) + " R=" + std::to_string(c.replicas) +
         (c.recompute ? " recompute" : "");
}

Plan plan_of(const Case& c, int layers) {
  PlanOptions options;
  options.devices = device_names(c.stages * c.replicas);
  options.batch = kTransparencyBatch;
  options.layers = layers;
  options.stages = c.stages;
  options.microbatches = c.microbatches;
  options.schedule = c.schedule;
  options.recompute = c.recompute ? "all" : "none";
  options.replicas.assign(as_index(c.stages), c.replicas);
  return make_plan(options);
}

/// One model with its data and the references of the splits that were asked for.
class Examined {
 public:
  explicit Examined(const Subject& subject)
      : subject_(subject), batch_(synthetic_batch(load().sample(), kTransparencyBatch, 3)), layers_(load().size()) {}

  [[nodiscard]] Model load() const { return load_model(subject_.model, subject_.input, 0).model; }
  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] const Batch& batch() const { return batch_; }

  const ReferenceStep& reference(const std::vector<int>& sizes) {
    auto& found = references_[sizes];
    if (found.gradients.empty()) found = run_reference(subject_.model, subject_.input, batch_, sizes);
    return found;
  }

  void check(const Plan& plan, const std::string& what) {
    SCOPED_TRACE(subject_.model + " " + what);
    const ReferenceStep& expected = reference(plan.microbatch_sizes);
    Pipeline pipeline(load(), plan, {}, shared_core_devices(plan));
    const StepResult result = pipeline.step(batch_.inputs, batch_.target);
    EXPECT_NEAR(result.loss, expected.loss, 1e-12 * std::max(1.0, std::abs(expected.loss)));
    const Model model = load();
    const auto sums = sum_in_plan_order(expected, plan, model);
    const auto parameters = pipeline.named_parameters();
    ASSERT_EQ(parameters.size(), sums.size());
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      ASSERT_TRUE(parameters[i].tensor.grad().defined()) << parameters[i].name;
      if (is_exact(plan)) {
        EXPECT_TRUE(at::equal(parameters[i].tensor.grad(), sums[i])) << parameters[i].name;
      } else {
        EXPECT_LE((parameters[i].tensor.grad() - sums[i]).norm().item<double>(), 1e-5 * sums[i].norm().item<double>())
            << parameters[i].name;
      }
      gradients.push_back(parameters[i].tensor.grad());
    }
    const auto buffers = pipeline.named_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(at::equal(buffers[i].tensor, expected.buffers[i])) << buffers[i].name;
    if (!subject_.couples_samples) {
      EXPECT_LT(relative_difference(gradients, reference({kTransparencyBatch}).gradients[0]), 1e-5);
    }
  }

  void check_all(const std::vector<int>& microbatches, int most_stages) {
    for (int replicas : {1, 2})
      for (bool recompute : {false, true})
        for (int stages = 1; stages <= std::min(most_stages, layers_); ++stages) {
          check_case({"naive", stages, 1, replicas, recompute});
          for (int m : microbatches) {
            check_case({"gpipe", stages, m, replicas, recompute});
            check_case({"1f1b", stages, m, replicas, recompute});
          }
        }
  }

  /// Every schedule on 1 .. `most_devices` devices, as far as the model has layers for it; `stride` 2: every second case, and so on.
  void check_schedules(int most_devices, const std::vector<int>& microbatches, int stride = 1) {
    int next = 0;
    for (const planner::ScheduleInfo& schedule : planner::schedules())
      for (int devices = 1; devices <= most_devices; ++devices)
        for (const int m : microbatches)
          for (const bool recompute : {false, true}) {
            const int stages = devices * schedule.least_virtual_stages;
            if (stages > layers_ || (schedule.one_microbatch && m > 1) || next++ % stride != 0) continue;
            PlanOptions options;
            options.devices = device_names(devices);
            options.batch = kTransparencyBatch;
            options.layers = layers_;
            options.stages = stages;
            options.virtual_stages = schedule.least_virtual_stages;
            options.microbatches = m;
            options.schedule = schedule.name;
            options.recompute = recompute ? "all" : "none";
            check(make_plan(options),
                  options.schedule + " D=" + std::to_string(devices) + " m=" + std::to_string(m) + (recompute ? " recompute" : ""));
          }
  }

  void check_case(const Case& c) { check(plan_of(c, layers_), text_of(c)); }

 private:
  Subject subject_;
  Batch batch_;
  int layers_;
  std::map<std::vector<int>, ReferenceStep> references_;
};

TEST(Transparency, MlpUnderEverySchedule) {
  Examined(kMlp).check_all({1, 2, 3, 5, 8}, 4);
}

/// Models with several tensors at a cut, and with dropout; every_plan_test.cc has the others.
TEST(Transparency, OtherModelsUnderSplitSchedules) {
  for (const Subject& subject : {kVgg16, kBert, kUnet, kLateFusion, kThreeParts}) Examined(subject).check_schedules(2, {2, 3}, 5);
}

/// Rows whose input gradients come in another order than their weight gradients, and whole backwards between them.
TEST(Transparency, SplitBackwardInRowsOfOnesOwn) {
  Examined mlp(kMlp);
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kTransparencyBatch;
  options.layers = mlp.layers();
  options.actions = {planner::actions_from_text("0F0 0F1 0F2 0I1 0I0 0W0 0I2 0W2 0W1", "row"),
                     planner::actions_from_text("1F0 1F1 1I1 1I0 1W1 1F2 1B2 1W0", "row")};
  options.microbatches = 3;
  Plan plan = make_plan(options);
  for (int round = 0; round < 20; ++round) {
    plan.options.idle_devices_help = round % 2 == 1;
    mlp.check(plan, "rows of one's own");
  }
}

/// All weight gradients of a stage at its end, fused in groups of `size` micro-batches.
Plan fused_plan(int layers, int microbatches, int size, bool recompute, bool help) {
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kTransparencyBatch;
  options.layers = layers;
  options.microbatches = microbatches;
  options.schedule = "zb1p";
  options.recompute = recompute ? "all" : "none";
  Plan plan = make_plan(options);
  plan.options.idle_devices_help = help;
  for (int s = 0; s < plan.num_stages(); ++s) {
    std::vector<Action>& row = plan.actions[as_index(plan.stages[as_index(s)].devices.front())];
    std::erase_if(row, [](const Action& action) { return action.kind == ActionKind::backward_weight; });
    for (int first = 0; first < microbatches; first += size)
      row.push_back({s, ActionKind::backward_weight, first, std::min(size, microbatches - first) - 1});
  }
  return plan;
}

std::vector<at::Tensor> gradients_of_step(const Examined& model, const Plan& plan) {
  Pipeline pipeline(model.load(), plan, {}, shared_core_devices(plan));
  (void)pipeline.step(model.batch().inputs, model.batch().target);
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& parameter : pipeline.named_parameters()) gradients.push_back(parameter.tensor.grad().clone());
  return gradients;
}

/// Within rounding of the un-pipelined loop, and the same bits whichever thread computes them.
void check_fused(const Subject& subject, const std::vector<int>& microbatches) {
  Examined model(subject);
  for (const int m : microbatches)
    for (const int size : {2, m}) {
      const bool recompute = (m + size) % 2 == 1;
      model.check(fused_plan(model.layers(), m, size, recompute, m % 2 == 0), "fused " + std::to_string(size));
      const auto alone = gradients_of_step(model, fused_plan(model.layers(), m, size, recompute, false));
      for (int round = 0; round < 3; ++round) {
        const auto helped = gradients_of_step(model, fused_plan(model.layers(), m, size, recompute, true));
        for (std::size_t p = 0; p < alone.size(); ++p) EXPECT_TRUE(at::equal(helped[p], alone[p])) << p;
      }
    }
}

TEST(Transparency, FusedWeightGradients) {
  for (const Subject& subject : {kMlp, kTransformer, kVgg16, kBert}) check_fused(subject, {2, 3, 5});
}

TEST(NightlyTransparency, FusedWeightGradientsOfResnet18) {
  check_fused(kResnet18, {2});
}

TEST(Transparency, Resnet18Covering) {
  Examined resnet(kResnet18);
  resnet.check_case({"1f1b", 4, 3, 1, false});
  resnet.check_case({"gpipe", 2, 3, 2, true});
  resnet.check_case({"naive", 3, 1, 1, true});
}

TEST(NightlyTransparency, Resnet50Covering) {
  Examined resnet(kResnet50);
  resnet.check_case({"1f1b", 3, 3, 1, true});
  resnet.check_case({"gpipe", 1, 3, 2, false});
}

/// Two stages per device.
Plan virtual_plan(int layers, const std::string& schedule, int microbatches, const std::string& recompute) {
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kTransparencyBatch;
  options.layers = layers;
  options.stages = 4;
  options.virtual_stages = 2;
  options.microbatches = microbatches;
  options.schedule = schedule;
  options.recompute = recompute;
  return make_plan(options);
}

/// Stages of unequal numbers of replicas.
Plan hybrid_plan(int layers, const std::vector<int>& replicas, const std::string& schedule) {
  PlanOptions options;
  options.devices = device_names(std::accumulate(replicas.begin(), replicas.end(), 0));
  options.batch = kTransparencyBatch;
  options.layers = layers;
  options.stages = static_cast<int>(replicas.size());
  options.microbatches = 4;
  options.schedule = schedule;
  options.replicas = replicas;
  return make_plan(options);
}

/// Every kind of plan once or twice, with unequal micro-batches.
void check_covering(const Subject& subject) {
  Examined model(subject);
  const int layers = model.layers();
  model.check_case({"gpipe", 3, 3, 1, false});
  model.check_case({"1f1b", 4, 3, 1, true});
  model.check_case({"1f1b", 2, 4, 2, false});
  model.check(virtual_plan(layers, "interleaved", 4, "none"), "interleaved");
  model.check(virtual_plan(layers, "gpipe", 3, "all"), "two stages a device");
  model.check(hybrid_plan(layers, {2, 1}, "1f1b"), "hybrid 2,1");
  model.check(hybrid_plan(layers, {2, 1, 1}, "gpipe"), "hybrid 2,1,1");
  Plan partial = plan_of({"1f1b", 2, 3, 1, false}, layers);
  partial.stages[0].recompute = {Recompute::Mode::some, {1}, {0, 2}};
  partial.stages[1].recompute = {Recompute::Mode::some, {layers - 2, layers - 1}, {}};
  model.check(partial, "single layers again");
}

TEST(Transparency, Vgg16Covering) {
  check_covering(kVgg16);
}
TEST(Transparency, BertCovering) {
  check_covering(kBert);
}
TEST(Transparency, UnetCovering) {
  check_covering(kUnet);
}
TEST(Transparency, LateFusionCovering) {
  check_covering(kLateFusion);
}
TEST(Transparency, EncoderDecoderClassifierCovering) {
  check_covering(kThreeParts);
}

TEST(Transparency, SizesThatDoNotDivide) {
  Examined mlp(kMlp);
  Plan plan = plan_of({"1f1b", 2, 1, 1, false}, mlp.layers());
  plan.microbatch_sizes = {4, 4, 2};
  planner::make_schedule(plan, "1f1b");
  mlp.check(plan, "sizes 4 4 2");
  plan.microbatch_sizes = {1, 6, 3};
  planner::make_schedule(plan, "gpipe");
  mlp.check(plan, "sizes 1 6 3");
}

TEST(Transparency, SeveralStagesOnOneDevice) {
  Examined transformer(kTransformer);
  PlanOptions options;
  options.devices = device_names(2);
  options.batch = kTransparencyBatch;
  options.layers = transformer.layers();
  options.stages = 4;
  options.virtual_stages = 2;
  options.microbatches = 3;
  options.schedule = "gpipe";
  transformer.check(make_plan(options), "two stages a device");
}

TEST(Transparency, RecomputationOfSingleLayersAndMicrobatches) {
  Examined transformer(kTransformer);
  Plan plan = plan_of({"1f1b", 1, 3, 1, false}, transformer.layers());
  plan.stages[0].recompute = {Recompute::Mode::some, {1, 3}, {0, 2}};
  transformer.check(plan, "layers 1 and 3 of micro-batches 0 and 2");
  plan.stages[0].recompute = {Recompute::Mode::some, {0, 1, 2}, {}};
  transformer.check(plan, "layers 0 to 2");
}

TEST(Transparency, GradientsAddUpOnRequest) {
  const Examined mlp(kMlp);
  const Plan plan = plan_of({"1f1b", 2, 5, 2, false}, mlp.layers());
  Pipeline pipeline(mlp.load(), plan, {}, shared_core_devices(plan));
  (void)pipeline.step(mlp.batch().inputs, mlp.batch().target);
  std::vector<at::Tensor> once;
  for (const NamedTensor& parameter : pipeline.named_parameters()) once.push_back(parameter.tensor.grad().clone());
  (void)pipeline.step(mlp.batch().inputs, mlp.batch().target, Accumulate::yes);
  auto parameters = pipeline.named_parameters();
  std::vector<at::Tensor> twice, doubled;
  for (std::size_t i = 0; i < once.size(); ++i) {
    twice.push_back(parameters[i].tensor.grad());
    doubled.push_back(once[i] * 2);
  }
  EXPECT_LT(relative_difference(twice, doubled), 1e-6);
  (void)pipeline.step(mlp.batch().inputs, mlp.batch().target);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(at::equal(parameters[i].tensor.grad(), once[i]));
}

std::vector<double> loss_curve(const Examined& examined, const Plan& plan, int steps, const char* optimizer) {
  Pipeline pipeline(examined.load(), plan, {}, shared_core_devices(plan));
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  for (int stage = 0; stage < plan.num_stages(); ++stage)
    optimizers.push_back(profiler::make_optimizer(parse_optimizer(optimizer), 0, pipeline.parameters(stage)));
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    losses.push_back(pipeline.step(examined.batch().inputs, examined.batch().target).loss);
    pipeline.on_stages([&](int stage) { optimizers[as_index(stage)]->step(); });
  }
  return losses;
}

TEST(Transparency, LossCurvesAgreeOver20Steps) {
  for (const Subject& subject : {kMlp, kTransformer}) {
    const Examined examined(subject);
    for (const char* optimizer : {"sgd", "adam"}) {
      const auto plain = loss_curve(examined, plan_of({"naive", 1, 1, 1, false}, examined.layers()), 20, optimizer);
      EXPECT_LT(plain.back(), plain.front());
      for (const Case& c : {Case{"1f1b", 3, 5, 1, false}, Case{"gpipe", 2, 4, 2, true}}) {
        const auto losses = loss_curve(examined, plan_of(c, examined.layers()), 20, optimizer);
        for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(losses[i], plain[i], 1e-4 * plain[i]) << text_of(c) << " step " << i;
      }
    }
  }
}

}  // namespace
}  // namespace mptune::testing
