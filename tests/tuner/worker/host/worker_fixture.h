#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <string>

#include "tuner/worker/host/interrupt.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::tuner {

inline const char* const kFake = MPTUNE_SOURCE_DIR "/tests/support/tuner_fake_worker.py";

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Fake workers, which behave as MPTUNE_FAKE says.
class Worker : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("MPTUNE_WORKER", kFake, 1);
    interrupt_flag() = 0;
  }
  void TearDown() override {
    for (const char* name : {"MPTUNE_WORKER", "MPTUNE_FAKE", "MPTUNE_FAKE_WARM_UPS", "OMP_PROC_BIND", "OMP_NUM_THREADS", "MPTUNE_KEEP"})
      ::unsetenv(name);
    interrupt_flag() = 0;
  }
  static void behave(const std::string& mode) { ::setenv("MPTUNE_FAKE", mode.c_str(), 1); }

  static Reply reply(WorkerProcess& worker) {
    auto next = worker.next(20, interrupt_flag());
    if (auto* end = std::get_if<WorkerEnd>(&next)) {
      ADD_FAILURE() << "ended: " << end->last_words;
      return Done{};
    }
    return std::get<Reply>(next);
  }
  static WorkerEnd end(WorkerProcess& worker, double timeout_s = 20) {
    while (true) {
      auto next = worker.next(timeout_s, interrupt_flag());
      if (auto* how = std::get_if<WorkerEnd>(&next)) return *how;
    }
  }
  static pid_t pid_from(const Reply& said) { return std::stoi(std::get<Progress>(said).what.substr(4)); }

  const Request request_ = DoctorRequest{};
};

}  // namespace mptune::tuner
