#include "tuner/runtime/stage/pending_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "profiler/base/index.h"
#include "tuner/runtime/graph/channel.h"

namespace mptune::tuner {
namespace {

using Size = PendingWeights::Size;

PendingWeights::Groups one_by_one(const std::vector<int>& microbatches) {
  PendingWeights::Groups order;
  for (const int microbatch : microbatches) order.push_back({microbatch});
  return order;
}

/// Notes by whom and in which order gradients are computed.
struct Journal {
  std::mutex mutex;
  std::map<int, std::vector<int>> microbatches;  ///< by weight
};

class Noted final : public profiler::WeightGradient {
 public:
  Noted(const at::Tensor& weight, int index, int microbatch, Journal& journal)
      : WeightGradient(weight), index_(index), microbatch_(microbatch), journal_(journal) {}
  [[nodiscard]] double multiplications() const override { return index_; }
  void run() override {
    const std::lock_guard lock(journal_.mutex);
    journal_.microbatches[index_].push_back(microbatch_);
  }
  [[nodiscard]] std::vector<at::Tensor> held() const override { return {}; }

 private:
  int index_;
  int microbatch_;
  Journal& journal_;
};

struct Weights {
  explicit Weights(int count) {
    for (int i = 0; i < count; ++i) tensors.push_back(at::zeros({1}));
  }
  [[nodiscard]] profiler::WeightGradients of(int microbatch, const std::vector<int>& indices) {
    profiler::WeightGradients made;
    for (const int i : indices) made.push_back(std::make_unique<Noted>(tensors[as_index(i)], i, microbatch, journal));
    return made;
  }
  void run(PendingWeights& pending, std::optional<PendingWeights::Taken> taken) const {
    ASSERT_TRUE(taken.has_value());
    profiler::run_together(taken->gradients);
    pending.done(*taken);
  }
  std::vector<at::Tensor> tensors;
  Journal journal;
};

TEST(PendingWeights, AWeightAddsItsMicrobatchesInOrder) {
  Weights weights(2);
  PendingWeights pending(one_by_one({0, 1, 2}));
  pending.add(1, weights.of(1, {0, 1}));
  EXPECT_FALSE(pending.take(Size::smallest).has_value()) << "micro-batch 0 has not ended";
  pending.add(0, weights.of(0, {0}));
  auto first = pending.take(Size::smallest);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->microbatch, 0);
  auto second = pending.take(Size::smallest);
  ASSERT_TRUE(second.has_value()) << "another weight";
  EXPECT_EQ(second->microbatch, 1);
  EXPECT_FALSE(pending.take(Size::smallest).has_value()) << "weight 0 of micro-batch 0 is being computed";
  pending.done(*first);
  EXPECT_TRUE(pending.holds(weights.tensors[0]));
  weights.run(pending, pending.take(Size::smallest));
  pending.done(*second);
  EXPECT_FALSE(pending.holds(weights.tensors[0]));
  EXPECT_TRUE(pending.empty());
}

TEST(PendingWeights, FollowsTheOrderOfTheRowNotThatOfTheInputGradients) {
  Weights weights(1);
  PendingWeights pending(one_by_one({2, 0, 1}));
  for (const int microbatch : {0, 1, 2}) pending.add(microbatch, weights.of(microbatch, {0}));
  while (auto taken = pending.take_all()) weights.run(pending, std::move(taken));
  EXPECT_EQ(weights.journal.microbatches[0], (std::vector<int>{2, 0, 1}));
}

TEST(PendingWeights, GivesTheSmallestOrTheLargestFirst) {
  Weights weights(3);
  PendingWeights pending(one_by_one({0}));
  pending.add(0, weights.of(0, {1, 0, 2}));
  EXPECT_EQ(pending.take(Size::largest)->gradients.front()->multiplications(), 2);
  EXPECT_EQ(pending.take(Size::smallest)->gradients.front()->multiplications(), 0);
}

TEST(PendingWeights, TakesUpToAMicrobatchOnly) {
  Weights weights(1);
  PendingWeights pending(one_by_one({0, 1}));
  pending.add(0, weights.of(0, {0}));
  pending.add(1, weights.of(1, {0}));
  weights.run(pending, pending.take_up_to(0));
  EXPECT_FALSE(pending.take_up_to(0).has_value());
  EXPECT_FALSE(pending.empty());
}

TEST(PendingWeights, FusedMicrobatchesAreHandedOutTogether) {
  Weights weights(2);
  PendingWeights pending({{0}, {1, 2}, {3}});
  int told = 0;
  pending.set_ready_observer([&] { ++told; });
  for (const int microbatch : {0, 2, 3}) pending.add(microbatch, weights.of(microbatch, {0}));
  weights.run(pending, pending.take_all());
  EXPECT_FALSE(pending.take_all().has_value()) << "micro-batch 1 has not ended";
  EXPECT_FALSE(pending.empty());
  EXPECT_TRUE(pending.holds(weights.tensors[0]));
  EXPECT_EQ(told, 1);
  pending.add(1, weights.of(1, {0, 1}));
  EXPECT_EQ(told, 2);
  auto both = pending.take(Size::smallest);
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->gradients.size(), 2u);
  EXPECT_EQ(both->microbatch, 1);
  EXPECT_EQ(both->further, 1);
  EXPECT_FALSE(pending.take(Size::smallest)->gradients.front()->weight().is_same(both->weight)) << "weight 0 is being computed";
  pending.reset();
  for (const int microbatch : {3, 2, 1, 0}) pending.add(microbatch, weights.of(microbatch, {0}));
  for (const int expected : {1, 2}) {
    auto taken = pending.take_up_to(expected);
    ASSERT_TRUE(taken.has_value());
    weights.run(pending, std::move(taken));
  }
  EXPECT_FALSE(pending.take_up_to(2).has_value());
  weights.run(pending, pending.take_all());
  EXPECT_TRUE(pending.empty());
  EXPECT_EQ(weights.journal.microbatches[0], (std::vector<int>{0, 0, 1, 2, 3}));
}

TEST(PendingWeights, TellsWhenSomethingCanBeTaken) {
  Weights weights(1);
  PendingWeights pending(one_by_one({0, 1}));
  int told = 0;
  pending.set_ready_observer([&] { ++told; });
  pending.add(1, weights.of(1, {0}));
  EXPECT_EQ(told, 0);
  pending.add(0, weights.of(0, {0}));
  EXPECT_EQ(told, 1);
  weights.run(pending, pending.take(Size::smallest));
  EXPECT_EQ(told, 2) << "micro-batch 1 is next";
}

TEST(PendingWeights, CancelWakesAWaitingOwner) {
  Weights weights(1);
  PendingWeights pending(one_by_one({0}));
  pending.add(0, weights.of(0, {0}));
  const auto taken = pending.take(Size::smallest);
  std::thread owner([&] { EXPECT_THROW((void)pending.take_up_to(0), StepCancelled); });
  pending.cancel();
  owner.join();
  EXPECT_FALSE(pending.take(Size::smallest).has_value());
  pending.reset();
  EXPECT_TRUE(pending.empty());
}

/// One owner goes through its row, three threads help: every weight has its micro-batches once, in the order of the row.
TEST(PendingWeights, ThreadsThatHelpDoNotChangeTheOrder) {
  constexpr int kWeights = 5, kMicrobatches = 12;
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Weights weights(kWeights);
    std::vector<int> order(kMicrobatches);
    for (int i = 0; i < kMicrobatches; ++i) order[as_index(i)] = i;
    std::shuffle(order.begin(), order.end(), random);
    PendingWeights pending(one_by_one(order));
    std::map<int, std::vector<int>> expected;
    std::vector<std::vector<int>> left(kMicrobatches);
    for (const int microbatch : order)
      for (int weight = 0; weight < kWeights; ++weight)
        if (random() % 3 != 0) {
          left[as_index(microbatch)].push_back(weight);
          expected[weight].push_back(microbatch);
        }
    std::atomic<bool> over{false};
    std::vector<std::thread> helpers;
    for (int h = 0; h < 3; ++h)
      helpers.emplace_back([&, h] {
        while (!over)
          if (auto taken = pending.take(h == 0 ? Size::largest : Size::smallest)) weights.run(pending, std::move(taken));
      });
    for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch)
      pending.add(microbatch, weights.of(microbatch, left[as_index(microbatch)]));
    for (const int microbatch : order)
      while (auto taken = pending.take_up_to(microbatch)) weights.run(pending, std::move(taken));
    EXPECT_TRUE(pending.empty());
    over = true;
    for (std::thread& helper : helpers) helper.join();
    EXPECT_EQ(weights.journal.microbatches, expected);
  }
}

}  // namespace
}  // namespace mptune::tuner
