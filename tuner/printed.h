#pragma once

#include <cstdio>
#include <string>

namespace mptune {

/// What printf would print.
template <class... T>
[[nodiscard]] std::string printed(const char* format, T... values) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, values...)) + 1, '\0');
  std::snprintf(text.data(), text.size(), format, values...);
  text.pop_back();
  return text;
}

}  // namespace mptune
