#pragma once

#include <string>

namespace mptune::tuner {

/// Whether files of a kind of file system (statfs f_type) are shared between hosts or reached through a user's program: write-ahead logs
/// need memory shared by all who open them, which these do not give.
[[nodiscard]] bool is_network_file_system(long type);
/// The same for the file system that holds `path`.
[[nodiscard]] bool on_network_file_system(const std::string& path);

/// Lock of a study folder; the kernel gives it back when its owner ends in any way.
class FolderLock {
 public:
  /// Throws Error (usage) if another process holds it, (environment) if the folder can't be written.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

/// True for an empty folder, or one with only the remains of an interrupted creation.
[[nodiscard]] bool is_empty_study_folder(const std::string& folder);
/// Makes the folder and its parents. Throws Error (environment).
void make_study_folder(const std::string& folder);
/// Removes what mptune writes into a study folder, and nothing else. Throws Error (environment).
void remove_study_files(const std::string& folder);
/// Number at a place of an SQLite file's header (60: user version, 68: application id), -1 where `path` is no SQLite file.
[[nodiscard]] long long sqlite_header_number(const std::string& path, int place);

}  // namespace mptune::tuner
