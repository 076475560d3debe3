#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "profiler/trace/formats/text_input.h"

namespace mptune::profiler {

/// Lines of an untrusted text, with their numbers for messages. Empty lines are skipped; line ends (\n or \r\n) are removed.
class TextLines {
 public:
  /// `remedy` is used for every Error. `input` must outlive this.
  TextLines(TextInput& input, std::string remedy) : input_(input), remedy_(std::move(remedy)) {}

  /// Goes to the next line; false at the end. Throws Error for a line of more than 64 KiB or with a control character.
  [[nodiscard]] bool next();
  [[nodiscard]] const std::string& line() const { return line_; }
  /// Returns the number of the current line, from 1; at the end, the number of the last line.
  [[nodiscard]] std::int64_t number() const { return number_; }

  /// Throws Error with `what`, the current line or line `at`, and the remedy.
  [[noreturn]] void refuse(const std::string& what) const { refuse(what, number_); }
  [[noreturn]] void refuse(const std::string& what, std::int64_t at) const;

  /// Reads a number that is finite, not negative and at most `most`. Throws Error with `name`.
  [[nodiscard]] double quantity(std::string_view text, std::string_view name, double most) const;

 private:
  TextInput& input_;
  std::string remedy_;
  std::string line_;
  std::int64_t number_ = 0;
};

/// Returns `text` without leading and trailing blanks.
[[nodiscard]] std::string_view trimmed(std::string_view text);

}  // namespace mptune::profiler
