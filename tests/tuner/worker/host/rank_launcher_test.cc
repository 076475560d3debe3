#include "tuner/worker/host/rank_launcher.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/files.h"

namespace mptune::tuner {
namespace {

using Clock = std::chrono::steady_clock;

RanksEnd run_script(const std::string& script, int ranks, const std::atomic<int>& interrupted = std::atomic<int>(0)) {
  const std::vector<std::string> words{"/bin/sh", "-c", script};
  return run_ranks(words, words, ranks, interrupted);
}

std::string text_of_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(RankLauncher, EachRankIsToldItsPlace) {
  const testing::TestFolder folder("ranks");
  const std::string out = folder.path("rank");
  const RanksEnd end = run_script("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR ${TORCHELASTIC_RUN_ID:-none} > " +
                                      out + ".$RANK; echo $MASTER_PORT > " + out + ".port.$RANK",
                                  3);
  EXPECT_EQ(end.exit_code, 0);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string number = std::to_string(rank);
    EXPECT_EQ(text_of_file(out + "." + number), number + " " + number + " 3 3 127.0.0.1 none\n");
    EXPECT_EQ(text_of_file(out + ".port." + number), text_of_file(out + ".port.0"));
  }
  EXPECT_GT(std::stoi(text_of_file(out + ".port.0")), 1023);
}

TEST(RankLauncher, TheFirstFailureIsToldAndTheOthersEnd) {
  const auto start = Clock::now();
  const RanksEnd end = run_script("if [ $RANK = 1 ]; then echo no memory; exit 3; fi; exec sleep 100", 3);
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.output, "no memory\n");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(60)) << "the others are not waited for";
}

TEST(RankLauncher, WhatRank0SaysItselfComesFirst) {
  const RanksEnd end = run_script("if [ $RANK = 1 ]; then exit 3; fi; sleep 0.3; exit 7", 2);
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_EQ(end.rank, 0);
  EXPECT_EQ(end.output, "");
}

TEST(RankLauncher, AKilledRankIsNamed) {
  const RanksEnd end = run_script("if [ $RANK = 1 ]; then kill -9 $$; fi; exec sleep 100", 2);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.signal, SIGKILL);
}

TEST(SlowRankLauncher, AStoppedRankIsNamed) {
  const RanksEnd end = run_script("if [ $RANK = 1 ]; then kill -STOP $$; fi; exec sleep 100", 3);
  EXPECT_EQ(end.killed, RanksEnd::Killed::stopped);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.exit_code, 7);
}

TEST(SlowRankLauncher, ARankThatGoesOnAfterTheFirstIsKilled) {
  const RanksEnd end = run_script("if [ $RANK = 1 ]; then exec sleep 100; fi", 2);
  EXPECT_EQ(end.killed, RanksEnd::Killed::too_late);
  EXPECT_EQ(end.rank, 1);
}

TEST(RankLauncher, AnInterruptReachesAllRanks) {
  std::atomic<int> interrupted = 0;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    interrupted = SIGTERM;
  });
  const testing::TestFolder folder("ranks");
  const std::string out = folder.path("told");
  const RanksEnd end = run_script("trap 'echo told > " + out + ".$RANK; exit 9' TERM; while :; do sleep 0.05; done", 2, interrupted);
  later.join();
  EXPECT_EQ(end.exit_code, 9);
  for (const char* rank : {".0", ".1"}) EXPECT_EQ(text_of_file(out + rank), "told\n");
}

TEST(RankLauncher, ManyWordsBlockNobody) {
  const RanksEnd end = run_script("if [ $RANK = 1 ]; then head -c 1000000 /dev/zero | tr '\\0' x; exit 2; fi; exec sleep 100", 2);
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_EQ(end.output.size(), 1000000U);
}

TEST(RankLauncher, AProgramThatIsNotThereFails) {
  EXPECT_EQ(run_ranks({"/no/such/program"}, {"/no/such/program"}, 2, std::atomic<int>(0)).exit_code, 127);
}

}  // namespace
}  // namespace mptune::tuner
