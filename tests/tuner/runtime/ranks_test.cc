// Pipelines of several ranks, here threads of one process: losses, gradients, buffers and outputs of the pipeline that has all devices, bit
// for bit; with Reduce::all_reduce within rounding, and with the same bits on all ranks that train a stage.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <barrier>

#include "profiler/base/error.h"
#include "profiler/model/loading/load_model.h"
#include "rank_training.h"
#include "reference.h"
#include "small_models.h"
#include "tests/support/error_of.h"
#include "tests/support/thread_ranks.h"
#include "tuner/check/step_record.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

TEST(Ranks, FormsOfModelsEqualOneProcess) {
  check_ranks(with_mean_square(load_model("mlp:layers=7,width=8", "", 0).model), 17, 0);
  check_ranks(with_mean_square(load_model("transformer:d=8,layers=5,heads=2,seq=4,vocab=10", "", 0).model), 29, 1);
  check_ranks(with_mean_square(load_model(MPTUNE_SOURCE_DIR "/tests/golden/exported/language.pt2", "", 0).model), 19, 2);
}
// Their gradients are not copied into messages.
TEST(Ranks, LargeParametersEqualOneProcess) {
  const Model model = with_mean_square(load_model("mlp:layers=3,width=256", "", 0).model);
  check_ranks(model, 23, 5, replicated_choices());
}
TEST(Ranks, SmallModelsEqualOneProcess) {
  int first = 0;
  for (const SmallModel& small : small_models()) {
    SCOPED_TRACE(small.name);
    check_ranks(with_mean_square(small.make()), 61, first++);
  }
}
TEST(Ranks, TheFirstReplicasRankTrainsForDevicesThatRoundDifferently) {
  check_ranks(with_mean_square(load_model("transformer:d=8,layers=5,heads=2,seq=4,vocab=10", "", 0).model), 11, 1, replicated_choices(),
              expect_equal_with_unlike_devices);
  check_ranks(with_mean_square(convolutions()), 13, 2, replicated_choices(), expect_equal_with_unlike_devices);
}
TEST(NightlyRanks, FormsOfModelsEqualOneProcess) {
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

TEST(NightlyRanks, AllReduceEqualsOneProcessWithinRounding) {
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

TEST(Ranks, GradientsOfSeveralStepsAddUp) {
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
  for (const Reduce reduce : {Reduce::ordered, Reduce::all_reduce})
    ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
      Pipeline pipeline(copy_of(model), over, {.ranks = group, .reduce = reduce}, devices_on(over, *group));
      EXPECT_NEAR(norm(pipeline), expected, reduce == Reduce::ordered ? 0 : kRounding * expected);
      EXPECT_EQ(pipeline.leads(0), group->rank() == 1);
      EXPECT_FALSE(pipeline.parameters(0).empty());
    });
}

/// Bytes of the model's parameters, and what three steps of three replicas send.
struct Traffic {
  std::int64_t parameters = 0, ordered = 0, all_reduce = 0;
  std::int64_t most_ordered = 0;  ///< of one rank
};
Traffic traffic_of_replicas() {
  const Model model = with_mean_square(load_model("mlp:layers=3,width=64", "", 0).model);
  const Plan plan = on_ranks(*rank_plan({"1f1b", 1, 4, {3}, false}, model.size()), {0, 1, 2});
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  const auto train = [&](ThreadRanks& ranks, Reduce reduce) {
    ranks.run([&](const std::shared_ptr<RankGroup>& group) {
      Pipeline pipeline(copy_of(model), plan, {.ranks = group, .reduce = reduce}, devices_on(plan, *group));
      for (int i = 0; i < 3; ++i) (void)pipeline.step(batch.inputs, batch.target);
    });
  };
  Traffic traffic;
  for (const NamedTensor& named : model.parameters()) traffic.parameters += static_cast<std::int64_t>(named.tensor.nbytes());
  ThreadRanks ordered(3), all_reduce(3);
  train(ordered, Reduce::ordered);
  train(all_reduce, Reduce::all_reduce);
  traffic.ordered = ordered.sent_bytes();
  traffic.all_reduce = all_reduce.sent_bytes();
  for (int r = 0; r < 3; ++r) traffic.most_ordered = std::max(traffic.most_ordered, ordered.sent_bytes_of(r));
  return traffic;
}

// What all-reduces send is not counted.
TEST(AllReduce, NeitherParametersNorGradientsAreSentOtherwise) {
  const Traffic traffic = traffic_of_replicas();
  EXPECT_LT(traffic.all_reduce, traffic.parameters);
}
// Two thirds of its gradients, and two times the third of the sum that it makes.
TEST(Ranks, EveryRankOfReplicasSendsAsMuch) {
  const Traffic traffic = traffic_of_replicas();
  const std::int64_t of_rank = 3 * traffic.parameters * 4 / 3;
  EXPECT_GE(traffic.ordered, 3 * of_rank);
  EXPECT_LT(traffic.most_ordered, of_rank * 11 / 10);
}

TEST(AllReduce, DevicesOfTwoKindsAreRefused) {
  const Model model = load_model("mlp", "", 0).model;
  Plan plan = *rank_plan({"1f1b", 1, 2, {2}, false}, model.size());
  plan.devices = {"0@cpu:" + std::to_string(available_cores().front()), "1@cuda:0"};
  ThreadRanks ranks(2);
  const Error said = error_of([&] { Pipeline pipeline(copy_of(model), plan, {.ranks = ranks.rank(0), .reduce = Reduce::all_reduce}); });
  EXPECT_EQ(said.problem(), "stage 0 is trained on devices that round differently: a CPU and a GPU");
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
  std::barrier made(2);  // a rank that fails ends the making of the other's pipeline, too
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), plan, {.ranks = group, .reduce = Reduce::all_reduce}, devices_on(plan, *group));
    const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
    made.arrive_and_wait();
    const Error error = error_of([&] { (void)pipeline.step(batch.inputs, batch.target); });
    EXPECT_EQ(error.problem(), "the third forward fails");
    EXPECT_EQ(error.where(), group->rank() == 1 ? "layer" : "rank 1, layer");
  });
}

TEST(Ranks, AFailureOnOneEndsAllAndSaysWhy) {
  const Model model = failing_model();
  const Plan plan = on_ranks(*rank_plan({"1f1b", 2, 5, {}, false}, model.size()), {0, 1});
  std::barrier made(2);
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), plan, {.ranks = group}, devices_on(plan, *group));
    const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
    made.arrive_and_wait();
    const Error error = error_of([&] { (void)pipeline.step(batch.inputs, batch.target); });
    EXPECT_EQ(error.problem(), "the third forward fails");
    EXPECT_EQ(error.where(), group->rank() == 1 ? "layer" : "rank 1, layer");
    EXPECT_THROW((void)pipeline.step(batch.inputs, batch.target), std::exception) << "the ranks have given up";
  });
}

TEST(Ranks, APlanOfMoreRanksThanThereAreIsRefused) {
  const Model model = load_model("mlp", "", 0).model;
  Plan plan = *rank_plan({"1f1b", 2, 2, {}, false}, model.size());
  plan.devices = {"0@cpu:" + std::to_string(available_cores().front()), "1@cpu:0"};
  const Error said = error_of([&] { Pipeline pipeline(copy_of(model), plan); });
  EXPECT_EQ(said.problem(), "the plan names a device of rank 1, and there is 1 rank");
  EXPECT_NE(said.remedy().find("--ranks 2"), std::string::npos) << said.remedy();
}

}  // namespace
}  // namespace mptune::testing
