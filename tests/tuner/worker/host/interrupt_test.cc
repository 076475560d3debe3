#include "tuner/worker/host/interrupt.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

namespace mptune::tuner {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Interrupt : public ::testing::Test {
 protected:
  void TearDown() override { interrupt_flag() = 0; }
};

TEST_F(Interrupt, SaysWhoAskedForIt) {
  interrupt_flag() = SIGINT;
  EXPECT_EQ(interrupt_error("a.study", "go on").problem(), "interrupted");
  EXPECT_EQ(interrupt_error("a.study", "go on").code(), ExitCode::interrupted);
  interrupt_flag() = SIGTERM;
  EXPECT_EQ(interrupt_error("a.study", "go on").problem(), "terminated");
  EXPECT_EQ(interrupt_error("a.study", "go on").code(), ExitCode::terminated);
  EXPECT_EQ(interrupt_error("a.study", "go on").remedy(), "go on");
}

TEST_F(Interrupt, TheEndOfTheProcessorTimeHasARemedyOfItsOwn) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_CPU, &before), 0);
  const rlimit limited{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_CPU, &limited), 0);
  EXPECT_EQ(processor_time_limit_s(), 100'000);
  interrupt_flag() = SIGXCPU;
  const Error error = interrupt_error("a.study", "go on");
  EXPECT_THAT(error.problem(), HasSubstr("100000 s"));
  EXPECT_THAT(error.remedy(), StartsWith("raise the limit (ulimit -t); go on"));
  EXPECT_EQ(error.code(), ExitCode::environment);
  ASSERT_EQ(::setrlimit(RLIMIT_CPU, &before), 0);
}

}  // namespace
}  // namespace mptune::tuner
