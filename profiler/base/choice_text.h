#pragma once

#include <string>
#include <vector>

namespace mptune {

/// What follows a colon: "warmup=100".
struct ChoicePart {
  std::string text;
  std::string name;   ///< "warmup"
  std::string value;  ///< "100"; "" without '='
};

/// A choice with details, as options take it: "cosine:warmup=100:end=0.1".
struct ChoiceText {
  std::string name;
  std::vector<ChoicePart> parts;
};

[[nodiscard]] ChoiceText split_choice(const std::string& text);

}  // namespace mptune
