#include "profiler/base/printable.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace mptune {
namespace {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< 0: the text does not go on with UTF-8
};

CodePoint first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t value = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  // Refuses what is longer than needed, half of a pair of UTF-16, or beyond Unicode.
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast.at(bytes) || (value >= 0xD800 && value <= 0xDFFF) || value > 0x10FFFF) return {};
  return {value, bytes};
}

bool steers(char32_t c) {
  const auto between = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  return c < 0x20 || between(0x7F, 0x9F) || c == 0x061C || between(0x200E, 0x200F) || between(0x2028, 0x202E) || between(0x2066, 0x2069);
}

std::string spelled(const char* format, unsigned value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string spelled(char32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return spelled("\\u%04x", static_cast<unsigned>(c));
  }
}

}  // namespace

std::string printable(std::string_view text, LineEnds line_ends) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const CodePoint next = first_of(text);
    const std::size_t bytes = std::max<std::size_t>(1, next.bytes);
    if (next.bytes == 0)
      safe += spelled("\\x%02x", static_cast<unsigned char>(text[0]));
    else if (steers(next.value) && !(next.value == '\n' && line_ends == LineEnds::kept))
      safe += spelled(next.value);
    else
      safe += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return safe;
}

}  // namespace mptune
