#include "profiler/base/shell_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/printable.h"

namespace mptune {
namespace {

bool is_plain(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || std::string_view("-_./:=,+@%").find(letter) != std::string_view::npos;
}

std::string in_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

// Calls printf with every byte but plain ones as an octal number: not every shell knows $'...'.
std::string by_printf(const std::string& text) {
  std::string format;
  for (const char letter : text) {
    if (is_plain(letter) && letter != '%') {
      format += letter;
      continue;
    }
    std::array<char, 8> octal{};
    std::snprintf(octal.data(), octal.size(), "\\%03o", static_cast<unsigned>(static_cast<unsigned char>(letter)));
    format += octal.data();
  }
  return "\"$(printf -- '" + format + "')\"";
}

}  // namespace

std::string shell_word(const std::string& text) {
  if (printable(text) != text) return by_printf(text);
  return !text.empty() && std::ranges::all_of(text, is_plain) ? text : in_quotes(text);
}

std::string absolute_path(const std::string& path) {
  if (path.empty()) return path;
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  if (failed) return path;
  std::string text = absolute.lexically_normal().string();
  if (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

void require_path_for_sqlite(const std::string& path) {
  constexpr std::size_t kMost = 490;  // SQLite's 512 without the endings of the files that it writes beside
  std::error_code failed;
  const std::size_t length = std::filesystem::absolute(path, failed).string().size();
  // If the current folder is gone, SQLite says so.
  if (failed ? failed != std::errc::filename_too_long && failed != std::errc::result_out_of_range : length <= kMost) return;
  throw Error(
      "the path is too long for SQLite" + (failed ? "" : ": " + std::to_string(length) + " bytes, at most " + std::to_string(kMost)), path,
      "work in a folder with a shorter path, or choose a shorter name");
}

ShellCommand& ShellCommand::word(const std::string& word) {
  text_ += " " + shell_word(word);
  return *this;
}

ShellCommand& ShellCommand::option(const std::string& name, const std::string& value) {
  if (value.empty()) return *this;
  // A value that begins like an option would be taken for one.
  return value.starts_with('-') ? word(name + "=" + value) : word(name).word(value);
}

}  // namespace mptune
