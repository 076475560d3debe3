#include "profiler/base/choice_text.h"

#include "profiler/base/text.h"

namespace mptune {

ChoiceText split_choice(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  ChoiceText choice;
  for (const std::string& part : parts) {
    if (&part == &parts.front()) {
      choice.name = part;
      continue;
    }
    const std::size_t equals = part.find('=');
    choice.parts.push_back({part, part.substr(0, equals), equals == std::string::npos ? "" : part.substr(equals + 1)});
  }
  return choice;
}

}  // namespace mptune
