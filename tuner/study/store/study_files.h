#pragma once

#include <string>

namespace mptune::tuner {

/// Returns true for network file systems and FUSE (`type` is statfs f_type). SQLite's write-ahead log needs memory that all its users
/// share, which these do not provide.
[[nodiscard]] bool is_network_file_system(long type);
/// Does the same for the file system that holds `path`.
[[nodiscard]] bool on_network_file_system(const std::string& path);

/// The lock of a study folder. The kernel releases it when its owner ends, however it ends.
class FolderLock {
 public:
  /// Throws Error (usage) if another process holds the lock, and Error (environment) if the folder can't be written.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

/// Returns true for an empty folder, or one with only the remains of an interrupted creation, or with a lock and the exported program to
/// tune.
[[nodiscard]] bool is_empty_study_folder(const std::string& folder);
/// Makes the folder and its parents. Throws Error (environment).
void make_folder(const std::string& folder);
/// Makes a study's folder and those inside it, as make_folder() does.
void make_study_folder(const std::string& folder);
/// Removes what mptune writes into a study folder, and nothing else. Throws Error (environment).
void remove_study_files(const std::string& folder);
/// Returns the 4-byte number at byte `place` of an SQLite file's header (60: user version, 68: application id); -1 if `path` is no SQLite
/// file.
[[nodiscard]] long long sqlite_header_number(const std::string& path, int place);

}  // namespace mptune::tuner
