#pragma once

#include <string>
#include <string_view>

namespace mptune {

/// A file that appears complete or not at all: it is written under a temporary name beside its own and renamed by commit().
/// Everything throws Error where the file can't be written (usage: no such folder, no permission; environment: disk full).
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Removes what was not committed.
  ~OutputFile();

  OutputFile& operator<<(std::string_view text);
  /// Syncs the file and gives it its name, replacing what has it.
  void commit();

 private:
  void flush();
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  std::string buffer_;
  int descriptor_ = -1;
};

/// "12.345": nanoseconds as microseconds, exact.
[[nodiscard]] std::string microseconds_text(long long nanoseconds);

/// A JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] std::string json_text(const std::string& text);

}  // namespace mptune
