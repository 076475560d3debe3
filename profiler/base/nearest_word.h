#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mptune {

/// Returns the edit distance: the fewest insertions, deletions, replacements and exchanges of neighbours that turn one word into the other.
/// No letter is changed twice.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the nearest of `words`, the first one if several are equally near; "" if none is near enough to be a typing mistake.
[[nodiscard]] std::string nearest_word(std::string_view word, const std::vector<std::string>& words);

/// Returns "did you mean sgd? " followed by `remedy` if a word is near enough, else `remedy` alone.
[[nodiscard]] std::string did_you_mean(std::string_view word, const std::vector<std::string>& words, const std::string& remedy);

}  // namespace mptune
