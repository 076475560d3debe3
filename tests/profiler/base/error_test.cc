#include "profiler/base/error.h"

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace mptune {
namespace {

/// What a program sees that knows no Error.
std::string seen_by_a_stranger(const Error& error) {
  try {
    throw error;
  } catch (const std::exception& any) {
    return any.what();
  }
}

TEST(Error, SaysWhatWhereAndRemedyInOneLine) {
  const Error error("there is no such file", "net.plan.json", "name an existing file", ExitCode::environment);
  EXPECT_STREQ(error.what(), "there is no such file: net.plan.json; name an existing file");
  EXPECT_EQ(seen_by_a_stranger(error), error.what());
  EXPECT_EQ(error.problem(), "there is no such file");
  EXPECT_EQ(error.where(), "net.plan.json");
  EXPECT_EQ(error.remedy(), "name an existing file");
  EXPECT_EQ(error.code(), ExitCode::environment);
}

TEST(Error, LeavesOutPartsThatAreEmpty) {
  EXPECT_STREQ(Error("a", "", "").what(), "a");
  EXPECT_STREQ(Error("a", "b", "").what(), "a: b");
  EXPECT_STREQ(Error("a", "", "c").what(), "a; c");
}

TEST(Error, StaysWholeWhenItIsCopied) {
  Error copy("a", "b", "c");
  {
    const Error error("there is no such file", "net.plan.json", "name an existing file");
    copy = error;
  }
  EXPECT_STREQ(copy.what(), "there is no such file: net.plan.json; name an existing file");
  EXPECT_EQ(copy.problem(), "there is no such file");
}

}  // namespace
}  // namespace mptune
