// Where a study is made, gone on with, replaced or refused.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/tuner/study/store/studies.h"
#include "tuner/study/store/study_files.h"

namespace mptune::tuner {
namespace {

namespace fs = std::filesystem;

/// A study with a trial of this outcome, and with a profile.
void make_study(const std::string& folder, const std::optional<Outcome>& outcome, bool profile, bool failed) {
  Study study(folder, Open::create);
  if (profile) std::ofstream(study.profile_path()) << "profile";
  if (outcome) {
    Trial trial = trial_with(*outcome);
    study.add(trial);
  }
  study.set_failed(failed);
}

TEST(Study, OneInWhichNothingWasMeasuredDoesNotBlockTheNext) {
  const testing::TemporaryFolder folder;
  const std::optional<Outcome> none;
  struct Case {
    const char* name;
    std::optional<Outcome> outcome;
    bool profile, failed, replaced;
  };
  const Case cases[] = {{"begun", none, false, false, true},
                        {"check_failed", none, false, true, true},
                        {"killed_with_profile", none, true, false, false},
                        {"budget_too_small", none, true, true, true},
                        {"nothing_fits", OutOfMemory{}, true, true, true},
                        {"killed_with_trial", NonFinite{}, true, false, false},
                        {"measured", Measured{some_samples(), {}, 0}, true, false, false},
                        {"measured_then_failed", Measured{some_samples(), {}, 0}, true, true, false}};
  for (const Case& one : cases) {
    const std::string path = folder / one.name;
    make_study(path, one.outcome, one.profile, one.failed);
    { const Study resumed(path, Open::resume); }
    if (!one.replaced) {
      EXPECT_EQ(error_of(path, Open::create).code(), ExitCode::usage) << one.name;
      EXPECT_EQ(Study(path, Open::read).trials().empty(), !one.outcome.has_value()) << one.name << ": nothing is lost";
      continue;
    }
    Study::check(path, Open::create);
    EXPECT_EQ(Study(path, Open::read).trials().empty(), !one.outcome.has_value()) << one.name << ": looking changes nothing";
    const Study anew(path, Open::create);
    EXPECT_TRUE(anew.trials().empty()) << one.name;
    EXPECT_FALSE(fs::exists(anew.profile_path())) << one.name;
    EXPECT_EQ(error_of(path, Open::create).code(), ExitCode::usage) << one.name << ": it is in use";
  }
}

TEST(Study, ExistingAndForeignFoldersAreRefused) {
  const testing::TemporaryFolder folder;
  make_study(folder / "s", Measured{some_samples(), {}, 0}, true, false);
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

TEST(Study, AProgramBesideALockIsAStudyThatBegins) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "s");
  std::ofstream(folder / "s/net.pt2") << "program";
  EXPECT_EQ(error_of(folder / "s", Open::create).code(), ExitCode::usage) << "somebody's models";
  std::ofstream(folder / "s/study.lock") << "";
  { const Study study(folder / "s", Open::create); }
  EXPECT_TRUE(fs::exists(folder / "s/net.pt2"));
  { const Study study(folder / "s", Open::create, true); }
  EXPECT_TRUE(fs::exists(folder / "s/net.pt2"));
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
    EXPECT_NE(error.problem().find("newer"), std::string::npos);
  }
  { Study study(folder / "t", Open::create); }
  fs::resize_file(folder / "t/study.sqlite", 4096 + 100);
  EXPECT_EQ(error_of([&] { static_cast<void>(Study(folder / "t", Open::read).trials()); }).code(), ExitCode::usage);
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

TEST(Study, NetworkFileSystemsAreKnown) {
  for (const long type : {0x6969L, 0x517BL, 0xFF534D42L, 0x0BD00BD0L, static_cast<long>(static_cast<int>(0xFF534D42))})
    EXPECT_TRUE(is_network_file_system(type)) << type;
  for (const long type : {0xEF53L, 0x01021994L, 0x58465342L, 0x9123683EL, 0x794C7630L}) EXPECT_FALSE(is_network_file_system(type)) << type;
  EXPECT_FALSE(on_network_file_system("/proc"));
}

}  // namespace
}  // namespace mptune::tuner
