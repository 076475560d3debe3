#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mptune/profiler/formats/text_input.h"

namespace mptune {

/// Lines of a text that nobody vouches for, with their numbers for messages. Empty lines are left out, and so is what ends a line: \n or
/// \r\n.
class TextLines {
 public:
  /// `remedy` is that of every refusal. `input` must outlive this.
  TextLines(TextInput& input, std::string remedy) : input_(input), remedy_(std::move(remedy)) {}

  /// Goes to the next line; false at the end. Throws Error for a line of more than 64 KiB or with a character that is none.
  [[nodiscard]] bool next();
  [[nodiscard]] const std::string& line() const { return line_; }
  /// Of the current line, from 1; the last one's at the end.
  [[nodiscard]] std::int64_t number() const { return number_; }

  /// Throws Error with `what`, the current line or line `at`, and the remedy.
  [[noreturn]] void refuse(const std::string& what) const { refuse(what, number_); }
  [[noreturn]] void refuse(const std::string& what, std::int64_t at) const;

  /// A number of the current line: finite, not negative, at most `most`. Throws Error that names it.
  [[nodiscard]] double quantity(std::string_view text, std::string_view name, double most) const;

 private:
  TextInput& input_;
  std::string remedy_;
  std::string line_;
  std::int64_t number_ = 0;
};

/// `text` without blanks around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);

}  // namespace mptune
