#include "profiler/base/unfinished.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "profiler/base/new_file.h"
#include "profiler/base/temporary_folder.h"

namespace mptune {
namespace {

namespace fs = std::filesystem;

class UnfinishedTest : public ::testing::Test {
 protected:
  UnfinishedTest() : folder_(fs::path(::testing::TempDir()) / ("unfinished_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~UnfinishedTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.insert(entry.path().filename().string());
    return all;
  }
  void write(const std::string& name) const { std::ofstream(folder_ / name) << "x"; }
  /// In a process that then ends without destructors. Returns its number.
  static pid_t in_a_killed_process(const std::function<void()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      work();
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    return child;
  }

  fs::path folder_;
};

TEST_F(UnfinishedTest, WhatAKilledProcessLeftGoesWithTheNextOfItsName) {
  in_a_killed_process([&] {
    NewFile file(path("a.csv"));
    NewFile other(path("b.csv"));
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(names().size(), 2U);
  NewFile file(path("a.csv"));
  file << "whole";
  file.commit();
  EXPECT_EQ(names().size(), 2U) << "that of b.csv stays, it has another name";
  NewFile(path("b.csv")).commit();
  EXPECT_EQ(names(), (std::set<std::string>{"a.csv", "b.csv"}));
}

TEST_F(UnfinishedTest, FoldersGoWithTheNext) {
  in_a_killed_process([&] {
    const TemporaryFolder temporary(folder_.string());
    std::ofstream(temporary.file("trace")) << "x";
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_EQ(names().size(), 1U);
  const std::string left = *names().begin();
  {
    const TemporaryFolder temporary(folder_.string());
    EXPECT_EQ(names().size(), 1U);
    EXPECT_FALSE(names().contains(left));
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(UnfinishedTest, WhatIsHeldAndWhatIsOfOthersStays) {
  const pid_t ended = in_a_killed_process([] {});
  const std::string gone = "a.tmp-" + std::to_string(ended) + "-0", held = "a.tmp-" + std::to_string(ended) + "-1";
  const std::string alive = "a.tmp-" + std::to_string(::getpid()) + "-0";
  for (const std::string& name : {gone, held, alive, std::string("a.tmp-notes"), std::string("a.tmp-99999999999999-0"),
                                  "b.tmp-" + std::to_string(ended) + "-0", "a.tmp-" + std::to_string(ended)})
    write(name);
  const int descriptor = ::open(path(held).c_str(), O_RDONLY);
  lock_unfinished(descriptor);
  const std::size_t before = names().size();
  remove_leftovers(folder_.string(), "a.tmp-");
  EXPECT_FALSE(names().contains(gone));
  EXPECT_EQ(names().size(), before - 1);
  ::close(descriptor);
  remove_leftovers(folder_.string(), "a.tmp-");
  EXPECT_FALSE(names().contains(held));
  EXPECT_TRUE(names().contains(alive));
}

TEST_F(UnfinishedTest, AnInterruptRemovesWhatIsNotDone) {
  in_a_killed_process([&] {
    NewFile done(path("done"));
    done.commit();
    NewFile file(path("a.csv"));
    const TemporaryFolder temporary(folder_.string());
    std::ofstream(temporary.file("trace")) << "x";
    remove_unfinished();
    ::_exit(0);
  });
  EXPECT_EQ(names(), (std::set<std::string>{"done"}));
}

}  // namespace
}  // namespace mptune
