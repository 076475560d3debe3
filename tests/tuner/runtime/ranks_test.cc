// Pipelines of several ranks, here threads of one process: losses, gradients, buffers and outputs of the pipeline that has all devices, bit
// for bit; with Reduce::all_reduce within rounding, and with the same bits on all ranks that train a stage.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "planner/schedule/schedule_info.h"
#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/loading/load_model.h"
#include "reference.h"
#include "small_models.h"
#include "tests/support/error_of.h"
#include "tests/support/thread_ranks.h"
#include "tuner/distributed/remote_device.h"
#include "tuner/runtime/pipeline.h"
#include "tuner/runtime/step_record.h"

namespace mptune::testing {
namespace {

constexpr int kRankBatch = 10;

struct RankChoices {
  std::string schedule;
  int stages = 2;  ///< per virtual one
  int microbatches = 1;
  std::vector<int> replicas;  ///< per stage, empty: one each
  bool recompute = false;
};

std::string text_of(const RankChoices& c) {
  std::string text = c.schedule + " stages=" + std::to_string(c.stages) + " m=" + std::to_string(c.microbatches);
  for (const int count : c.replicas) text += " x" + std::to_string(count);
  return text + (c.recompute ? " recompute" : "");
}

/// Nothing where the planner refuses.
std::optional<Plan> rank_plan(const RankChoices& c, int layers) {
  PlanOptions options;
  options.virtual_stages = planner::schedule_info(c.schedule).least_virtual_stages;
  options.stages = c.stages * options.virtual_stages;
  options.batch = kRankBatch;
  options.layers = layers;
  options.microbatches = c.microbatches;
  options.schedule = c.schedule;
  options.recompute = c.recompute ? "all" : "none";
  options.replicas = c.replicas;
  int devices = c.stages;
  if (!c.replicas.empty()) {
    devices = 0;
    for (const int count : c.replicas) devices += count;
  }
  options.devices = device_names(devices);
  try {
    return make_plan(options);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// What a training of a few steps leaves.
struct Trained {
  std::vector<double> numbers;  ///< losses and norms
  std::map<std::string, at::Tensor> tensors;
  Tensors outputs;
  Tensors saved;
};

/// Three steps of Adam with clipped gradients, the last of a smaller batch, and an evaluation.
Trained few_steps(Pipeline& pipeline, const Model& model, const Batch& batch) {
  Trained result;
  // Gradients that are rounding alone make no steps.
  const auto options = torch::optim::AdamOptions().eps(1e-3);
  std::vector<std::unique_ptr<torch::optim::Adam>> optimizers(pipeline.plan().stages.size());
  pipeline.on_stages(
      [&](int stage) { optimizers[as_index(stage)] = std::make_unique<torch::optim::Adam>(pipeline.parameters(stage), options); });
  for (const int samples : {kRankBatch, kRankBatch, kRankBatch / 2}) {
    const Batch part = samples_of(batch, 0, samples);
    result.numbers.push_back(pipeline.step(part.inputs, part.target).loss);
    result.numbers.push_back(pipeline.clip_gradients(0.5));
    for (const NamedTensor& named : pipeline.named_parameters())
      if (named.tensor.grad().defined())
        result.tensors["gradient " + std::to_string(result.numbers.size()) + named.name] = named.tensor.grad().clone();
    pipeline.update_with_next_step([&](int stage) { optimizers[as_index(stage)]->step(); });
  }
  result.outputs = pipeline.forward(batch.inputs);
  for (const NamedTensor& named : pipeline.named_parameters()) result.tensors["parameter " + named.name] = named.tensor.detach().clone();
  for (const NamedTensor& named : pipeline.named_buffers()) result.tensors["buffer " + named.name] = named.tensor.clone();
  Model copy = copy_of(model);
  pipeline.copy_state_to(copy);
  for (const NamedTensor& named : copy.parameters()) result.saved.push_back(named.tensor.detach());
  for (const NamedTensor& named : copy.buffers()) result.saved.push_back(named.tensor);
  return result;
}

void expect_equal(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
}

/// The plan with device i on rank `rank_of[i]`.
Plan on_ranks(Plan plan, const std::vector<int>& rank_of) {
  for (std::size_t d = 0; d < plan.devices.size(); ++d) plan.devices[d] = std::to_string(rank_of[d]) + "@" + plan.devices[d];
  return plan;
}

/// Devices of such a plan as one of the ranks has them, spread over the cores there are.
std::vector<std::shared_ptr<Device>> devices_on(const Plan& plan, const RankGroup& group) {
  const std::vector<int> cores = available_cores();
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : plan.devices) {
    DeviceSpec spec = parse_device(name);
    spec.cores = {cores[devices.size() % cores.size()]};
    devices.push_back(tuner::make_device_of(spec, &group));
  }
  return devices;
}

Trained on_one_process(const Model& model, const Plan& plan, const Batch& batch) {
  Pipeline alone(copy_of(model), plan, {.seed = 5}, shared_core_devices(plan));
  return few_steps(alone, model, batch);
}

/// By rank. Device i of the plan is of rank `rank_of[i]`.
std::vector<Trained> over_ranks(const Model& model, const Plan& plan, const std::vector<int>& rank_of, const Batch& batch, Reduce reduce) {
  const Plan over = on_ranks(plan, rank_of);
  const int ranks = 1 + *std::ranges::max_element(rank_of);
  std::vector<Trained> of_rank(as_index(ranks));
  ThreadRanks(ranks).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), over, {.seed = 5, .ranks = group, .reduce = reduce}, devices_on(over, *group));
    of_rank[as_index(group->rank())] = few_steps(pipeline, model, batch);
  });
  return of_rank;
}

void expect_equal_over_ranks(const Model& model, const Plan& plan, const std::vector<int>& rank_of) {
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  const Trained expected = on_one_process(model, plan, batch);
  const std::vector<Trained> of_rank = over_ranks(model, plan, rank_of, batch, Reduce::ordered);
  std::map<std::string, at::Tensor> all;
  for (const Trained& own : of_rank) {
    EXPECT_EQ(own.numbers, expected.numbers);
    expect_equal(own.outputs, expected.outputs);
    expect_equal(own.saved, expected.saved);
    for (const auto& [name, tensor] : own.tensors) EXPECT_TRUE(all.emplace(name, tensor).second) << name << " is trained on two ranks";
  }
  EXPECT_EQ(all.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(all.contains(name)) << name;
    EXPECT_TRUE(at::equal(all.at(name), tensor)) << name;
  }
}

// Sums of a few floats in another order differ by some 1e-7 of their terms; three steps carry that on.
constexpr double kRounding = 1e-5;

/// Up to rounding of the largest number in `a`.
void expect_close(const at::Tensor& a, const at::Tensor& b, const std::string& name) {
  if (a.numel() == 0) return;
  const at::Tensor far = (a - b).abs().to(at::kDouble), large = a.abs().to(at::kDouble);
  EXPECT_LE(far.max().item<double>(), kRounding * (1 + large.max().item<double>())) << name;
}

/// Losses, norms, outputs and tensors are those of one process within rounding, and the same bits wherever several ranks have them.
void expect_close_over_ranks(const Model& model, const Plan& plan, const std::vector<int>& rank_of) {
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  const Trained expected = on_one_process(model, plan, batch);
  const std::vector<Trained> of_rank = over_ranks(model, plan, rank_of, batch, Reduce::all_reduce);
  std::map<std::string, at::Tensor> all;
  for (const Trained& own : of_rank) {
    EXPECT_EQ(own.numbers, of_rank[0].numbers);
    expect_equal(own.outputs, of_rank[0].outputs);
    expect_equal(own.saved, of_rank[0].saved);
    for (const auto& [name, tensor] : own.tensors) EXPECT_TRUE(at::equal(all.emplace(name, tensor).first->second, tensor)) << name;
  }
  for (std::size_t i = 0; i < expected.numbers.size(); ++i)
    EXPECT_NEAR(of_rank[0].numbers[i], expected.numbers[i], kRounding * std::abs(expected.numbers[i])) << i;
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) expect_close(expected.outputs[i], of_rank[0].outputs.at(i), "output");
  for (std::size_t i = 0; i < expected.saved.size(); ++i) expect_close(expected.saved[i], of_rank[0].saved.at(i), "saved");
  EXPECT_EQ(all.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(all.contains(name)) << name;
    expect_close(tensor, all.at(name), name);
  }
}

std::vector<RankChoices> replicated_choices() {
  std::vector<RankChoices> all;
  for (const char* schedule : {"1f1b", "gpipe", "zb1p"})
    for (const int m : {2, 5})
      for (const std::vector<int>& replicas : {std::vector<int>{2}, {2, 1}, {1, 2}, {2, 2}, {3}, {1, 3}})
        all.push_back({schedule, static_cast<int>(replicas.size()), m, replicas, false});
  return all;
}

std::vector<RankChoices> rank_choices() {
  std::vector<RankChoices> all;
  for (const planner::ScheduleInfo& schedule : planner::schedules())
    for (const int stages : {2, 3})
      for (const int m : {1, 4})
        for (const bool recompute : {false, true}) all.push_back({schedule.name, stages, m, {}, recompute});
  for (const char* schedule : {"1f1b", "gpipe", "zb1p"})
    for (const int m : {1, 2, 5})
      for (const std::vector<int>& replicas : {std::vector<int>{2, 1}, {1, 2}, {2, 2}, {3}, {1, 3}})
        all.push_back({schedule, static_cast<int>(replicas.size()), m, replicas, false});
  return all;
}

/// Devices on ranks: each its own, all but the first together, in turn on two.
std::vector<std::vector<int>> divisions(int devices) {
  std::vector<int> own, first_apart, in_turn;
  for (int d = 0; d < devices; ++d) {
    own.push_back(d);
    first_apart.push_back(d == 0 ? 1 : 0);
    in_turn.push_back(d % 2);
  }
  return {own, first_apart, in_turn};
}

using Check = void (*)(const Model&, const Plan&, const std::vector<int>& rank_of);

/// Every `stride`th possible plan.
void check_ranks(const Model& model, int stride, int first, const std::vector<RankChoices>& all = rank_choices(),
                 Check check = expect_equal_over_ranks) {
  int possible = 0;
  for (const RankChoices& choices : all) {
    const auto plan = rank_plan(choices, model.size());
    if (!plan) continue;
    const auto divided = divisions(static_cast<int>(plan->devices.size()));
    for (std::size_t i = 0; i < divided.size(); ++i)
      if (divided[i].size() > 1 && possible++ % stride == first) {
        SCOPED_TRACE(text_of(choices) + " division " + std::to_string(i));
        check(model, *plan, divided[i]);
        if (::testing::Test::HasFailure()) return;
      }
  }
  EXPECT_GT(possible, 50);
}

Model with_mean_square(const Model& model) {
  return copy_of(model, Loss::mean_square());
}

TEST(Ranks, FormsOfModelsEqualOneProcess) {
  check_ranks(with_mean_square(load_model("mlp:layers=7,width=8", "", 0).model), 17, 0);
  check_ranks(with_mean_square(load_model("transformer:d=8,layers=5,heads=2,seq=4,vocab=10", "", 0).model), 29, 1);
  check_ranks(with_mean_square(load_model(MPTUNE_SOURCE_DIR "/tests/golden/exported/language.pt2", "", 0).model), 19, 2);
}
TEST(Ranks, SmallModelsEqualOneProcess) {
  int first = 0;
  for (const SmallModel& small : small_models()) {
    SCOPED_TRACE(small.name);
    check_ranks(with_mean_square(small.make()), 61, first++);
  }
}
TEST(SlowRanks, FormsOfModelsEqualOneProcess) {
  check_ranks(with_mean_square(load_model("transformer:d=8,layers=5,heads=2,seq=4,vocab=10", "", 0).model), 3, 1);
  check_ranks(with_mean_square(load_model(MPTUNE_SOURCE_DIR "/tests/golden/exported/language.pt2", "", 0).model), 3, 2);
  check_ranks(with_mean_square(convolutions()), 3, 0);
}

TEST(AllReduce, EqualsOneProcessWithinRounding) {
  const std::vector<RankChoices> choices = replicated_choices();
  check_ranks(with_mean_square(load_model("mlp:layers=7,width=8", "", 0).model), 5, 0, choices, expect_close_over_ranks);
  check_ranks(with_mean_square(load_model("transformer:d=8,layers=5,heads=2,seq=4,vocab=10", "", 0).model), 11, 1, choices,
              expect_close_over_ranks);
  check_ranks(with_mean_square(load_model(MPTUNE_SOURCE_DIR "/tests/golden/exported/language.pt2", "", 0).model), 11, 2, choices,
              expect_close_over_ranks);
  check_ranks(with_mean_square(convolutions()), 7, 3, choices, expect_close_over_ranks);
}
TEST(AllReduce, SmallModelsEqualOneProcessWithinRounding) {
  int first = 0;
  for (const SmallModel& small : small_models()) {
    SCOPED_TRACE(small.name);
    check_ranks(with_mean_square(small.make()), 31, first++, replicated_choices(), expect_close_over_ranks);
  }
}

TEST(SlowRanks, AllReduceEqualsOneProcessWithinRounding) {
  const std::vector<RankChoices> choices = replicated_choices();
  check_ranks(with_mean_square(load_model("transformer:d=8,layers=5,heads=2,seq=4,vocab=10", "", 0).model), 1, 0, choices,
              expect_close_over_ranks);
  check_ranks(with_mean_square(load_model(MPTUNE_SOURCE_DIR "/tests/golden/exported/language.pt2", "", 0).model), 1, 0, choices,
              expect_close_over_ranks);
  check_ranks(with_mean_square(convolutions()), 1, 0, choices, expect_close_over_ranks);
  for (const SmallModel& small : small_models()) {
    SCOPED_TRACE(small.name);
    check_ranks(with_mean_square(small.make()), 3, 1, choices, expect_close_over_ranks);
  }
}

TEST(AllReduce, GradientsOfSeveralStepsAddUp) {
  const Model model = with_mean_square(load_model("mlp:layers=3,width=8", "", 0).model);
  const Plan plan = *rank_plan({"1f1b", 1, 4, {3}, false}, model.size());
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  const auto norm = [&](Pipeline& pipeline) {
    (void)pipeline.step(batch.inputs, batch.target);
    for (int i = 0; i < 3; ++i) (void)pipeline.step(batch.inputs, batch.target, Accumulate::yes);
    return pipeline.gradient_norm();
  };
  Pipeline alone(copy_of(model), plan, {}, shared_core_devices(plan));
  const double expected = norm(alone);
  const Plan over = on_ranks(plan, {1, 0, 1});
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), over, {.ranks = group, .reduce = Reduce::all_reduce}, devices_on(over, *group));
    EXPECT_NEAR(norm(pipeline), expected, kRounding * expected);
    EXPECT_EQ(pipeline.leads(0), group->rank() == 1);
    EXPECT_FALSE(pipeline.parameters(0).empty());
  });
}

TEST(AllReduce, NeitherParametersNorGradientsAreSent) {
  const Model model = with_mean_square(load_model("mlp:layers=3,width=64", "", 0).model);
  const Plan plan = on_ranks(*rank_plan({"1f1b", 1, 4, {2}, false}, model.size()), {0, 1});
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  const auto sent_in_three_steps = [&](Reduce reduce) {
    ThreadRanks ranks(2);
    ranks.run([&](const std::shared_ptr<RankGroup>& group) {
      Pipeline pipeline(copy_of(model), plan, {.ranks = group, .reduce = reduce}, devices_on(plan, *group));
      for (int i = 0; i < 3; ++i) (void)pipeline.step(batch.inputs, batch.target);
    });
    return ranks.sent_bytes();
  };
  std::int64_t parameters = 0;
  for (const NamedTensor& named : model.parameters()) parameters += static_cast<std::int64_t>(named.tensor.nbytes());
  EXPECT_GT(sent_in_three_steps(Reduce::ordered), 3 * 2 * parameters);
  EXPECT_LT(sent_in_three_steps(Reduce::all_reduce), parameters);
}

TEST(AllReduce, DevicesOfTwoKindsAreRefused) {
  const Model model = load_model("mlp", "", 0).model;
  Plan plan = *rank_plan({"1f1b", 1, 2, {2}, false}, model.size());
  plan.devices = {"0@cpu:" + std::to_string(available_cores().front()), "1@cuda:0"};
  ThreadRanks ranks(2);
  const Error said = error_of([&] { Pipeline pipeline(copy_of(model), plan, {.ranks = ranks.rank(0), .reduce = Reduce::all_reduce}); });
  EXPECT_EQ(std::string(said.what()), "stage 0 is trained on devices of two kinds, which round differently");
  EXPECT_NE(said.remedy().find("--reduce ordered"), std::string::npos) << said.remedy();
}

TEST(Ranks, ShapesThatChangeFromStepToStep) {
  const auto layer = [] { return load_model("transformer:d=8,layers=3,heads=2,seq=4,vocab=10", "", 0).model; };
  const Model model = with_mean_square(layer());
  Plan plan = *rank_plan({"1f1b", 2, 4, {}, false}, model.size());
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  const auto losses = [&](Pipeline& pipeline) {
    std::vector<double> all;
    for (const std::int64_t length : {4, 2, 3, 4}) {
      Tensors inputs;
      for (const at::Tensor& input : batch.inputs) inputs.push_back(input.narrow(1, 0, length).contiguous());
      all.push_back(pipeline.step(inputs, batch.target.dim() > 1 ? batch.target.narrow(1, 0, length) : batch.target).loss);
    }
    return all;
  };
  Pipeline alone(copy_of(model), plan, {}, shared_core_devices(plan));
  std::vector<double> expected;
  try {
    expected = losses(alone);
  } catch (const c10::Error&) {
    GTEST_SKIP() << "the model takes one length";
  }
  plan = on_ranks(plan, {0, 1});
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), plan, {.ranks = group}, devices_on(plan, *group));
    EXPECT_EQ(losses(pipeline), expected);
  });
}

/// Throws in its third forward.
class FailingLayer final : public Layer {
 public:
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    if (++calls_ == 3) throw Error("the third forward fails", "layer", "nothing helps");
    return {inputs.at(0) * 2};
  }
  std::vector<NamedTensor> parameters() const override { return {}; }
  std::vector<NamedTensor> buffers() const override { return {}; }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<FailingLayer>(); }
  std::string kind() const override { return "Failing"; }

 private:
  int calls_ = 0;
};

Model failing_model() {
  const Model mlp = with_mean_square(load_model("mlp:layers=3,width=8", "", 0).model);
  std::vector<ModelLayer> layers = tuner::cloned_layers(mlp);
  layers.push_back({"failing", {}, std::make_unique<FailingLayer>()});
  return {"failing", std::move(layers), Loss::mean_square(), mlp.sample(), kRankBatch};
}

TEST(AllReduce, AFailureOnOneEndsThoseThatWaitForItsGradients) {
  const Model model = failing_model();
  // The second replica has but two micro-batches.
  const Plan plan = on_ranks(*rank_plan({"1f1b", 1, 5, {2}, false}, model.size()), {1, 0});
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), plan, {.ranks = group, .reduce = Reduce::all_reduce}, devices_on(plan, *group));
    const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
    const Error error = error_of([&] { (void)pipeline.step(batch.inputs, batch.target); });
    EXPECT_EQ(std::string(error.what()), "the third forward fails");
    EXPECT_EQ(error.where(), group->rank() == 1 ? "layer" : "rank 1, layer");
  });
}

TEST(Ranks, AFailureOnOneEndsAllAndSaysWhy) {
  const Model model = failing_model();
  const Plan plan = on_ranks(*rank_plan({"1f1b", 2, 5, {}, false}, model.size()), {0, 1});
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), plan, {.ranks = group}, devices_on(plan, *group));
    const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
    const Error error = error_of([&] { (void)pipeline.step(batch.inputs, batch.target); });
    EXPECT_EQ(std::string(error.what()), "the third forward fails");
    EXPECT_EQ(error.where(), group->rank() == 1 ? "layer" : "rank 1, layer");
    EXPECT_THROW((void)pipeline.step(batch.inputs, batch.target), std::exception) << "the ranks have given up";
  });
}

TEST(Ranks, APlanOfMoreRanksThanThereAreIsRefused) {
  const Model model = load_model("mlp", "", 0).model;
  Plan plan = *rank_plan({"1f1b", 2, 2, {}, false}, model.size());
  plan.devices = {"0@cpu:" + std::to_string(available_cores().front()), "1@cpu:0"};
  const Error said = error_of([&] { Pipeline pipeline(copy_of(model), plan); });
  EXPECT_EQ(std::string(said.what()), "the plan names a device of rank 1, and there is 1 rank");
  EXPECT_NE(said.remedy().find("--ranks 2"), std::string::npos) << said.remedy();
}

}  // namespace
}  // namespace mptune::testing
