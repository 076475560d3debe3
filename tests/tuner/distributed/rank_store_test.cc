#include "tuner/distributed/rank_store.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "profiler/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/gloo_ranks.h"

namespace mptune::tuner {
namespace {

using testing::error_of;
using testing::unused_port;

RankPlace place_at(int port, int attempt = 0) {
  return {.rank = 0, .ranks = 2, .address = "127.0.0.1", .port = port, .attempt = attempt};
}

TEST(RankStore, OtherProcessesFindWhatOneLeaves) {
  const int port = unused_port();
  const auto kept = keep_rank_store(place_at(port));
  const auto other = open_rank_store(place_at(port), 10);
  EXPECT_FALSE(other->find("request 0"));
  kept->set("request 0", std::string("two\nlines \0 and a zero", 22));
  EXPECT_EQ(other->find("request 0"), std::string("two\nlines \0 and a zero", 22));
  other->set("empty", "");
  EXPECT_EQ(kept->find("empty"), "");
  EXPECT_EQ(kept->add("count", 2), 2);
  EXPECT_EQ(other->add("count", 1), 3);
}

TEST(RankStore, RanksThatAreStartedAgainFindNothingOfBefore) {
  const int port = unused_port();
  const auto kept = keep_rank_store(place_at(port));
  kept->set("end", "7");
  EXPECT_FALSE(open_rank_store(place_at(port, 1), 10)->find("end"));
}

// Whoever reaches the port may write, but not what these ranks look for.
TEST(RankStore, WhatStrangersWriteIsNotFound) {
  RankPlace ours = place_at(unused_port()), stranger = ours;
  ours.token = "known to us";
  const auto kept = keep_rank_store(ours);
  for (const char* token : {"", "another"}) {
    stranger.token = token;
    const auto other = open_rank_store(stranger, 10);
    other->set("request 0", "what a stranger wants");
    (void)other->add("count", 5);
    kept->set("request 1", "ours");
    EXPECT_FALSE(other->find("request 1"));
  }
  EXPECT_FALSE(kept->find("request 0"));
  EXPECT_EQ(open_rank_store(ours, 10)->add("count", 1), 1);
}

// What /proc says of all sockets that listen on the port.
TEST(RankStore, OfThisMachineAloneListensOnLoopback) {
  const int port = unused_port();
  const auto kept = keep_rank_store(place_at(port));
  char wanted[8];
  std::snprintf(wanted, sizeof wanted, ":%04X", static_cast<unsigned>(port));
  int listening = 0;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string number, local, remote, state, rest; file >> number >> local >> remote >> state && std::getline(file, rest);) {
      if (!local.ends_with(wanted) || state != "0A") continue;
      EXPECT_EQ(local, "0100007F" + std::string(wanted)) << table;
      ++listening;
    }
  }
  EXPECT_EQ(listening, 1);
}

TEST(RankStore, AStoreThatEndsIsAnErrorForThoseWhoAsk) {
  const int port = unused_port();
  auto kept = keep_rank_store(place_at(port));
  const auto other = open_rank_store(place_at(port), 10);
  kept.reset();
  const Error error = error_of([&] { (void)other->find("end"); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_NE(error.problem().find("rank 0 has ended"), std::string::npos) << error.problem();
}

TEST(RankStore, NobodyThereOrAPortThatIsTaken) {
  const int port = unused_port();
  EXPECT_EQ(error_of([&] { (void)open_rank_store(place_at(port), 0.5); }).code(), ExitCode::environment);
  const auto kept = keep_rank_store(place_at(port));
  const Error taken = error_of([&] { (void)keep_rank_store(place_at(port)); });
  EXPECT_NE(taken.problem().find("cannot meet here"), std::string::npos) << taken.problem();
}

}  // namespace
}  // namespace mptune::tuner
