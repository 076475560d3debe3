// Ranks with GPUs, here threads of one process: with two GPUs over NCCL, else with halves of one through the host's memory.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "profiler/device/gpu_driver.h"
#include "profiler/loading/load_model.h"
#include "rank_training.h"
#include "reference.h"
#include "tests/support/thread_ranks.h"
#include "tuner/distributed/remote_device.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

class GpuRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (profiler::gpu_driver().gpus == 0) {
      GTEST_SKIP() << profiler::gpu_driver().problem;
    }
    devices = profiler::gpu_driver().gpus > 1 ? std::vector<std::string>{"cuda:0", "cuda:1"}
                                              : std::vector<std::string>{"cuda:0/1of2", "cuda:0/2of2"};
  }
  std::vector<std::string> devices;
};

std::vector<double> losses_of(Pipeline& pipeline, const Batch& batch) {
  std::vector<double> losses;
  for (int i = 0; i < 4; ++i) {
    losses.push_back(pipeline.step(batch.inputs, batch.target).loss);
    pipeline.on_stages([&](int stage) {
      const at::NoGradGuard no_gradients;
      for (const at::Tensor& parameter : pipeline.parameters(stage)) parameter.sub_(parameter.grad(), 0.01);
    });
  }
  return losses;
}

void expect_losses_of_one_process(const Plan& plan, const Model& model, Reduce reduce) {
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  Pipeline alone(copy_of(model), plan, {});
  const std::vector<double> expected = losses_of(alone, batch);
  const Plan over = on_ranks(plan, {0, 1});
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    std::vector<std::shared_ptr<Device>> own;
    for (const std::string& name : over.devices) own.push_back(tuner::make_device_of(parse_device(name), group.get()));
    Pipeline pipeline(copy_of(model), over, {.ranks = group, .reduce = reduce}, own);
    const std::vector<double> losses = losses_of(pipeline, batch);
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4 * std::abs(expected[i])) << i;
  });
}

TEST_F(GpuRanks, LossesOfEveryScheduleAreThoseOfOneProcess) {
  const Model model = with_mean_square(load_model("transformer:d=32,layers=4,heads=2,seq=8,vocab=40", "", 0).model);
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb1p"}) {
    auto plan = rank_plan({schedule, 2, 5, {}, false}, model.size());
    ASSERT_TRUE(plan) << schedule;
    plan->devices = devices;
    SCOPED_TRACE(schedule);
    expect_losses_of_one_process(*plan, model, Reduce::ordered);
  }
}

TEST_F(GpuRanks, LossesOfReplicasAreThoseOfOneProcess) {
  const Model model = with_mean_square(load_model("mlp:layers=4,width=64", "", 0).model);
  auto plan = rank_plan({"1f1b", 1, 4, {2}, false}, model.size());
  plan->devices = devices;
  expect_losses_of_one_process(*plan, model, Reduce::ordered);
  expect_losses_of_one_process(*plan, model, Reduce::all_reduce);
}

}  // namespace
}  // namespace mptune::testing
