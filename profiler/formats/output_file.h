#pragma once

#include <string>
#include <string_view>

namespace mptune {

/// Writes a file atomically: to a temporary file in the same folder, which commit() renames.
/// Every member throws Error if the file can't be written (usage: no such folder, no permission; environment: disk full).
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Deletes the temporary file if commit() was not called.
  ~OutputFile();

  OutputFile& operator<<(std::string_view text);
  /// Syncs the file and renames it to its path; an existing file is replaced.
  void commit();

 private:
  void flush();
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  std::string buffer_;
  int descriptor_ = -1;
};

/// Nanoseconds as microseconds, exact: "12.345".
[[nodiscard]] std::string microseconds_text(long long nanoseconds);

/// A JSON string with its quotes; invalid UTF-8 becomes U+FFFD.
[[nodiscard]] std::string json_text(const std::string& text);

}  // namespace mptune
