#include "profiler/base/new_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
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
  EXPECT_EQ(content(path("a")), "old");
  EXPECT_EQ(files(), 1);
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
