#include "profiler/base/nearest_word.h"

#include <algorithm>

namespace mptune {
namespace {

/// Longer words are no typing mistakes, and comparing them takes time.
constexpr std::size_t kLongestWord = 200;

/// Edits that a word may have and still be a typing mistake: one for "toy", since two make any other word of three letters.
std::size_t most_edits(std::size_t length) {
  return length < 4 ? 1 : std::max<std::size_t>(2, length / 3);
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> least(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) least[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) least[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      least[i][j] = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1, least[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& words) {
  std::string best;
  if (word.size() > kLongestWord) return best;
  std::size_t least = most_edits(word.size()) + 1;
  for (const std::string& candidate : words) {
    if (const std::size_t edits = edit_distance(word, candidate); edits < least) {
      least = edits;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& words, const std::string& remedy) {
  const std::string near = nearest_word(word, words);
  return (near.empty() ? "" : "did you mean " + near + "? ") + remedy;
}

}  // namespace mptune
