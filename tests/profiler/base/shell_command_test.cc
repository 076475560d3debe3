#include "profiler/base/shell_command.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <random>

#include "profiler/base/printable.h"

namespace mptune {
namespace {

/// What a real shell makes of the command.
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen(command.c_str(), "r");  // sh -c
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return text;
}

/// Between brackets, so that nothing at the ends is overlooked.
std::string through_shell(const std::string& word) {
  return output_of("printf '[%s]' " + shell_word(word));
}

TEST(ShellWord, StaysAsItIsWhereNothingIsSpecial) {
  for (const char* word : {"resnet50", "transformer:d=64,layers=4", "cpu:0-3,cuda:0/1of2", "/home/me/net.pt2", "12GB/s,10us", "a@b%c+d_e"})
    EXPECT_EQ(shell_word(word), word);
}

TEST(ShellWord, AShellReadsIt) {
  for (const std::string word : {"",   " ",         "two words", "it's",   "$HOME",    "`id`",   "$(id)",    "a\\b",         "\"",
                                 "'",  "''",        "*",         "~",      "#",        "a;b",    "a&b|c>d",  "!x",           "{a,b}",
                                 "-n", "tab\there", "line\nend", "bell\a", "\x1b[31m", "%s\n%d", "\x80\xff", "\xe2\x80\xae", "ä"}) {
    EXPECT_EQ(through_shell(word), "[" + word + "]") << shell_word(word);
    EXPECT_EQ(printable(shell_word(word)), shell_word(word)) << "one line without control characters";
  }
}

TEST(ShellWord, AShellReadsAnyBytes) {
  std::mt19937 random(7);  // NOLINT: the same bytes each time
  for (int i = 0; i < 50; ++i) {
    std::string word;
    for (int n = 0; n < 12; ++n) word += static_cast<char>(1 + random() % 255);
    while (word.ends_with('\n')) word.pop_back();
    ASSERT_EQ(through_shell(word), "[" + word + "]") << shell_word(word);
  }
}

TEST(ShellCommand, LeavesOutOptionsWithoutValue) {
  EXPECT_EQ(ShellCommand("mptune run").word("a b").option("--lr", "").option("--link", "1GB/s,2us").text(),
            "mptune run 'a b' --link 1GB/s,2us");
  EXPECT_EQ(ShellCommand("mptune run").option("--input", "--force").text(), "mptune run --input=--force");
}

TEST(ShellCommand, FilesAreNamedFromTheRoot) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(ShellCommand("cat").file("./a/../b").text(), "cat " + shell_word(here + "/b"));
  EXPECT_EQ(absolute_path("/x/y/"), "/x/y");
  EXPECT_EQ(absolute_path(""), "");
}

}  // namespace
}  // namespace mptune
