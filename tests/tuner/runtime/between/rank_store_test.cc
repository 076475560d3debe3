#include "tuner/runtime/between/rank_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "profiler/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/gloo_ranks.h"
#include "tuner/runtime/between/patient_store.h"

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

/// c10d's store itself, without the names and codes of ranks.
c10::intrusive_ptr<c10d::Store> bare_store(int port) {
  c10d::TCPStoreOptions about;
  about.port = static_cast<std::uint16_t>(port);
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", about);
}

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

// Who listens on the network knows the names, and may write under them.
TEST(RankStore, WhatAStrangerWritesUnderTheirNamesEndsTheRun) {
  RankPlace place = place_at(unused_port());
  place.token = "known to us";
  const auto kept = keep_rank_store(place);
  kept->set("request 0", "ours");
  kept->set("request 1", "another");
  const auto stranger = bare_store(place.port);
  std::vector<std::string> names;
  for (const std::string& name : stranger->listKeys())
    if (name.ends_with("/request 0") || name.ends_with("/request 1")) names.push_back(name);
  ASSERT_EQ(names.size(), 2U);
  std::ranges::sort(names);
  const std::vector<std::uint8_t> first = stranger->get(names[0]), second = stranger->get(names[1]);
  for (const std::string& name : names) EXPECT_EQ(name.find(place.token), std::string::npos) << "the token travels in the open";

  std::vector<std::uint8_t> changed = first, shorter(first.begin(), first.begin() + 10);
  changed.back() ^= 1;
  for (const auto& written : {changed, second, shorter, bytes_of(""), bytes_of("plug-in:/users/stranger/evil.so")}) {
    stranger->set(names[0], written);
    const Error error = error_of([&] { (void)kept->find("request 0"); });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_NE(error.problem().find("'request 0' is not of a rank"), std::string::npos) << error.problem();
    EXPECT_EQ(error.where(), "127.0.0.1:" + std::to_string(place.port));
  }
  stranger->set(names[0], first);
  EXPECT_EQ(kept->find("request 0"), "ours");
}

/// A process that keeps the store of ranks until it is killed, and never answers while it is stopped.
class StoreProcess {
 public:
  explicit StoreProcess(const RankPlace& place) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    process_ = ::fork();
    if (process_ == 0) {
      const auto kept = keep_rank_store(place);
      (void)!::write(ready[1], "x", 1);
      while (true) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~StoreProcess() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  /// Returns once the process has stopped: until then its other threads may still answer.
  void stop() const {
    ::kill(process_, SIGSTOP);
    ::waitpid(process_, nullptr, WUNTRACED);
  }
  void go_on() const { ::kill(process_, SIGCONT); }

 private:
  pid_t process_ = -1;
};

TEST(SlowRankStore, AStoreThatIsStoppedIsAnErrorAndGoesOnWhenItDoes) {
  const RankPlace place = place_at(unused_port());
  const StoreProcess process(place);
  const auto store = open_rank_store(place, 10);
  store->set("before", "it stops");
  process.stop();
  EXPECT_THROW((void)store->find("before"), StoreSilent);
  EXPECT_THROW(store->set("meanwhile", "2"), StoreSilent) << "at once: the first question is still open";
  EXPECT_THROW((void)open_rank_store(place, 0.5), StoreSilent);
  process.go_on();
  for (int look = 0; look < 1000; ++look) {
    try {
      if (store->find("before") == "it stops") break;
    } catch (const StoreSilent&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  EXPECT_EQ(store->find("before"), "it stops");
  EXPECT_FALSE(store->find("meanwhile"));
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
