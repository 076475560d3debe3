#pragma once

#include <string>

namespace mptune {

/// Returns `text` as one word of a POSIX shell, quoted if necessary. The word is printable in one line: control characters and bytes that
/// are not UTF-8 are spelled for the shell's printf. Line ends at the very end of `text` are lost, as the shell drops them.
[[nodiscard]] std::string shell_word(const std::string& text);

/// Returns `path` from the root, so that a command with it works from any folder. "" stays "".
[[nodiscard]] std::string absolute_path(const std::string& path);
/// Throws Error if SQLite can't open a file at `path` because it is too long from the root.
void require_path_for_sqlite(const std::string& path);

/// A command to paste into a shell, built word by word.
class ShellCommand {
 public:
  /// `words` are taken as they are: "mptune run".
  explicit ShellCommand(std::string words) : text_(std::move(words)) {}
  ShellCommand& word(const std::string& word);
  /// Adds an option and its value; adds nothing if the value is "".
  ShellCommand& option(const std::string& name, const std::string& value);
  /// Adds the name of a file, from the root.
  ShellCommand& file(const std::string& path) { return word(absolute_path(path)); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace mptune
