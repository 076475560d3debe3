#pragma once

#include <string>
#include <vector>

namespace emulation {

/// A folder for a compilation's files, removed with it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  /// "" if it could not be made.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Returns the file's path.
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

[[nodiscard]] std::string contents_of(const std::string& file);

struct CompilerRun {
  bool succeeded = false;
  std::string messages;
};

/// Runs the host's C++ compiler ($EMULATED_COMPILER, else the one that compiled this) with `arguments`, its messages in English and without
/// the emulated machine preloaded into it.
[[nodiscard]] CompilerRun run_compiler(const TemporaryFolder& folder, const std::vector<std::string>& arguments);

}  // namespace emulation
