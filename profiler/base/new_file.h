#pragma once

#include <string>
#include <string_view>

#include "profiler/base/error.h"

namespace mptune {

/// A file that appears complete or not at all. It is written under a temporary name in the folder of `path`; commit() puts it on the disk
/// and in the place of what was there. Members throw what write_error() says.
class NewFile {
 public:
  /// `wrong_path` is the exit code where there can be no such file: no such folder, or one that is read-only.
  explicit NewFile(std::string path, ExitCode wrong_path = ExitCode::usage);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  /// Removes what was not committed.
  ~NewFile();

  NewFile& operator<<(std::string_view bytes);
  /// Where the content is until commit(), for a library that opens its files itself.
  [[nodiscard]] const std::string& temporary() const { return temporary_; }
  void commit();

 private:
  void write(std::string_view bytes);
  [[noreturn]] void fail() const;

  std::string path_;
  std::string temporary_;
  std::string buffer_;
  ExitCode wrong_path_;
  int descriptor_ = -1;
};

/// Moves a complete file on one disk in the place of `path`. Throws what write_error() says.
void move_file(const std::string& from, const std::string& path, ExitCode wrong_path = ExitCode::usage);

/// What errno `number` means for a file that could not be written: a full disk is the environment's fault.
[[nodiscard]] Error write_error(const std::string& path, int number, ExitCode wrong_path = ExitCode::usage);

}  // namespace mptune
