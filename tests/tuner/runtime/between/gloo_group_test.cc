// Ranks that are threads of this process, over c10d's Gloo.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <latch>
#include <string>
#include <thread>

#include "profiler/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/gloo_ranks.h"
#include "tuner/runtime/between/rank_group.h"
#include "tuner/runtime/between/rank_store.h"

namespace mptune {
namespace {

using ::testing::MatchesRegex;
using testing::run_gloo;
using testing::unused_port;

at::Tensor bytes(std::int64_t count, int value) {
  return at::full({count}, value, at::kByte);
}

TEST(GlooGroup, MessagesOfEachTagArriveInOrder) {
  run_gloo(3, 60, [](const std::shared_ptr<RankGroup>& group) {
    constexpr int kMessages = 40;
    const int own = group->rank(), next = (own + 1) % 3, before = (own + 2) % 3;
    for (int i = 0; i < kMessages; ++i)
      for (const int tag : {5, 6}) group->send(next, tag, bytes(tag == 5 ? 10 : 300000, i));
    for (const int tag : {6, 5})
      for (int i = 0; i < kMessages; ++i) {
        const at::Tensor received = bytes(tag == 5 ? 10 : 300000, 255);
        group->receive(before, tag, received);
        EXPECT_TRUE(at::equal(received, bytes(received.numel(), i)));
      }
  });
}

TEST(GlooGroup, SeveralMessagesAreReceivedAtOnce) {
  run_gloo(2, 60, [](const std::shared_ptr<RankGroup>& group) {
    const int other = 1 - group->rank();
    for (int round = 0; round < 20; ++round) {
      std::vector<at::Tensor> messages;
      for (int i = 0; i < 12; ++i) {
        group->send(other, 4, bytes(1 + i % 3 * 200000, i + round));
        messages.push_back(bytes(1 + i % 3 * 200000, 255));
      }
      group->receive_all(other, 4, messages);
      for (int i = 0; i < 12; ++i) EXPECT_TRUE(at::equal(messages[static_cast<std::size_t>(i)], bytes(1 + i % 3 * 200000, i + round)));
    }
  });
}

TEST(GlooGroup, WhatWasSentArrivesAfterItsRankHasEnded) {
  run_gloo(2, 60, [](const std::shared_ptr<RankGroup>& group) {
    if (group->rank() == 0) return group->send(1, 1, bytes(2000000, 9));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const at::Tensor received = bytes(2000000, 0);
    group->receive(0, 1, received);
    EXPECT_TRUE(at::equal(received, bytes(2000000, 9)));
  });
}

TEST(GlooGroup, GivingUpEndsWhatWaitsAndTellsOthersWhy) {
  run_gloo(2, 60, [](const std::shared_ptr<RankGroup>& group) {
    const at::Tensor never = bytes(8, 0);
    if (group->rank() == 0) {
      std::thread waiting([&] { EXPECT_THROW(group->receive_all(1, 1, {never, bytes(9, 0), bytes(5, 0)}), RanksGivenUp); });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      group->give_up(Error("the disk is full", "checkpoint", "free space", ExitCode::usage));
      waiting.join();
      EXPECT_THROW(group->receive(1, 1, bytes(8, 0)), RanksGivenUp);
      group->send(1, 1, bytes(8, 0));  // to nobody
      return;
    }
    const Error error = testing::error_of([&] { group->receive(0, 3, never); });
    EXPECT_EQ(error.problem(), "the disk is full");
    EXPECT_EQ(error.where(), "rank 0, checkpoint");
    EXPECT_EQ(error.remedy(), "free space");
    EXPECT_EQ(error.code(), ExitCode::usage);
  });
}

TEST(GlooGroup, RanksAddUpInGroups) {
  run_gloo(3, 60, [](const std::shared_ptr<RankGroup>& group) {
    const int own = group->rank();
    const std::vector<std::vector<int>> groups{{0, 1, 2}, {2, 0}, {1, 2}};
    for (int round = 0; round < 3; ++round)
      for (int sum = 0; sum < 3; ++sum) {
        const std::vector<int>& ranks = groups[static_cast<std::size_t>(sum)];
        if (std::ranges::find(ranks, own) == ranks.end()) continue;
        const at::Tensor numbers = at::arange(100000, sum == 1 ? at::kDouble : at::kFloat) * (own + 1);
        group->all_reduce(ranks, sum, numbers);
        int factor = 0;
        for (const int rank : ranks) factor += rank + 1;
        EXPECT_TRUE(at::equal(numbers, at::arange(100000, numbers.scalar_type()) * factor)) << sum;
      }
  });
}

TEST(GlooGroup, SumsGiveTheSameBitsToAll) {
  std::vector<at::Tensor> sums(4);
  run_gloo(4, 60, [&](const std::shared_ptr<RankGroup>& group) {
    const at::Tensor numbers = (at::arange(12345, at::kFloat) * (0.37F + static_cast<float>(group->rank()))).sin();
    group->all_reduce({0, 1, 2, 3}, 0, numbers);
    sums[static_cast<std::size_t>(group->rank())] = numbers;
  });
  for (const at::Tensor& sum : sums) EXPECT_TRUE(at::equal(sum, sums[0]));
}

TEST(GlooGroup, SumsOfSeveralThreadsGoOnAtTheSameTime) {
  run_gloo(2, 60, [](const std::shared_ptr<RankGroup>& group) {
    for (int sum = 0; sum < 2; ++sum) group->all_reduce({0, 1}, sum, at::zeros({1}));
    std::vector<std::thread> threads;
    for (int sum = 0; sum < 2; ++sum)
      threads.emplace_back([&, sum] {
        for (int i = 0; i < 50; ++i) {
          if (group->rank() != sum) std::this_thread::sleep_for(std::chrono::microseconds(200));
          const at::Tensor numbers = at::full({1000}, sum + 1, at::kFloat);
          group->all_reduce({0, 1}, sum, numbers);
          EXPECT_TRUE(at::equal(numbers, at::full({1000}, 2 * (sum + 1), at::kFloat)));
        }
      });
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(GlooGroup, ARankThatEndsEndsTheSumsThatWaitForIt) {
  std::latch both_know(2);
  run_gloo(3, 60, [&](const std::shared_ptr<RankGroup>& group) {
    group->all_reduce({0, 1, 2}, 0, at::zeros({1}));
    if (group->rank() == 1) return;
    const Error error = testing::error_of([&] { group->all_reduce({0, 1, 2}, 0, at::zeros({1000})); });
    // A rank whose connection is not yet seen to have ended is named with those that may have.
    EXPECT_THAT(error.problem(), MatchesRegex("(rank 0 or )?rank 1( or rank 2)? has ended or cannot be reached.*"));
    EXPECT_TRUE(error.where() == "rank 0" || error.where() == "rank 2") << error.where();
    group->give_up(error);  // the other one may wait for this rank
    both_know.arrive_and_wait();
  });
}

TEST(GlooGroup, ARankThatGivesUpTellsTheSumsThatWaitForIt) {
  run_gloo(3, 60, [](const std::shared_ptr<RankGroup>& group) {
    group->all_reduce({0, 1, 2}, 0, at::zeros({1}));
    if (group->rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      group->give_up(Error("the disk is full", "checkpoint", "free space", ExitCode::usage));
      EXPECT_THROW(group->all_reduce({0, 1, 2}, 0, at::zeros({1})), RanksGivenUp);
      return;
    }
    const Error error = testing::error_of([&] { group->all_reduce({0, 1, 2}, 0, at::zeros({1000})); });
    EXPECT_EQ(error.problem(), "the disk is full");
    group->give_up(error);
  });
}

TEST(GlooGroup, ARankThatSaysNothingIsNamed) {
  run_gloo(2, 1, [](const std::shared_ptr<RankGroup>& group) {
    if (group->rank() == 0) return std::this_thread::sleep_for(std::chrono::seconds(4));
    const Error error = testing::error_of([&] { group->receive(0, 1, bytes(8, 0)); });
    EXPECT_EQ(error.problem(), "rank 0 has said nothing for 1 s");
    EXPECT_EQ(error.where(), "rank 1");
  });
}

/// Runs `work` in a process of its own, which ends with it, and kills that process at the end.
class Process {
 public:
  explicit Process(const std::function<void()>& work) : number_(::fork()) {
    if (number_ != 0) return;
    work();
    ::_exit(0);
  }
  ~Process() {
    ::kill(number_, SIGKILL);
    ::waitpid(number_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

 private:
  pid_t number_;
};

// Of two ranks the second stops, and the first waits for what `wait` says. Its error.
std::string error_beside_a_stopped_rank(const std::function<void(RankGroup&)>& wait) {
  const int port = unused_port();
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  RankPlace place{.rank = 0, .ranks = 2, .address = "127.0.0.1", .port = port};
  const Process store([=] {
    const auto kept = tuner::keep_rank_store(place);
    while (true) ::pause();
  });
  place.store_runs = true;
  const Process first([&] {
    const auto group = join_ranks(place);
    group->all_reduce({0, 1}, 0, at::zeros({1}));
    const std::string problem = testing::error_of([&] { wait(*group); }).problem();
    (void)!::write(pipe[1], problem.data(), problem.size());
    ::_exit(0);  // as the worker does: a sum that waits for the other rank goes on
  });
  const Process second([&] {
    RankPlace own = place;
    own.rank = 1;
    const auto group = join_ranks(own);
    group->all_reduce({0, 1}, 0, at::zeros({1}));
    ::raise(SIGSTOP);
  });
  ::close(pipe[1]);
  std::string problem(200, '\0');
  const ssize_t size = ::read(pipe[0], problem.data(), problem.size());
  ::close(pipe[0]);
  return problem.substr(0, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
}

TEST(SlowGlooGroup, ARankThatIsStoppedIsNamed) {
  const std::string expected = "rank 1 has given no sign of life for 20 s";
  EXPECT_EQ(error_beside_a_stopped_rank([](RankGroup& group) { group.receive(1, 1, bytes(8, 0)); }), expected);
  EXPECT_EQ(error_beside_a_stopped_rank([](RankGroup& group) { group.all_reduce({0, 1}, 0, at::zeros({1000})); }), expected);
}

TEST(GlooGroup, RanksThatDoNotMeetAreAnError) {
  const Error error = testing::error_of(
      [] { (void)join_ranks({.rank = 1, .ranks = 2, .address = "127.0.0.1", .port = unused_port()}, {.patience_s = 1}); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_NE(error.where().find("rank 1 of 2, 127.0.0.1:"), std::string::npos) << error.where();
}

}  // namespace
}  // namespace mptune
