#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/rank.h"
#include "tuner/runtime/between/rank_group.h"

namespace mptune::testing {

inline int unused_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

/// LibTorch's recorder of sums is one for the process. It takes up a group with the group's first sum, without a lock: two ranks of one
/// process that make theirs at once may crash it.
inline void turn_flight_recorder_off() {
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
}

inline void fail_on_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    ADD_FAILURE() << error.where() << ": " << error.problem();
  }
}

/// Runs `work` as each rank, in threads of this process that talk over c10d's Gloo. An Error that one throws fails the test.
/// It begins when all have joined: a rank that ended before would break the joining of the others.
inline void run_gloo(int size, double patience_s, const std::function<void(std::shared_ptr<RankGroup>)>& work) {
  turn_flight_recorder_off();
  const int port = unused_port();
  std::barrier joined(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([=, &joined] {
      const RankPlace place{.rank = r, .ranks = size, .address = "127.0.0.1", .port = port};
      std::shared_ptr<RankGroup> group;
      fail_on_error([&] { group = join_ranks(place, {.patience_s = patience_s}); });
      joined.arrive_and_wait();
      if (group) fail_on_error([&] { work(std::move(group)); });
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace mptune::testing
