#include "tuner/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "planner/plan_file.h"
#include "profiler/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/tuner_fakes.h"
#include "tuner/study/study_files.h"

namespace mptune::tuner {
namespace {

namespace fs = std::filesystem;
using Open = Study::Open;
using testing::error_of;

Error error_of(const std::string& folder, Open mode, bool force = false) {
  return error_of([&] { Study study(folder, mode, force); });
}

Trial trial_with(const Outcome& outcome, int series = 0) {
  Trial trial;
  trial.series = series;
  trial.name = "candidate";
  trial.plan = testing::fake_plan(3, 4);
  trial.plan_key = plan_key(trial.plan);
  trial.outcome = outcome;
  return trial;
}

Samples some_samples() {
  Samples samples;
  samples.values = {{1.0 / 3, 0, 1, 0.25}, {0.1 + 0.2, 1, 0, 1e6}, {5e-9, 2, 1, 2}};
  return samples;
}

void expect_equal(const Trial& a, const Trial& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.series, b.series);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.plan_key, b.plan_key);
  EXPECT_EQ(a.plan, b.plan);
  EXPECT_EQ(a.prediction, b.prediction);
  EXPECT_EQ(a.outcome, b.outcome) << outcome_class(a.outcome);
}

// Runs `action` in a child; its exit code, or -signal.
int in_child(const std::function<int()>& action) {
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

TEST(Study, EveryTrialComesBackExactly) {
  const testing::TemporaryFolder folder;
  const std::vector<Outcome> outcomes{
      Measured{some_samples(), {1L << 40, 2}, 0.1 + 0.2, {3, 4, Disturbance{DisturbedBy::other_machines, 0.25}}},
      OutOfMemory{"cpu:1", 1L << 41, 4},
      TimedOut{1.0 / 3},
      Crashed{11, 3},
      WrongResult{"loss 'differs'"},
      NonFinite{},
      Infeasible{"no"},
      Interrupted{},
      Environment{"disk"}};
  ASSERT_EQ(outcomes.size(), std::variant_size_v<Outcome>);
  std::vector<Trial> added;
  {
    Study study(folder / "s", Open::create);
    for (const Outcome& outcome : outcomes) {
      Trial trial = trial_with(outcome, static_cast<int>(added.size()) / 2);
      if (added.size() % 2 == 0) trial.prediction = Prediction{1.0 / 3, 0.1, {1L << 42, 7}, {0.5, 1e-9}, 1, true};
      EXPECT_EQ(study.next_series(), added.empty() ? 0 : added.back().series + 1);
      EXPECT_EQ(study.add(trial), trial.id);
      if (!added.empty()) {
        EXPECT_GT(trial.id, added.back().id);
      }
      added.push_back(trial);
    }
  }
  for (const Open mode : {Open::resume, Open::read}) {
    const auto trials = Study(folder / "s", mode).trials();
    ASSERT_EQ(trials.size(), added.size());
    for (std::size_t i = 0; i < added.size(); ++i) expect_equal(trials[i], added[i]);
  }
}

TEST(Study, NonFiniteNumbersDoNotLoseATrial) {
  const testing::TemporaryFolder folder;
  Study study(folder / "s", Open::create);
  Trial trial = trial_with(Measured{some_samples(), {}, std::numeric_limits<double>::quiet_NaN()});
  study.add(trial);
  EXPECT_TRUE(std::isnan(std::get<Measured>(study.trials().at(0).outcome).loss));
}

TEST(Study, StateOfATuningIsKept) {
  const testing::TemporaryFolder folder;
  StudySummary summary{
      .devices = {"cpu:0", "cpu:1"},
      .whole_machine = {"cpu:0-1"},
      .batch = 32,
      .lower_bound_s = 1.0 / 3,
      .gap = 0.25,
      .elapsed_s = 1e-300,
      .stop_reason = "the \"budget\" is spent",
      .training = {"toy:layers=6", "8x3", "8", "cpu:0,cpu:1", "1GiB", "1GB/s", "all-reduce", "mse", "adam", "0.1", "bf16", "3",
                   "/a b/batch.pt"},
      .kinds = {.whole_machine = {"cpu:0-1"},
                .predicted = {{planner::Parallelism::pipeline, {"of 2 stages", 0.1, {1L << 40, 2}}}},
                .no_plan = {{planner::Parallelism::hybrid, {.why = NoPlan::Why::needs_devices, .needed = 3, .available = 2}},
                            {planner::Parallelism::one_device,
                             {.why = NoPlan::Why::over_cap, .device = "cpu:0", .needed_bytes = 1L << 40, .cap_bytes = 3}}},
                .other_devices = {{4, planner::Parallelism::pipeline, 0.05}}},
      .stages_per_device = {3, 8, StagesPerDevice::End::slower},
      .baselines = {{"single_device", "0123456789ab", "one device", 0.5}, {"current", "ba9876543210", "a pipeline", 0}}};
  {
    Study study(folder / "s", Open::create);
    EXPECT_FALSE(study.checked());
    EXPECT_EQ(study.final_series(), std::nullopt);
    EXPECT_EQ(study.not_benchmarked(), "");
    EXPECT_EQ(study.summary(), std::nullopt);
    study.set_checked();
    Trial trial = trial_with(NonFinite{}, 12);
    study.add(trial);
    study.set_final_series(0);
    EXPECT_EQ(error_of([&] { (void)study.final_series(); }).code(), ExitCode::usage) << "no trial has it";
    study.set_final_series(12);
    study.set_not_benchmarked("one device");
    study.set_summary(summary);
  }
  const Study study(folder / "s", Open::read);
  EXPECT_TRUE(study.checked());
  EXPECT_EQ(study.final_series(), 12);
  EXPECT_EQ(study.not_benchmarked(), "one device");
  EXPECT_EQ(study.summary(), summary);
}

TEST(Study, SummariesOfEarlierVersionsHoldWordsAlone) {
  const std::string text = R"({"devices": ["cpu:0"], "whole_machine": [], "batch": 1, "lower_bound_s": 0, "gap": 0, "elapsed_s": 0,
    "stop_reason": "", "kinds": {"no_plan": {"hybrid": "needs at least 3 devices; 2 available",
    "pipeline": "does not fit: no plan of this kind was found within the caps"}}})";
  const std::map<planner::Parallelism, NoPlan> no_plan = summary_from_json(text, "s.study").kinds.no_plan;
  EXPECT_EQ(text_of(no_plan.at(planner::Parallelism::hybrid)), "needs at least 3 devices; 2 available");
  EXPECT_FALSE(too_large(no_plan.at(planner::Parallelism::hybrid)));
  EXPECT_EQ(text_of(no_plan.at(planner::Parallelism::pipeline)), "does not fit: no plan of this kind was found within the caps");
  EXPECT_TRUE(too_large(no_plan.at(planner::Parallelism::pipeline)));
  EXPECT_TRUE(summary_from_json(text, "s.study").baselines.empty());
}

TEST(Study, DamagedSummaryIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"devices": 3})"})
    EXPECT_THAT(error_of([&] { (void)summary_from_json(text, "s.study"); }).what(), ::testing::HasSubstr("damaged")) << text;
}

TEST(Study, ValuesAndNames) {
  const testing::TemporaryFolder folder;
  Study study((folder / "s") + "/", Open::create);
  EXPECT_EQ(study.stop_reason(), "");
  study.set_stop_reason("1");
  study.set_stop_reason("2");
  EXPECT_EQ(study.stop_reason(), "2");
  EXPECT_EQ(study.folder(), folder / "s");
  EXPECT_EQ(study.profile_path(), (folder / "s") + "/traces/profile.sqlite");
  EXPECT_EQ(study.trace_path("recommended"), (folder / "s") + "/traces/recommended.sqlite");
  EXPECT_EQ(study.plan_path(), (folder / "s") + "/s.plan.json");
  study.set_identity(R"({"setup": {"model": "transformer:d=256,layers=8"}})");
  EXPECT_EQ(study.plan_path(), (folder / "s") + "/transformer.plan.json");
}

TEST(Study, ResumeNamesWhatDiffers) {
  const testing::TemporaryFolder folder;
  Study(folder / "s", Open::create).set_identity(R"({"model": "mlp", "batch": 32, "fingerprint": {"a": 1}})");
  Study study(folder / "s", Open::resume);
  study.set_identity(R"({"batch":32,"fingerprint":{"a":1},"model":"mlp"})");
  const Error error = error_of([&] { study.set_identity(R"({"model": "mlp", "batch": 64, "fingerprint": {"a": 2}})"); });
  EXPECT_EQ(error.code(), ExitCode::usage);
  EXPECT_STREQ(error.what(), "the study was made with another batch, fingerprint");
  EXPECT_EQ(error_of([&] { study.set_identity(R"({"model": "mlp", "batch": 32})"); }).code(), ExitCode::usage);
}

TEST(Study, ExistingAndForeignFoldersAreRefused) {
  const testing::TemporaryFolder folder;
  { Study study(folder / "s", Open::create); }
  EXPECT_TRUE(Study::is_study(folder / "s"));
  const Error exists = error_of(folder / "s", Open::create);
  EXPECT_EQ(exists.code(), ExitCode::usage);
  EXPECT_NE(exists.remedy().find("--resume"), std::string::npos);

  fs::create_directories(folder / "foreign");
  std::ofstream(folder / "foreign/thesis.tex") << "years of work";
  for (const bool force : {false, true}) EXPECT_EQ(error_of(folder / "foreign", Open::create, force).code(), ExitCode::usage);
  for (const Open mode : {Open::resume, Open::read}) {
    EXPECT_EQ(error_of(folder / "foreign", mode).code(), ExitCode::usage);
    EXPECT_EQ(error_of(folder / "nowhere", mode).code(), ExitCode::usage);
  }
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
  EXPECT_TRUE(fs::exists(folder / "foreign/thesis.tex"));
  EXPECT_FALSE(fs::exists(folder / "foreign/study.lock"));
  EXPECT_EQ(error_of(folder / "foreign/thesis.tex", Open::create).code(), ExitCode::usage);
}

TEST(Study, ForceReplacesAStudyAndNothingElse) {
  const testing::TemporaryFolder folder;
  {
    Study study(folder / "s", Open::create);
    Trial trial = trial_with(NonFinite{});
    study.add(trial);
    std::ofstream(study.trace_path("recommended")) << "old";
    std::ofstream(study.plan_path()) << "old";
    std::ofstream(study.failed_plan_path("0123456789ab")) << "old";
    study.set_command("{}");
    std::ofstream(folder / "s/notes.txt") << "mine";
  }
  EXPECT_EQ(Study(folder / "s", Open::read).command(), "{}");
  EXPECT_TRUE(fs::exists(folder / "s/failed/0123456789ab.plan.json"));
  Study study(folder / "s", Open::create, true);
  EXPECT_TRUE(study.trials().empty());
  EXPECT_FALSE(fs::exists(study.trace_path("recommended")));
  EXPECT_FALSE(fs::exists(study.plan_path()));
  EXPECT_TRUE(fs::is_empty(folder / "s/failed"));
  EXPECT_EQ(study.command(), "");
  EXPECT_TRUE(fs::exists(folder / "s/notes.txt"));
}

TEST(Study, ResumingACutOffCreationBeginsAnew) {
  const testing::TemporaryFolder folder;
  const std::vector<std::vector<std::string>> remains{{},
                                                      {"study.lock"},
                                                      {"study.lock", "study.sqlite"},
                                                      {"study.sqlite", "study.sqlite-journal"},
                                                      {"study.sqlite-wal", "study.sqlite-shm"}};
  for (std::size_t i = 0; i < remains.size(); ++i) {
    const std::string path = folder / std::to_string(i);
    fs::create_directories(path);
    for (const std::string& name : remains[i]) std::ofstream(path + "/" + name) << (name == "study.sqlite-wal" ? "log" : "");
    Study study(path, Open::resume);
    EXPECT_EQ(study.identity(), "");
    EXPECT_TRUE(study.trials().empty()) << i;
    EXPECT_TRUE(Study::is_study(path));
  }
  fs::create_directories(folder / "plans");
  std::ofstream(folder / "plans/mine.plan.json") << "{}";
  EXPECT_EQ(error_of(folder / "plans", Open::resume).code(), ExitCode::usage);
  EXPECT_TRUE(fs::exists(folder / "plans/mine.plan.json"));
}

TEST(Study, CutOffCreationIsBegunAnew) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "s/traces");
  std::ofstream(folder / "s/study.sqlite");
  std::ofstream(folder / "s/study.lock");
  Study study(folder / "s", Open::create);
  EXPECT_TRUE(study.trials().empty());
}

TEST(Study, BusyStudyIsRefusedButReadable) {
  const testing::TemporaryFolder folder;
  Study study(folder / "s", Open::create);
  Trial trial = trial_with(NonFinite{});
  study.add(trial);
  const int code = in_child([&] {
    if (error_of(folder / "s", Open::resume).code() != ExitCode::usage) return 1;
    if (error_of(folder / "s", Open::create, true).code() != ExitCode::usage) return 2;
    return Study(folder / "s", Open::read).trials().size() == 1 ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(study.trials().size(), 1u);
}

TEST(Study, NewerVersionAndDamageAreRefused) {
  const testing::TemporaryFolder folder;
  { Study study(folder / "s", Open::create); }
  const std::string path = folder / "s/study.sqlite";
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA journal_mode = DELETE; PRAGMA user_version = 2;", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  for (const Open mode : {Open::resume, Open::read}) {
    const Error error = error_of(folder / "s", mode);
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("newer"), std::string::npos);
  }
  { Study study(folder / "t", Open::create); }
  fs::resize_file(folder / "t/study.sqlite", 4096 + 100);
  EXPECT_EQ(error_of([&] { static_cast<void>(Study(folder / "t", Open::read).trials()); }).code(), ExitCode::usage);
}

TEST(Study, KillLosesNothingAcknowledgedAndFreesTheLock) {
  const testing::TemporaryFolder folder;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::string path = folder / std::to_string(attempt);
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Study study(path, Open::create);
      while (true) {
        Trial trial = trial_with(Measured{some_samples(), {1, 2}, 1});
        study.add(trial);
        if (::write(pipe[1], &trial.id, sizeof trial.id) != sizeof trial.id) ::_exit(1);
      }
    }
    int acknowledged = 0;
    for (int i = 0; i < 20 + 13 * attempt; ++i) ASSERT_EQ(::read(pipe[0], &acknowledged, sizeof acknowledged), 4);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(pipe[1]);
    int more = 0;
    while (::read(pipe[0], &more, sizeof more) == 4) acknowledged = more;
    ::close(pipe[0]);
    Study study(path, Open::resume);
    const auto trials = study.trials();
    ASSERT_GE(static_cast<int>(trials.size()), acknowledged);
    for (const Trial& trial : trials) EXPECT_EQ(trial.outcome, Outcome(Measured{some_samples(), {1, 2}, 1}));
  }
}

TEST(Study, ReadOnlyFolderIsAUsageError) {
  const testing::TemporaryFolder folder;
  { Study study(folder / "s", Open::create); }
  const auto read_only = fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read | fs::perms::group_exec |
                         fs::perms::others_read | fs::perms::others_exec;
  for (const char* name : {"", "/s", "/s/traces"}) fs::permissions(folder.path() + name, read_only);
  const int code = in_child([&] {
    // Root may write anywhere.
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;
    if (error_of(folder / "new", Open::create).code() != ExitCode::usage) return 2;
    if (error_of(folder / "s", Open::resume).code() != ExitCode::usage) return 3;
    return Study(folder / "s", Open::read).trials().empty() ? 0 : 4;
  });
  EXPECT_EQ(code, 0);
  for (const char* name : {"", "/s", "/s/traces"}) fs::permissions(folder.path() + name, fs::perms::owner_all);
}

TEST(Study, FullDiskIsAnEnvironmentErrorAndKeepsWhatWasThere) {
  const testing::TemporaryFolder folder;
  const int code = in_child([&] {
    Study study(folder / "s", Open::create);
    Trial first = trial_with(NonFinite{});
    study.add(first);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Measured large;
    for (int i = 0; i < 20000; ++i) large.step_s.values.push_back({0.1 * i, i, 0, 0.0});
    const Error error = error_of([&] {
      Trial trial = trial_with(large);
      study.add(trial);
    });
    return error.code() == ExitCode::environment ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  const auto trials = Study(folder / "s", Open::resume).trials();
  ASSERT_EQ(trials.size(), 1u);
  EXPECT_EQ(trials[0].outcome, Outcome(NonFinite{}));
}

TEST(Study, NetworkFileSystemsAreKnown) {
  for (const long type : {0x6969L, 0x517BL, 0xFF534D42L, 0x0BD00BD0L, static_cast<long>(static_cast<int>(0xFF534D42))})
    EXPECT_TRUE(is_network_file_system(type)) << type;
  for (const long type : {0xEF53L, 0x01021994L, 0x58465342L, 0x9123683EL, 0x794C7630L}) EXPECT_FALSE(is_network_file_system(type)) << type;
  EXPECT_FALSE(on_network_file_system("/proc"));
}

}  // namespace
}  // namespace mptune::tuner
