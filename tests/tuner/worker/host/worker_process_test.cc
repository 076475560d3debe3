#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/temporary_folder.h"
#include "tests/support/error_of.h"
#include "tests/support/tuner_fakes.h"
#include "tests/tuner/worker/host/worker_fixture.h"
#include "tuner/trial/plan_failed.h"
#include "tuner/worker/host/interrupt.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::tuner {
namespace {

const char* const kActing = MPTUNE_BINARY_DIR "/bin/acting_worker";

using testing::error_of;

bool alive(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(status, text);
  return !text.empty() && text.find(") Z") == std::string::npos && text.find(") X") == std::string::npos;
}

bool gone_soon(pid_t pid) {
  for (int i = 0; i < 200 && alive(pid); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return !alive(pid);
}

TEST_F(Worker, SaysHelloAnswersAndIsDone) {
  behave("progress");
  WorkerProcess worker(kFake, request_);
  EXPECT_EQ(std::get<Hello>(reply(worker)).libtorch, "fake");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(std::get<Progress>(reply(worker)).fraction, i / 4.0);
  EXPECT_TRUE(std::holds_alternative<Done>(reply(worker)));
}

TEST_F(Worker, GetsNoDescriptorAndNoPinningOfOurs) {
  behave("environment");
  ::setenv("OMP_PROC_BIND", "true", 1);
  ::setenv("OMP_NUM_THREADS", "7", 1);
  ::setenv("MPTUNE_KEEP", "kept", 1);
  std::ofstream open_file("/tmp/mptune_test_open_file");
  const int leaky = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  WorkerProcess worker(kFake, request_);
  reply(worker);
  EXPECT_EQ(std::get<Progress>(reply(worker)).what, "");
  const std::string descriptors = std::get<Progress>(reply(worker)).what;
  EXPECT_EQ(descriptors.find("/dev/zero"), std::string::npos) << descriptors;
  EXPECT_NE(descriptors.find("/dev/null"), std::string::npos) << descriptors;
  EXPECT_EQ(std::get<Progress>(reply(worker)).what, "kept");
  ::close(leaky);
  ::unlink("/tmp/mptune_test_open_file");
}

TEST_F(Worker, CrashAndExitCodeAreReported) {
  behave("segv");
  WorkerProcess crashed(kFake, request_);
  EXPECT_EQ(end(crashed).signal, SIGSEGV);
  behave("exit");
  WorkerProcess exited(kFake, request_);
  const WorkerEnd how = end(exited);
  EXPECT_EQ(how.exit_code, 3);
  EXPECT_EQ(how.signal, 0);
  EXPECT_FALSE(how.timed_out || how.interrupted);
}

TEST_F(Worker, HangIsEndedByTheTimeOut) {
  behave("hang");
  WorkerProcess worker(kFake, request_);
  reply(worker);
  const pid_t pid = pid_from(reply(worker));
  const WorkerEnd how = end(worker, 0.3);
  EXPECT_TRUE(how.timed_out);
  EXPECT_FALSE(alive(pid));
}

// The acting worker publishes what it does.
TEST_F(Worker, AnEndlessLayerIsToldThenEnded) {
  behave("endless");
  WorkerProcess worker(kActing, request_);
  const WorkerEnd how = end(worker);
  EXPECT_TRUE(how.timed_out);
  EXPECT_EQ(how.silence.silence, Silence::endless_activity);
  EXPECT_EQ(how.silence.doing, "the forward of layer 'spin'");
}

TEST_F(Worker, ACrashOrAnExitNamesWhatItsThreadDid) {
  for (const std::string mode : {"segv-in-thread", "exit-in-thread", "abort-in-thread"}) {
    behave(mode);
    WorkerProcess worker(kActing, request_);
    const WorkerEnd how = end(worker);
    EXPECT_FALSE(how.timed_out) << mode;
    EXPECT_EQ(how.doing, "the backward of layer 'bad'") << mode;
    EXPECT_EQ(how.exit_code, mode == "exit-in-thread" ? 3 : 0);
  }
}

TEST_F(Worker, AStoppedWorkerIsNoticed) {
  behave("stop");
  WorkerProcess worker(kActing, request_);
  const auto start = Clock::now();
  const WorkerEnd how = end(worker, 60);
  EXPECT_EQ(how.silence.silence, Silence::stopped);
  EXPECT_LT(seconds_since(start), 30);
}

TEST_F(Worker, OneWhoseTimeIsOverIsOutOfTimeNotStuck) {
  for (const char* mode : {"hang", "unfinished"}) {
    behave(mode);
    WaitOptions wait;
    wait.limits.ends_s = monotonic_seconds() + 0.3;
    const testing::TemporaryFolder folder;
    EXPECT_THROW(call_worker(MeasureRequest{{}, folder / "profile.sqlite"}, wait, [](const Reply&) {}), OutOfTime) << mode;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << mode << ": what it wrote is not whole";
  }
}

TEST_F(Worker, GarbageIsAnInternalError) {
  behave("garbage");
  WorkerProcess worker(kFake, request_);
  reply(worker);
  EXPECT_EQ(error_of([&] { reply(worker); }).code(), ExitCode::internal);
}

TEST_F(Worker, OtherProtocolIsRefused) {
  behave("protocol");
  WorkerProcess worker(kFake, request_);
  const Error error = error_of([&] { reply(worker); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_NE(error.problem().find("99"), std::string::npos);
}

TEST_F(Worker, OneThatCanNotStartNamesTheRemedy) {
  for (const std::string mode : {"loader", "crash-at-once"}) {
    behave(mode);
    WorkerProcess worker(kFake, request_);
    const Error error = error_of([&] { static_cast<void>(worker.next(20, interrupt_flag())); });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_NE(error.problem().find("could not start"), std::string::npos);
    EXPECT_EQ(error.remedy().find("MPTUNE_TORCH_ROOT") != std::string::npos, mode == "loader");
    EXPECT_EQ(error.where(), kFake);
  }
}

TEST_F(Worker, ProgramThatCannotRunIsAnEnvironmentError) {
  EXPECT_EQ(error_of([&] { WorkerProcess worker("/no/such/worker", request_); }).code(), ExitCode::environment);
  const testing::TemporaryFolder folder;
  const std::string path = folder / "worker";
  std::ofstream(path) << "no program\n";
  EXPECT_EQ(error_of([&] { WorkerProcess worker(path, request_); }).code(), ExitCode::environment);
  ::setenv("MPTUNE_WORKER", path.c_str(), 1);
  EXPECT_EQ(error_of([] { static_cast<void>(find_worker()); }).code(), ExitCode::environment);
  ::setenv("MPTUNE_WORKER", kFake, 1);
  EXPECT_EQ(find_worker(), kFake);
  ::unsetenv("MPTUNE_WORKER");
  // A build with LibTorch puts a worker beside this program.
  const std::string beside = MPTUNE_BINARY_DIR "/bin/mptune-worker";
  if (std::filesystem::exists(beside)) {
    EXPECT_TRUE(std::filesystem::equivalent(find_worker(), beside));
  } else {
    EXPECT_EQ(error_of([] { static_cast<void>(find_worker()); }).code(), ExitCode::environment);
  }
}

TEST_F(Worker, FloodOfWordsDoesNotBlockAndKeepsTheLast) {
  behave("words");
  WorkerProcess worker(kFake, request_);
  const WorkerEnd how = end(worker);
  EXPECT_EQ(how.exit_code, 3);
  EXPECT_LE(how.last_words.size(), 5000u);
  EXPECT_NE(how.last_words.find("the last words"), std::string::npos);
}

TEST_F(Worker, LargeRequestsNeitherBlockNorKillUs) {
  MeasureRequest large;
  large.path = std::string(3 << 20, 'x');
  behave("ok");
  WorkerProcess reads(kFake, large);
  reply(reads);
  EXPECT_TRUE(std::holds_alternative<Done>(reply(reads)));
  behave("deaf");
  WorkerProcess deaf(kFake, large);
  reply(deaf);
  EXPECT_TRUE(std::holds_alternative<Done>(reply(deaf)));
}

TEST_F(Worker, InterruptLeavesNoProcess) {
  behave("child");
  WorkerProcess worker(kFake, request_);
  reply(worker);
  const pid_t grandchild = pid_from(reply(worker));
  ASSERT_TRUE(alive(grandchild));
  Clock::time_point set;
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    set = Clock::now();
    interrupt_flag() = SIGINT;
  });
  const WorkerEnd how = end(worker);
  user.join();
  EXPECT_TRUE(how.interrupted);
  EXPECT_LT(seconds_since(set), 1);
  EXPECT_TRUE(gone_soon(grandchild));
}

TEST_F(Worker, AKilledWorkerLeavesNoPartOfItsOutput) {
  const TemporaryFolder folder;
  behave("unfinished");
  RecordRequest request;
  request.path = folder.file("trace.sqlite");
  {
    WorkerProcess worker(kFake, request);
    (void)reply(worker);
    (void)reply(worker);
    ASSERT_FALSE(std::filesystem::is_empty(folder.file("")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("")));
}

TEST_F(Worker, DestructorLeavesNoProcess) {
  behave("hang");
  pid_t pid = 0;
  {
    WorkerProcess worker(kFake, request_);
    reply(worker);
    pid = pid_from(reply(worker));
  }
  EXPECT_FALSE(alive(pid));
}

TEST_F(Worker, DiesWithAKilledParent) {
  behave("hang");
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    try {
      WorkerProcess worker(kFake, request_);
      reply(worker);
      const pid_t pid = pid_from(reply(worker));
      if (::write(pipe[1], &pid, sizeof pid) == sizeof pid) ::pause();
    } catch (const std::exception&) {
    }
    ::_exit(1);
  }
  // The child's end is then the only one, so a child that fails ends the wait.
  ::close(pipe[1]);
  pid_t pid = 0;
  ASSERT_EQ(::read(pipe[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  EXPECT_TRUE(alive(pid));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(gone_soon(pid));
  ::close(pipe[0]);
}

TEST_F(Worker, HandlersSetTheFlagAndASecondSignalEnds) {
  const pid_t child = ::fork();
  if (child == 0) {
    install_interrupt_handlers();
    ::raise(SIGTERM);
    if (interrupt_flag() != SIGTERM) ::_exit(1);
    ::raise(SIGINT);
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
}

TEST_F(Worker, CallWorkerTurnsEveryEndIntoAnError) {
  int seen = 0;
  const auto call = [&](double quiet_s) { call_worker(request_, {.limits = {.quiet_s = quiet_s}}, [&](const Reply&) { ++seen; }); };
  behave("progress");
  call(20);
  EXPECT_EQ(seen, 5);
  behave("failed");
  const Error failed = error_of([&] { call(20); });
  EXPECT_EQ(failed.problem() + failed.where(), "no such modelnonsense");
  EXPECT_EQ(failed.code(), ExitCode::usage);
  behave("segv");
  EXPECT_EQ(error_of([&] { call(20); }).code(), ExitCode::internal);
  behave("close");
  EXPECT_EQ(error_of([&] { call(20); }).problem(), "mptune-worker closed its pipe and went on");
  behave("hang");
  EXPECT_EQ(error_of([&] { call(1); }).code(), ExitCode::environment);
  interrupt_flag() = SIGTERM;
  EXPECT_EQ(error_of([&] { call(20); }).code(), ExitCode::terminated);
  interrupt_flag() = SIGINT;
  EXPECT_EQ(error_of([&] { call(20); }).code(), ExitCode::interrupted);
}

TEST_F(Worker, FailureOfThePlanArrivesTyped) {
  const Error error("out of memory", "cpu:1", "use less", ExitCode::infeasible);
  const OutOfMemory memory{"cpu:1", 5, 4};
  try {
    throw_failed({error.problem(), error.where(), error.remedy(), static_cast<int>(error.code()), memory});
    ADD_FAILURE();
  } catch (const PlanFailed& failed) {
    EXPECT_EQ(failed.outcome(), Outcome(memory));
    EXPECT_EQ(failed.where() + failed.remedy(), "cpu:1use less");
    EXPECT_EQ(failed.code(), ExitCode::infeasible);
  }
  EXPECT_EQ(error_of([] { throw_failed({"no such model", "nonsense", "see mptune models", 2, std::nullopt}); }).code(), ExitCode::usage);
}

}  // namespace
}  // namespace mptune::tuner
