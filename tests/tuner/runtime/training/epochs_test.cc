#include "tuner/runtime/training/epochs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "tuner/runtime/training/accuracy.h"

namespace mptune::testing {
namespace {

std::vector<std::int64_t> indices(const Epochs& epochs, std::int64_t step) {
  const at::Tensor of = epochs.indices_of(step);
  return {of.data_ptr<std::int64_t>(), of.data_ptr<std::int64_t>() + of.numel()};
}

TEST(Epochs, EveryEpochTakesEachSampleOnceInAnOrderOfItsOwn) {
  const Epochs epochs(23, 5, 1, false);
  ASSERT_EQ(epochs.steps_per_epoch(), 5);
  std::set<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::vector<std::int64_t> order;
    for (int step = 5 * epoch; step < 5 * (epoch + 1); ++step) {
      EXPECT_EQ(epochs.epoch_of(step), epoch);
      EXPECT_EQ(epochs.ends_epoch(step), step % 5 == 4);
      const auto some = indices(epochs, step);
      EXPECT_EQ(some.size(), step % 5 == 4 ? 3U : 5U);
      order.insert(order.end(), some.begin(), some.end());
    }
    EXPECT_TRUE(orders.insert(order).second);
    std::ranges::sort(order);
    std::vector<std::int64_t> all(23);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all);
  }
}

TEST(Epochs, DependOnSeedAndStepAlone) {
  EXPECT_EQ(indices(Epochs(23, 5, 1, false), 7), indices(Epochs(23, 5, 1, false), 7));
  EXPECT_NE(indices(Epochs(23, 5, 1, false), 7), indices(Epochs(23, 5, 2, false), 7));
  EXPECT_EQ(indices(Epochs(5, 5, 1, false), 3), (std::vector<std::int64_t>{0, 1, 2, 3, 4})) << "one batch keeps its order";
}

TEST(Epochs, DropLastLeavesTheRestOut) {
  const Epochs epochs(23, 5, 1, true);
  EXPECT_EQ(epochs.steps_per_epoch(), 4);
  for (int step = 0; step < 8; ++step) EXPECT_EQ(indices(epochs, step).size(), 5U);
  EXPECT_EQ(Epochs(20, 5, 1, true).steps_per_epoch(), 4);
}

TEST(AccuracyOf, CountsWhatTheLargestOutputHits) {
  const at::Tensor output = at::tensor(std::vector<float>{1, 5, 0, /**/ 9, 1, 2, /**/ 0, 0, 1}).view({3, 3});
  const auto targets = [](std::vector<std::int64_t> values) { return at::tensor(values); };
  const auto right = [&](const Loss& loss, const at::Tensor& target) {
    const auto accuracy = accuracy_of(loss, {output}, target);
    return accuracy ? std::pair(accuracy->right, accuracy->counted) : std::pair<std::int64_t, std::int64_t>(-1, -1);
  };
  const std::pair<std::int64_t, std::int64_t> none(-1, -1);
  EXPECT_EQ(right(Loss::cross_entropy(), targets({1, 0, 0})), std::pair(std::int64_t{2}, std::int64_t{3}));
  EXPECT_EQ(right(Loss::cross_entropy(), targets({1, -100, 2})), std::pair(std::int64_t{2}, std::int64_t{2}));
  EXPECT_EQ(right(Loss::from_name("cross_entropy:ignore_index=0"), targets({1, 0, 0})), std::pair(std::int64_t{1}, std::int64_t{1}));
  const auto second = accuracy_of(Loss::from_name("cross_entropy:outputs=0,1"), {output, -output}, targets({1, 0, 0}));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->right, 1) << "of the output that counts";
  EXPECT_FALSE(accuracy_of(Loss::from_name("cross_entropy:outputs=0,1"), {output}, targets({1, 0, 0})));
  EXPECT_EQ(right(Loss::mse(), at::zeros({3, 3})), none);
  EXPECT_EQ(right(Loss::custom("own", [](const Tensors& outputs, const at::Tensor&) { return outputs[0].sum(); }), targets({1, 0, 0})),
            none);
  EXPECT_EQ(right(Loss::cross_entropy(), {}), none);
  // A language model: (samples, positions, classes).
  const auto words = accuracy_of(Loss::cross_entropy(), {output.view({1, 3, 3})}, targets({1, 0, 0}).view({1, 3}));
  ASSERT_TRUE(words);
  EXPECT_EQ(words->right, 2);
  // Images: (samples, classes, pixels).
  const auto pixels = accuracy_of(Loss::cross_entropy(), {output.t().contiguous().view({1, 3, 3, 1})}, targets({1, 0, 0}).view({1, 3, 1}));
  ASSERT_TRUE(pixels);
  EXPECT_EQ(pixels->share(), 2.0 / 3);
}

}  // namespace
}  // namespace mptune::testing
