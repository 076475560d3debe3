#include "tuner/runtime/between/rank_streams.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/thread_ranks.h"

namespace mptune::tuner {
namespace {

using testing::ThreadRanks;

at::Tensor numbers(std::int64_t count, float first) {
  return at::arange(count, at::kFloat) + first;
}

TEST(RankStreams, LayoutsTravelWithTheFirstOfAKindAndWhereTheyChange) {
  ThreadRanks ranks(2);
  std::vector<int> messages;
  const std::vector<std::pair<int, std::int64_t>> kinds_and_sizes{{0, 4}, {0, 4}, {1, 6}, {0, 4}, {1, 6}, {0, 5}, {0, 5}, {0, 4}};
  ranks.run([&](const std::shared_ptr<RankGroup>& group) {
    RankStreams streams(group);
    float first = 0;
    for (const auto& [kind, size] : kinds_and_sizes) {
      first += 1;
      if (group->rank() == 0) {
        const int before = ranks.sent();
        streams.send(1, 7, kind, {numbers(size, first), at::Tensor()});
        messages.push_back(ranks.sent() - before);
      } else {
        const auto received = streams.receive(0, 7, kind);
        ASSERT_EQ(received.size(), 2U);
        EXPECT_TRUE(at::equal(received[0], numbers(size, first)));
        EXPECT_FALSE(received[1].defined());
      }
    }
  });
  EXPECT_EQ(messages, (std::vector<int>{3, 1, 3, 1, 1, 4, 1, 4}));
}

TEST(RankStreams, SentTensorsMayChangeAtOnce) {
  ThreadRanks(2).run([](const std::shared_ptr<RankGroup>& group) {
    RankStreams streams(group);
    at::Tensor tensor = at::ones({3});
    if (group->rank() == 0) {
      streams.send(1, 0, 0, {tensor});
      tensor.zero_();
    } else {
      EXPECT_TRUE(at::equal(streams.receive(0, 0, 0).at(0), at::ones({3})));
    }
  });
}

// Small and large ones, of both orders of dimensions in memory, some rows, none, one twice.
std::vector<at::Tensor> tensors_of_all_forms(float first) {
  const at::Tensor large = numbers(40'000, first).view({200, 200}), small = numbers(6, first);
  return {large,     small.view({2, 3}).t(), at::Tensor(), large.narrow(0, 50, 100), large.t(),
          large + 1, large.narrow(1, 0, 7),  small,        at::empty({0, 4}),        small};
}

TEST(RankStreams, TensorsTravelInPlace) {
  ThreadRanks(2).run([&](const std::shared_ptr<RankGroup>& group) {
    RankStreams streams(group);
    for (int step = 0; step < 3; ++step) {
      const std::vector<at::Tensor> expected = tensors_of_all_forms(static_cast<float>(step));
      if (group->rank() == 0) {
        streams.send_in_place(1, 3, 0, expected);
        continue;
      }
      std::vector<at::Tensor> places(expected.size());
      places[0] = at::zeros({200, 200});
      places[3] = at::zeros({200, 200}).narrow(0, 50, 100);
      places[5] = at::zeros({200, 200}).t();  // it lies otherwise
      places[7] = at::zeros({6});
      const std::vector<at::Tensor> received = step == 0 ? streams.receive_in_place(0, 3, 0) : streams.receive_in_place(0, 3, 0, places);
      ASSERT_EQ(received.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(received[i].defined(), expected[i].defined()) << i;
        EXPECT_TRUE(!expected[i].defined() || at::equal(received[i], expected[i])) << i;
      }
      for (const std::size_t i : {0, 3, 5, 7}) EXPECT_EQ(places[i].is_alias_of(received[i]), step > 0 && i != 5) << i;
    }
  });
}

TEST(RankStreams, ManyKindsAreForgottenOnBothSides) {
  ThreadRanks(2).run([](const std::shared_ptr<RankGroup>& group) {
    RankStreams streams(group);
    for (int i = 0; i < 10000; ++i) {
      const std::int64_t kind = i % 6000;
      if (group->rank() == 0)
        streams.send(1, 0, kind, {numbers(1 + kind % 3, 0)});
      else
        ASSERT_EQ(streams.receive(0, 0, kind).at(0).numel(), 1 + kind % 3);
    }
  });
}

TEST(RankStreams, EveryRankGetsTheNumbersOfAll) {
  ThreadRanks(4).run([](const std::shared_ptr<RankGroup>& group) {
    RankStreams streams(group);
    for (int round = 0; round < 3; ++round) {
      const double own = 10.0 * group->rank() + round;
      const auto all = streams.exchange(3, {own, -own});
      ASSERT_EQ(all.size(), 4U);
      for (int rank = 0; rank < 4; ++rank)
        EXPECT_EQ(all[static_cast<std::size_t>(rank)], (std::vector<double>{10.0 * rank + round, -10.0 * rank - round}));
    }
  });
}

}  // namespace
}  // namespace mptune::tuner
