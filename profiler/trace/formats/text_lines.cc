#include "profiler/trace/formats/text_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

constexpr std::size_t kLongestLine = std::size_t{64} << 10;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 && c != '\t';
}

}  // namespace

bool TextLines::next() {
  line_.clear();
  int c = input_.sbumpc();
  while (c != TextInput::traits_type::eof() && line_.empty()) {
    ++number_;
    for (; c != '\n' && c != TextInput::traits_type::eof(); c = input_.sbumpc()) {
      line_.push_back(static_cast<char>(c));
      if (line_.size() > kLongestLine) refuse("the line is longer than 64 KiB");
    }
    input_.token();
    if (line_.ends_with('\r')) line_.pop_back();
    if (std::any_of(line_.begin(), line_.end(), is_control)) refuse("the line holds a control character");
    if (trimmed(line_).empty()) line_.clear();
    if (line_.empty() && c == '\n') c = input_.sbumpc();
  }
  return !line_.empty();
}

void TextLines::refuse(const std::string& what, std::int64_t at) const {
  throw Error(what, input_.where() + ":" + std::to_string(std::max<std::int64_t>(at, 1)), remedy_);
}

double TextLines::quantity(std::string_view text, std::string_view name, double most) const {
  text = trimmed(text);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc::invalid_argument || end != text.data() + text.size()) refuse(std::string(name) + " is not a number");
  if (fault != std::errc{} || !std::isfinite(value) || value < 0 || value > most) refuse(std::string(name) + " is out of range");
  return value;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace mptune::profiler
