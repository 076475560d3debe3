#include "profiler/base/printable.h"

#include <gtest/gtest.h>

namespace mptune {
namespace {

TEST(Printable, LeavesTextAlone) {
  const std::string text = "block 1 \\ ~ é € 漢 😀 \u00a0 \u200d ─";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, ShowsWhatSteersATerminal) {
  EXPECT_EQ(printable("\x1b[2Ja\rb\bc\a\td\x7f"), R"(\u001b[2Ja\rb\u0008c\u0007\td\u007f)");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), R"(a\u0000b)");
  EXPECT_EQ(printable("\u0080\u009b31m\u009f"), R"(\u0080\u009b31m\u009f)");
  EXPECT_EQ(printable("\u202a\u202e\u2066\u2069\u200e\u200f\u061c\u2028\u2029"),
            R"(\u202a\u202e\u2066\u2069\u200e\u200f\u061c\u2028\u2029)");
}

TEST(Printable, ShowsOrKeepsLineEnds) {
  EXPECT_EQ(printable("a\nb\n"), R"(a\nb\n)");
  EXPECT_EQ(printable("a\nb\r\n", LineEnds::kept), "a\nb\\r\n");
}

TEST(Printable, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\xff\xfe"), R"(a\xff\xfe)");
  EXPECT_EQ(printable("\xc3"), R"(\xc3)");                          // cut off
  EXPECT_EQ(printable("\xe2\x82(x"), R"(\xe2\x82(x)");              // no continuation
  EXPECT_EQ(printable("\xc0\x8a\xc1\x9b"), R"(\xc0\x8a\xc1\x9b)");  // '\n' and ESC in two bytes
  EXPECT_EQ(printable("\xe0\x80\x8a"), R"(\xe0\x80\x8a)");          // '\n' in three
  EXPECT_EQ(printable("\xed\xa0\x80"), R"(\xed\xa0\x80)");          // half of a pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)");  // beyond Unicode
  EXPECT_EQ(printable("\x9b\x31m"), R"(\x9b1m)");                   // C1 as Latin-1
}

TEST(Printable, IsDoneOnce) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string safe = printable(std::string{static_cast<char>(first), static_cast<char>(second)});
      EXPECT_EQ(printable(safe), safe);
      for (const char c : safe) EXPECT_TRUE(c < 0 || (c >= 0x20 && c != 0x7f)) << first << " " << second;
    }
  }
}

}  // namespace
}  // namespace mptune
