#include "profiler/base/new_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

namespace fs = std::filesystem;

class NewFileTest : public ::testing::Test {
 protected:
  NewFileTest() {
    std::string name = (fs::temp_directory_path() / "new-file-test-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~NewFileTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }
  static std::string content(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  fs::path folder_;
};

TEST_F(NewFileTest, AppearsWithCommitAndReplacesWhatWasThere) {
  for (const std::string& text : {std::string("old"), std::string("\0new\n", 5)}) {
    NewFile file(path("a"));
    file << text;
    EXPECT_NE(content(path("a")), text);
    file.commit();
    EXPECT_EQ(content(path("a")), text);
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(NewFileTest, WhatAKilledProcessLeftIsRemoved) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    NewFile file(path("a"));
    (void)file.temporary();
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  std::ofstream(path("a")) << "kept";
  const std::string other = path("b") + ".tmp-" + std::to_string(writer) + "-0";
  std::ofstream(other) << "of another output";
  ASSERT_EQ(files(), 3);
  fs::create_symlink(path("a"), path("link"));
  remove_uncommitted(path("link"), writer);
  EXPECT_EQ(files(), 3);
  EXPECT_EQ(content(path("a")), "kept");
  EXPECT_TRUE(fs::exists(other));
  EXPECT_NO_THROW(remove_uncommitted(path("nowhere/a"), writer));
}

TEST_F(NewFileTest, KeepsTheOrderOfSmallAndLargePieces) {
  std::string expected;
  NewFile file(path("a"));
  for (const std::size_t size : {1UL, 1UL << 20, 3UL, (1UL << 18) - 2, 5UL, 1UL << 18, 0UL, 7UL}) {
    const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
    file << piece;
    expected += piece;
  }
  file.commit();
  EXPECT_TRUE(content(path("a")) == expected);
}

TEST_F(NewFileTest, DisappearsWithoutCommit) {
  std::ofstream(path("a")) << "old";
  { NewFile(path("a")) << "new"; }
  EXPECT_EQ(content(path("a")), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(NewFileTest, TwoWritersOfOneFileDoNotMeet) {
  NewFile one(path("a")), other(path("a"));
  one << "one";
  other << "other";
  one.commit();
  EXPECT_EQ(content(path("a")), "one");
  other.commit();
  EXPECT_EQ(content(path("a")), "other");
  EXPECT_EQ(files(), 1);
}

TEST_F(NewFileTest, TakesWhatALibraryWroteUnderTheTemporaryName) {
  NewFile file(path("a"));
  std::ofstream(file.temporary()) << "theirs";
  file.commit();
  EXPECT_EQ(content(path("a")), "theirs");
}

TEST_F(NewFileTest, NamesThePathAndTheCause) {
  EXPECT_EQ(testing::refusal_of([&] { NewFile file(path("no/such/folder")); }), path("no/such/folder") + ": there is no such folder");
  EXPECT_EQ(testing::refusal_of([&] { NewFile file(path(std::string(300, 'n').c_str())); }),
            path(std::string(300, 'n').c_str()) + ": the name is too long");
  EXPECT_EQ(testing::refusal_of([&] { NewFile(folder_.string()).commit(); }), folder_.string() + ": this is a folder");
  EXPECT_EQ(testing::error_of([&] { NewFile file("/sys/kernel/out"); }).code(), ExitCode::usage);
  EXPECT_EQ(testing::error_of([&] { NewFile file(path("no/such/folder"), ExitCode::environment); }).code(), ExitCode::environment);
  EXPECT_EQ(write_error("p", ENOSPC).code(), ExitCode::environment);
  EXPECT_EQ(write_error("p", EIO).code(), ExitCode::environment);
}

// A limit on the size of files stands for the full disk.
TEST_F(NewFileTest, AFullDiskLeavesTheOldFile) {
  std::ofstream(path("a")) << "old";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{100, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Error error = testing::error_of([&] {
    NewFile file(path("a"));
    file << std::string(1000, 'x');
    file.commit();
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_EQ(error.where(), path("a"));
  EXPECT_EQ(error.problem(), "the file would be larger than the limit on files");
  EXPECT_EQ(content(path("a")), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(NewFileTest, SymbolicLinksStayAndWhatTheyLeadToIsReplaced) {
  fs::create_directory(folder_ / "other");
  std::ofstream(path("other/a")) << "old";
  fs::create_symlink("other/a", path("link"));
  fs::create_symlink("link", path("link to link"));
  fs::create_symlink("other/new", path("dangling"));
  for (const char* name : {"link to link", "dangling"}) {
    NewFile file(path(name));
    file << "new";
    file.commit();
    EXPECT_TRUE(fs::is_symlink(path(name)));
    EXPECT_EQ(content(path(name)), "new");
  }
  EXPECT_EQ(content(path("other/a")), "new");
  EXPECT_EQ(content(path("other/new")), "new");
  EXPECT_EQ(files(), 4);
}

TEST_F(NewFileTest, LinksInACircleAreRefused) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  EXPECT_EQ(testing::error_of([&] { NewFile file(path("a")); }).code(), ExitCode::usage);
}

TEST_F(NewFileTest, PermissionsStay) {
  std::ofstream(path("a")) << "old";
  fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write);
  NewFile file(path("a"));
  file << "new";
  file.commit();
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(NewFileTest, DevicesAreWrittenToAndStay) {
  fs::create_symlink("/dev/null", path("null"));
  for (const std::string& device : {std::string("/dev/null"), path("null")}) {
    ASSERT_TRUE(is_written_directly(device));
    NewFile file(device);
    file << "new";
    file.commit();
    NewFile of_library(device);
    std::ofstream(of_library.temporary()) << "by a library";
    of_library.commit();
  }
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(fs::is_symlink(path("null")));
  EXPECT_EQ(files(), 1);
  const Error full = testing::error_of([] {
    NewFile file("/dev/full");
    file << "x";
    file.commit();
  });
  EXPECT_EQ(full.problem(), "the disk is full");
}

TEST_F(NewFileTest, WithoutATemporaryFolderALibraryCanNotWriteToADevice) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", path("none").c_str(), 1);
  NewFile file("/dev/null");
  EXPECT_EQ(testing::refusal_of([&] { (void)file.temporary(); }), path("none") + ": there is no such folder");
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
}

TEST_F(NewFileTest, PipesAreWrittenTo) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  {
    NewFile file(path("pipe"));
    std::ofstream(file.temporary()) << "by a library";
    file.commit();
  }
  std::string read(100, '\0');
  const ssize_t count = ::read(reader, read.data(), read.size());
  ::close(reader);
  EXPECT_EQ(read.substr(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0))), "by a library");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_EQ(files(), 1);
}

// A descriptor of this process stands for /dev/stdout, which leads to one.
TEST_F(NewFileTest, FilesThatAProcessHasOpenAreWrittenTo) {
  const int open_file = ::open(path("a").c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_GE(open_file, 0);
  const std::string open_path = "/proc/self/fd/" + std::to_string(open_file);
  fs::create_symlink(open_path, path("link"));
  for (const std::string& name : {open_path, path("link")}) {
    ASSERT_TRUE(is_written_directly(name));
    NewFile file(name);
    file << "x";
    file.commit();
  }
  char read[3] = {};
  EXPECT_EQ(::pread(open_file, read, 2, 0), 2) << "the file that is open got both";
  ::close(open_file);
  EXPECT_FALSE(is_written_directly(path("a")));
}

TEST_F(NewFileTest, WhatCameInTheWayMeanwhileStays) {
  NewFile file(path("a"));
  file << "new";
  ASSERT_EQ(::mkfifo(path("a").c_str(), 0600), 0);
  EXPECT_EQ(testing::error_of([&] { file.commit(); }).where(), path("a"));
  EXPECT_TRUE(fs::is_fifo(path("a")));
}

TEST_F(NewFileTest, AnInputIsNoOutputByWhateverName) {
  std::ofstream(path("a")) << "x";
  std::ofstream(path("b")) << "x";
  fs::create_symlink("a", path("link"));
  fs::create_hard_link(path("a"), path("hard"));
  for (const char* name : {"a", "link", "hard"})
    EXPECT_EQ(testing::refusal_of([&] {
                require_other_than(path(name), {path("b"), path("a")});
              }),
              path(name) + ": the output would replace an input of this command");
  require_other_than(path("a"), {path("b"), path("no such file"), ""});
  require_other_than("/dev/null", {"/dev/null"});
  require_other_than(path("new"), {path("new")});
}

TEST_F(NewFileTest, MovesACompleteFile) {
  std::ofstream(path("from")) << "new";
  std::ofstream(path("to")) << "old";
  move_file(path("from"), path("to"));
  EXPECT_EQ(content(path("to")), "new");
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(testing::error_of([&] { move_file(path("to"), path("no/such/folder")); }).where(), path("no/such/folder"));
  EXPECT_EQ(content(path("to")), "new");
}

}  // namespace
}  // namespace mptune::profiler
