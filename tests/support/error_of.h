#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "profiler/base/error.h"

namespace mptune::testing {

/// The Error that `action` throws. Checks that it is one line with what, where and remedy; fails the test if `action` does not throw.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_FALSE(what.empty() || error.where().empty() || error.remedy().empty()) << what;
    EXPECT_EQ((what + error.where() + error.remedy()).find('\n'), std::string::npos) << what;
    return error;
  }
  ADD_FAILURE() << "no error";
  return {"", "", "", ExitCode::done};
}

/// "where: what" of the usage Error that `action` throws.
inline std::string refusal_of(const std::function<void()>& action) {
  const Error error = error_of(action);
  EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
  return error.where() + ": " + error.what();
}

}  // namespace mptune::testing
