#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/support/error_of.h"
#include "tests/support/tuner_fakes.h"
#include "tuner/live/live_runner.h"
#include "tuner/live/worker_process.h"
#include "tuner/trial/plan_failed.h"

namespace mptune::tuner {
namespace {

const char* const kFake = MPTUNE_SOURCE_DIR "/tests/support/tuner_fake_worker.py";

const char* const kActing = MPTUNE_BINARY_DIR "/bin/acting_worker";

using testing::error_of;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

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
  EXPECT_NE(std::string(error.what()).find("99"), std::string::npos);
}

TEST_F(Worker, OneThatCanNotStartNamesTheRemedy) {
  for (const std::string mode : {"loader", "crash-at-once"}) {
    behave(mode);
    WorkerProcess worker(kFake, request_);
    const Error error = error_of([&] { static_cast<void>(worker.next(20, interrupt_flag())); });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_NE(std::string(error.what()).find("could not start"), std::string::npos);
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
  EXPECT_EQ(std::string(failed.what()) + failed.where(), "no such modelnonsense");
  EXPECT_EQ(failed.code(), ExitCode::usage);
  behave("segv");
  EXPECT_EQ(error_of([&] { call(20); }).code(), ExitCode::internal);
  behave("hang");
  EXPECT_EQ(error_of([&] { call(1); }).code(), ExitCode::environment);
  interrupt_flag() = SIGTERM;
  EXPECT_EQ(error_of([&] { call(20); }).code(), ExitCode::terminated);
  interrupt_flag() = SIGINT;
  EXPECT_EQ(error_of([&] { call(20); }).code(), ExitCode::interrupted);
}

// ---- a series across workers ----

Series series_of(const std::vector<std::string>& names, int rounds) {
  Series series;
  Prediction prediction;
  prediction.step_s = 1;
  int cut = 1;
  for (const std::string& name : names) series.entries.push_back({name, testing::fake_plan(cut++, 4), prediction});
  series.rounds = rounds;
  series.step_limit_s = 20;
  return series;
}

int count_samples(const Trial& trial) {
  return static_cast<int>(std::get<Measured>(trial.outcome).step_s.size());
}

TEST_F(Worker, SeriesBringsATrialPerEntry) {
  int steps = 0;
  LiveRunner runner({}, [&](const Series&, const StepTimed&) { ++steps; });
  const auto trials = runner.run(series_of({"ok", "oom", "fine"}, 5));
  ASSERT_EQ(trials.size(), 3u);
  EXPECT_EQ(trials[0].name, "ok");
  EXPECT_EQ(trials[0].prediction->step_s, 1);
  EXPECT_EQ(trials[0].plan, testing::fake_plan(1, 4));
  EXPECT_EQ(trials[0].plan_key.size(), 12u);
  EXPECT_EQ(count_samples(trials[0]), 5);
  EXPECT_EQ(std::get<Measured>(trials[2].outcome).peak_bytes, (std::vector<std::int64_t>{7, 8}));
  EXPECT_EQ(outcome_class(trials[1].outcome), "out_of_memory");
  EXPECT_EQ(steps, 10);
}

TEST_F(Worker, CrashedEntryIsBlamedAndTheOthersGoOn) {
  for (const std::string name : {"segv@0", "exit@1", "segv@2", "exit@5"}) {
    for (std::size_t place = 0; place < 3; ++place) {
      std::vector<std::string> names{"a", "b"};
      names.insert(names.begin() + static_cast<std::ptrdiff_t>(place), name);
      LiveRunner runner({}, {});
      const auto trials = runner.run(series_of(names, 6));
      for (std::size_t i = 0; i < 3; ++i) {
        if (i == place) {
          ASSERT_EQ(outcome_class(trials[i].outcome), "crashed") << name << " at " << place;
          continue;
        }
        ASSERT_EQ(outcome_class(trials[i].outcome), "measured") << name << " at " << place;
        const Samples& samples = std::get<Measured>(trials[i].outcome).step_s;
        ASSERT_EQ(samples.size(), 6u) << name << " at " << place;
        for (int r = 0; r < 6; ++r) EXPECT_EQ(samples.values[as_index(r)].round, r);
        for (std::size_t r = 1; r < 6; ++r) EXPECT_GT(samples.values[r].started, samples.values[r - 1].started);
      }
    }
  }
}

TEST_F(Worker, CulpritOfAWarmUpStepIsKnown) {
  for (std::size_t place = 0; place < 3; ++place) {
    std::vector<std::string> names{"a", "b"};
    names.insert(names.begin() + static_cast<std::ptrdiff_t>(place), "exit@w");
    LiveRunner runner({}, {});
    const auto trials = runner.run(series_of(names, 2));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(outcome_class(trials[i].outcome), i == place ? "crashed" : "measured") << place;
    EXPECT_EQ(std::get<Crashed>(trials[place].outcome).exit_code, 3);
  }
}

TEST_F(Worker, HangingEntryTimesOutAndTheOthersGoOn) {
  Series series = series_of({"ok", "hang@1"}, 3);
  series.step_limit_s = 0.2;
  LiveRunner runner({}, {});
  const auto trials = runner.run(series);
  EXPECT_EQ(trials[1].outcome, Outcome(TimedOut{0.2}));
  EXPECT_EQ(count_samples(trials[0]), 3);
}

TEST_F(Worker, AtTheEndOfTheTimeAHangEndsTheSeriesAndMeasuredStepsStay) {
  const auto start = Clock::now();
  WaitOptions wait;
  wait.limits.ends_s = monotonic_seconds() + 0.5;
  LiveRunner runner({}, {}, wait);
  const auto trials = runner.run(series_of({"ok", "hang@2", "late"}, 1000));
  EXPECT_LT(seconds_since(start), 0.5 + kPatienceAtEnd + 5) << "the limit of a step is 20 s";
  EXPECT_EQ(outcome_class(trials[1].outcome), "timed_out");
  EXPECT_GE(count_samples(trials[0]), 2);
  EXPECT_GE(count_samples(trials[2]), 2);
}

TEST_F(Worker, WorkerThatDiesBeforeTheFirstStepEndsTheSeries) {
  behave("segv");
  LiveRunner runner({}, {});
  for (const Trial& trial : runner.run(series_of({"a", "b"}, 3))) EXPECT_EQ(trial.outcome, Outcome(Crashed{SIGSEGV, 0}));
}

TEST_F(Worker, FailureOfThePlanArrivesTyped) {
  const Error error("out of memory", "cpu:1", "use less", ExitCode::infeasible);
  const OutOfMemory memory{"cpu:1", 5, 4};
  try {
    throw_failed({error.what(), error.where(), error.remedy(), static_cast<int>(error.code()), memory});
    ADD_FAILURE();
  } catch (const PlanFailed& failed) {
    EXPECT_EQ(failed.outcome(), Outcome(memory));
    EXPECT_EQ(failed.where() + failed.remedy(), "cpu:1use less");
    EXPECT_EQ(failed.code(), ExitCode::infeasible);
  }
  EXPECT_EQ(error_of([] { throw_failed({"no such model", "nonsense", "see mptune models", 2, std::nullopt}); }).code(), ExitCode::usage);
}

TEST_F(Worker, InterruptedSeriesReturnsWhatItHas) {
  // Interrupted in the first round; the second never ends.
  LiveRunner runner({}, [](const Series&, const StepTimed&) { interrupt_flag() = SIGINT; });
  const auto trials = runner.run(series_of({"oom", "hang@1"}, 3));
  EXPECT_EQ(outcome_class(trials[0].outcome), "out_of_memory");
  EXPECT_EQ(outcome_class(trials[1].outcome), "interrupted");
}

TEST_F(Worker, BrokenMachineEndsTheSeriesWithAnError) {
  behave("loader");
  LiveRunner runner({}, {});
  EXPECT_EQ(error_of([&] { static_cast<void>(runner.run(series_of({"ok"}, 1))); }).code(), ExitCode::environment);
  behave("failed");
  EXPECT_EQ(error_of([&] { static_cast<void>(runner.run(series_of({"ok"}, 1))); }).code(), ExitCode::usage);
  behave("deaf");
  EXPECT_EQ(error_of([&] { static_cast<void>(runner.run(series_of({"ok"}, 1))); }).code(), ExitCode::internal);
}

}  // namespace
}  // namespace mptune::tuner
