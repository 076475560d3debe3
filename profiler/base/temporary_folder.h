#pragma once

#include <optional>
#include <string>

#include "profiler/base/unfinished.h"

namespace mptune {

/// A new folder that is removed with all its files when this object ends or the process is interrupted. Folders that killed processes left
/// in the same place are removed, too. Throws Error (environment) if the folder can't be made.
class TemporaryFolder {
 public:
  TemporaryFolder();                                  ///< in TMPDIR
  explicit TemporaryFolder(const std::string& base);  ///< in `base`: for files that are moved to that disk later
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  int lock_ = -1;
  std::optional<Unfinished> unfinished_;
};

}  // namespace mptune
