// Ranks with GPUs, here threads of one process: with several GPUs over NCCL, else with halves of one through the host's memory.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fragile_layer.h"
#include "gpu_training.h"
#include "profiler/device/list/gpu_driver.h"
#include "profiler/model/loading/load_model.h"
#include "rank_training.h"
#include "small_models.h"
#include "tests/support/error_of.h"
#include "tests/support/thread_ranks.h"

namespace mptune::testing {
namespace {

class GpuRanks : public GpuTraining {
 protected:
  void SetUp() override {
    GpuTraining::SetUp();
    if (!IsSkipped()) devices = profiler::gpu_driver().gpus > 1 ? gpu_names(2) : halves;
  }
  std::vector<std::string> devices;
};

class GpusOfRanks : public GpuRanks {
 protected:
  void SetUp() override {
    GpuRanks::SetUp();
    if (!IsSkipped() && profiler::gpu_driver().gpus < 2) {
      GTEST_SKIP() << "needs two GPUs";
    }
  }
};

const Model& gpu_rank_model() {
  static const Model model = with_mean_square(load_model(kGpuBert.model, "", 0).model);
  return model;
}
const Model& long_gpu_rank_model() {
  static const Model model = with_mean_square(load_model(kGpuLongMlp.model, "", 0).model);
  return model;
}

void expect_same(const Model& model, const GpuChoice& choice, const std::vector<int>& rank_of, Reduce reduce = Reduce::ordered) {
  std::string text = choice.schedule;
  for (std::size_t d = 0; d < rank_of.size(); ++d) text += " " + std::to_string(rank_of[d]) + "@" + choice.devices[d];
  SCOPED_TRACE(text);
  expect_gpus_over_ranks(model, gpu_plan(choice, model.size()), rank_of, reduce);
}

/// Neighbours on two ranks.
std::vector<int> in_turn(int devices) {
  std::vector<int> ranks;
  for (int d = 0; d < devices; ++d) ranks.push_back(d % 2);
  return ranks;
}
std::vector<int> one_each(int devices) {
  std::vector<int> ranks;
  for (int d = 0; d < devices; ++d) ranks.push_back(d);
  return ranks;
}

TEST_F(GpuRanks, EverySchedule) {
  for (const std::string& schedule : schedules_of_microbatches())
    expect_same(gpu_rank_model(), {.devices = devices, .schedule = schedule, .microbatches = 5}, {0, 1});
}

TEST_F(GpuRanks, Replicas) {
  for (const Reduce reduce : {Reduce::ordered, Reduce::all_reduce})
    for (const Model* model : {&gpu_rank_model(), &long_gpu_rank_model()})
      expect_same(*model, {.devices = devices, .replicas = {2}}, {0, 1}, reduce);
}

TEST_F(GpuRanks, AFailureOnOneEndsAllAndSaysWhy) {
  const auto switches = std::make_shared<FragileLayer::Switches>();
  switches->fail_at = 2;
  const Model model = fragile_model(2, switches);
  const Plan plan = on_ranks(gpu_plan({.devices = devices, .microbatches = 5}, model.size()), {0, 1});
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), plan, {.ranks = group}, devices_on(plan, *group));
    const at::Tensor data = at::ones({kGpuBatch, FragileLayer::kWidth});
    try {
      (void)pipeline.step(data, {});
      ADD_FAILURE() << "rank " << group->rank() << " ended its step";
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find("broken on purpose"), std::string::npos) << error.what();
    }
  });
}

TEST_F(GpusOfRanks, EveryScheduleWithOneGpuEach) {
  for (const int gpus : gpu_counts())
    for (const std::string& schedule : schedules_of_microbatches())
      expect_same(long_gpu_rank_model(), {.devices = gpu_names(gpus), .schedule = schedule}, one_each(gpus));
}

TEST_F(GpusOfRanks, SeveralGpusEach) {
  const int gpus = gpu_counts().back();
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zbv"})
    expect_same(long_gpu_rank_model(), {.devices = gpu_names(gpus), .schedule = schedule}, in_turn(gpus));
}

TEST_F(GpusOfRanks, ReplicasOfOneRankAndOfSeveral) {
  const int gpus = gpu_counts().back();
  const std::vector<std::string> names = gpu_names(gpus);
  for (const Reduce reduce : {Reduce::ordered, Reduce::all_reduce})
    for (const auto& rank_of : {one_each(gpus), in_turn(gpus)}) {
      expect_same(gpu_rank_model(), {.devices = names, .microbatches = gpus, .replicas = {gpus}}, rank_of, reduce);
      if (gpus == 2) continue;
      expect_same(long_gpu_rank_model(), {.devices = names, .microbatches = gpus, .replicas = {gpus - 1, 1}}, rank_of, reduce);
      expect_same(long_gpu_rank_model(), {.devices = names, .schedule = "zb1p", .microbatches = gpus, .replicas = {1, gpus - 1}}, rank_of,
                  reduce);
    }
}

TEST_F(GpusOfRanks, MixedWithTheCpu) {
  for (const Model* model : {&gpu_rank_model(), &long_gpu_rank_model()}) {
    expect_same(*model, {.devices = {"cuda:0", cpu, "cuda:1"}}, {0, 1, 2});
    expect_same(*model, {.devices = {cpu, "cuda:0", "cuda:1"}, .schedule = "zb1p"}, {1, 0, 1});
    expect_same(*model, {.devices = {cpu, "cuda:0", "cuda:1"}, .schedule = "gpipe", .replicas = {3}}, {0, 0, 1});
    expect_same(*model, {.devices = {"cuda:1", cpu, "cuda:0"}, .replicas = {2, 1}}, {0, 1, 0});
  }
}

TEST_F(GpusOfRanks, PartsRecomputationOffloadingAndSixteenBits) {
  const std::vector<std::string> parts{"cuda:0/1of2", "cuda:1/1of2", "cuda:0/2of2", "cuda:1/2of2"};
  expect_same(long_gpu_rank_model(), {.devices = parts, .recompute = true}, {0, 1, 0, 1});
  expect_same(long_gpu_rank_model(), {.devices = parts, .schedule = "gpipe", .replicas = {2, 2}}, {0, 1, 0, 1});
  expect_same(gpu_rank_model(), {.devices = devices, .schedule = "gpipe", .offload = true}, {0, 1});
  for (const Precision precision : {Precision::bf16, Precision::fp16})
    expect_same(gpu_rank_model(), {.devices = devices, .schedule = "zb1p", .precision = precision}, {0, 1});
}

}  // namespace
}  // namespace mptune::testing
