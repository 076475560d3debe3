#pragma once

#include <cstddef>
#include <string>

namespace mptune {

/// A file under a temporary name in the folder of `path` that disappears unless it is committed. Its bytes are on the disk before it takes
/// the place of what was there. Members throw Error (environment) but for write().
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Returns what was written; after a failure nothing more is, and the error is kept for check() and commit().
  std::size_t write(const void* data, std::size_t bytes);
  void check() const;
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int descriptor_;
  int error_ = 0;
};

}  // namespace mptune
