#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "profiler/base/error.h"

namespace mptune::testing {

/// The Error that `action` throws. Checks that it is one line with problem, where and remedy; fails the test if `action` does not throw.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_FALSE(error.problem().empty() || error.where().empty() || error.remedy().empty()) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error;
  }
  ADD_FAILURE() << "no error";
  return {"", "", "", ExitCode::done};
}

/// "where: problem" of the usage Error that `action` throws.
inline std::string refusal_of(const std::function<void()>& action) {
  const Error error = error_of(action);
  EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
  return error.where() + ": " + error.problem();
}

}  // namespace mptune::testing
