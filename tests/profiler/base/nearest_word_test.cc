#include "profiler/base/nearest_word.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

namespace mptune::testing {
namespace {

/// The words that one edit makes of a word, of letters a and b and up to four of them.
std::vector<std::string> edited(const std::string& word) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i <= word.size(); ++i) {
    for (const std::string letter : {"a", "b"}) {
      if (word.size() < 4) words.push_back(word.substr(0, i) + letter + word.substr(i));
      if (i < word.size()) words.push_back(word.substr(0, i) + letter + word.substr(i + 1));
    }
    if (i < word.size()) words.push_back(word.substr(0, i) + word.substr(i + 1));
    if (i + 1 < word.size()) words.push_back(word.substr(0, i) + word[i + 1] + word[i] + word.substr(i + 2));
  }
  return words;
}

/// Fewest single edits from `from` to every word of up to four letters, by trying all.
std::map<std::string, std::size_t> distances_from(const std::string& from) {
  std::map<std::string, std::size_t> known{{from, 0}};
  std::deque<std::string> next{from};
  for (; !next.empty(); next.pop_front())
    for (const std::string& word : edited(next.front()))
      if (known.emplace(word, known.at(next.front()) + 1).second) next.push_back(word);
  return known;
}

TEST(EditDistance, IsTheFewestEdits) {
  for (const auto& [a, unused] : distances_from(""))
    for (const auto& [b, least] : distances_from(a)) EXPECT_EQ(edit_distance(a, b), least) << a << " " << b;
}

TEST(EditDistance, CountsAnExchangeOfNeighboursOnce) {
  EXPECT_EQ(edit_distance("1fb1", "1f1b"), 1U);
  EXPECT_EQ(edit_distance("sdg", "sgd"), 1U);
  EXPECT_EQ(edit_distance("", "adam"), 4U);
  EXPECT_EQ(edit_distance("adam", "adam"), 0U);
}

TEST(NearestWord, IsNoneWhereNoMistakeOfTypingExplainsIt) {
  const std::vector<std::string> models{"mlp", "resnet18", "resnet50", "bert"};
  EXPECT_EQ(nearest_word("resnet5", models), "resnet50");
  EXPECT_EQ(nearest_word("resnet19", models), "resnet18") << "the first of two";
  EXPECT_EQ(nearest_word("toy", models), "") << "three letters, two of them others";
  EXPECT_EQ(nearest_word("", models), "");
  EXPECT_EQ(nearest_word("nonsense", models), "");
  EXPECT_EQ(nearest_word("bert", {}), "");
  EXPECT_EQ(nearest_word(std::string(100000, 'x'), models), "");
}

TEST(DidYouMean, StandsBeforeTheRemedy) {
  EXPECT_EQ(did_you_mean("sdg", {"sgd", "adam"}, "use sgd or adam"), "did you mean sgd? use sgd or adam");
  EXPECT_EQ(did_you_mean("best", {"sgd", "adam"}, "use sgd or adam"), "use sgd or adam");
}

}  // namespace
}  // namespace mptune::testing
