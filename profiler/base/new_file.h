#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/unfinished.h"

namespace mptune {

/// A file that appears complete or not at all: the one writer of everything that a user names. It is written under a temporary name beside
/// the file; commit() syncs it to the disk and puts it in the place of the file that was there, whose permissions it keeps. A symbolic link
/// stays: the file that it leads to is replaced. Only regular files are ever replaced: devices, pipes and files of /proc, such as
/// /dev/stdout, are written to as they are. What a killed process left of `path` is removed. Members throw what write_error() returns.
class NewFile {
 public:
  /// `wrong_path` is the exit code if the file can't be there: its folder does not exist, or is read-only.
  explicit NewFile(std::string path, ExitCode wrong_path = ExitCode::usage);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  /// Removes what was not committed.
  ~NewFile();

  NewFile& operator<<(std::string_view bytes);
  /// Returns where the content is until commit(), for a library that opens its files itself. Requires: nothing was written with <<.
  [[nodiscard]] const std::string& temporary();
  void commit();

 private:
  [[nodiscard]] int create_temporary(const std::string& target, const std::string& named);
  void write(std::string_view bytes);
  void copy_temporary();
  [[noreturn]] void fail() const;

  std::string path_;
  std::string target_;  ///< the path with symbolic links followed; empty: it is no regular file, and written to as it is
  std::string temporary_;
  std::optional<Unfinished> unfinished_;  ///< temporary_
  std::string buffer_;
  ExitCode wrong_path_;
  int descriptor_ = -1;
};

/// Returns the path with the symbolic links at its end followed, even if nothing is there yet. Throws Error where links go in a circle.
[[nodiscard]] std::string behind_links(const std::string& path);
/// True if something is there that NewFile does not replace, but writes to: a device, a pipe, /dev/stdout.
[[nodiscard]] bool is_written_directly(const std::string& path);
/// Throws Error if `path` is the same file as one of `inputs`, by whatever name.
void require_other_than(const std::string& path, const std::vector<std::string>& inputs);

/// Removes what a process that was killed wrote of `path` without commit(). What can't be removed stays.
void remove_uncommitted(const std::string& path, pid_t process);

/// Moves a complete file to `path` on the same disk, as NewFile::commit() does. Throws what write_error() returns.
void move_file(const std::string& from, const std::string& path, ExitCode wrong_path = ExitCode::usage);

/// Returns the error for a file that could not be written, by its errno `number`: a full disk is the environment's fault.
[[nodiscard]] Error write_error(const std::string& path, int number, ExitCode wrong_path = ExitCode::usage);

}  // namespace mptune
