// Devices of different ranks that exchange tensors without the host's memory, as GPUs do over NCCL. Here a fake in memory takes NCCL's
// place: what the runtime asks of it, and in which order, is the same.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/model/loading/load_model.h"
#include "rank_training.h"
#include "reference.h"
#include "small_models.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_connector.h"
#include "tests/support/thread_ranks.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::testing {
namespace {

Model small_transformer() {
  return with_mean_square(load_model("transformer:d=8,layers=5,heads=2,seq=4,vocab=10", "", 0).model);
}

TEST(DirectLinks, EverySchedulesResultsEqualOneProcess) {
  const MemoryConnector connector;
  check_ranks(small_transformer(), 23, 0, rank_choices(), expect_equal_over_ranks, &connector);
  check_ranks(with_mean_square(convolutions()), 29, 1, rank_choices(), expect_equal_over_ranks, &connector);
  int first = 0;
  for (const SmallModel& small : small_models()) {
    SCOPED_TRACE(small.name);
    check_ranks(with_mean_square(small.make()), 97, first++, rank_choices(), expect_equal_over_ranks, &connector);
  }
}

TEST(DirectLinks, AllReduceEqualsOneProcessWithinRounding) {
  const MemoryConnector connector;
  check_ranks(small_transformer(), 11, 0, replicated_choices(), expect_close_over_ranks, &connector);
  check_ranks(with_mean_square(convolutions()), 11, 1, replicated_choices(), expect_close_over_ranks, &connector);
}

/// Three steps of two stages, each on a rank.
void train(const Plan& plan, ThreadRanks& ranks, const profiler::GpuConnector* connector, const Model& model) {
  const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
  ranks.run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), plan, {.ranks = group, .connector = connector}, devices_on(plan, *group));
    for (int i = 0; i < 3; ++i) (void)pipeline.step(batch.inputs, batch.target);
  });
}

TEST(DirectLinks, TensorsOfStagesDoNotGoThroughTheHost) {
  const Model model = with_mean_square(load_model("mlp:layers=4,width=512", "", 0).model);
  const Plan plan = on_ranks(*rank_plan({"1f1b", 2, 5, {}, false}, model.size()), {0, 1});
  const MemoryConnector connector;
  ThreadRanks direct(2), through_host(2);
  train(plan, direct, &connector, model);
  train(plan, through_host, nullptr, model);
  // Activations and gradients of the cut: 512 floats a sample, both ways, in three steps.
  const std::int64_t tensors = 3 * 2 * kRankBatch * 512 * 4;
  EXPECT_EQ(connector.communicators(), 2) << "one for each direction";
  EXPECT_EQ(connector.sent_bytes(), tensors + 2) << "and a first byte each way";
  EXPECT_LT(direct.sent_bytes(), tensors / 4);
  EXPECT_GT(through_host.sent_bytes(), tensors);
}

// NCCL refuses two members on one GPU.
TEST(DirectLinks, RanksOnOneDeviceAndUnknownDevicesGoThroughTheHost) {
  const Model model = small_transformer();
  const Plan plan = on_ranks(*rank_plan({"1f1b", 3, 5, {}, false}, model.size()), {0, 1, 2});
  const MemoryConnector connector({plan.devices[0], plan.devices[1]});
  expect_equal_over_ranks(model, *rank_plan({"1f1b", 3, 5, {}, false}, model.size()), {0, 1, 2}, &connector);
  EXPECT_EQ(connector.communicators(), 2) << "between stages 1 and 2 alone";
}

/// Loses all messages but the first one.
class SilentConnector final : public profiler::GpuConnector {
 public:
  [[nodiscard]] std::string identity_of(const Device& device) const override { return inner_.identity_of(device); }
  [[nodiscard]] std::string new_id() const override { return inner_.new_id(); }
  [[nodiscard]] std::shared_ptr<profiler::GpuCommunicator> connect(const std::shared_ptr<Device>& device, const std::string& id,
                                                                   int members, int member) const override {
    return std::make_shared<Silent>(inner_.connect(device, id, members, member));
  }

 private:
  class Silent final : public profiler::GpuCommunicator {
   public:
    explicit Silent(std::shared_ptr<profiler::GpuCommunicator> inner) : inner_(std::move(inner)) {}
    MomentPtr send(int to, const std::vector<at::Tensor>& tensors) override {
      return std::exchange(first_, false) ? inner_->send(to, tensors) : nullptr;
    }
    [[nodiscard]] profiler::Copied receive(int from, const std::vector<at::Tensor>& likes) override { return inner_->receive(from, likes); }
    void all_reduce(const at::Tensor& numbers) override { inner_->all_reduce(numbers); }
    void abort() noexcept override { inner_->abort(); }

   private:
    std::shared_ptr<profiler::GpuCommunicator> inner_;
    bool first_ = true;
  };
  MemoryConnector inner_;
};

// The second stage's device waits for what was announced and never comes: NCCL would do so for ever.
TEST(DirectLinks, ARankThatEndsIsNoticedWhileADeviceWaitsForItsTensors) {
  const Model model = small_transformer();
  const Plan plan = on_ranks(*rank_plan({"1f1b", 2, 2, {}, false}, model.size()), {0, 1});
  const SilentConnector connector;
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    Pipeline pipeline(copy_of(model), plan, {.ranks = group, .connector = &connector}, devices_on(plan, *group));
    const Batch batch = synthetic_batch(model.sample(), kRankBatch, 3);
    std::thread ends;
    if (group->rank() == 0)
      ends = std::thread([group] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        group->give_up(Error("the disk is full", "checkpoint", "free space", ExitCode::usage));
      });
    const auto error = [&]() -> std::string {
      try {
        (void)pipeline.step(batch.inputs, batch.target);
      } catch (const Error& said) {
        return said.problem();
      } catch (const RanksGivenUp&) {
        return "given up";
      }
      return "";
    }();
    EXPECT_EQ(error, group->rank() == 0 ? "given up" : "the disk is full");
    if (ends.joinable()) ends.join();
  });
}

}  // namespace
}  // namespace mptune::testing
