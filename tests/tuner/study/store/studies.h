#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/tuner_fakes.h"
#include "tuner/study/store/study.h"

namespace mptune::tuner {

using Open = Study::Open;
using testing::error_of;

/// Of opening the folder.
inline Error error_of(const std::string& folder, Open mode, bool force = false) {
  return error_of([&] { Study study(folder, mode, force); });
}

inline Trial trial_with(const Outcome& outcome, int series = 0) {
  Trial trial;
  trial.series = series;
  trial.name = "candidate";
  trial.plan = testing::fake_plan(3, 4);
  trial.plan_key = plan_key(trial.plan);
  trial.outcome = outcome;
  return trial;
}

inline Samples some_samples() {
  Samples samples;
  samples.values = {{1.0 / 3, 0, 1, 0.25}, {0.1 + 0.2, 1, 0, 1e6}, {5e-9, 2, 1, 2}};
  return samples;
}

/// Runs `action` in a child; its exit code, or -signal.
inline int in_child(const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = action();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace mptune::tuner
