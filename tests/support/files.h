#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace mptune::testing {

/// A temporary folder, deleted with this object. `purpose` distinguishes folders of one process.
class TestFolder {
 public:
  explicit TestFolder(const std::string& purpose)
      : folder_(std::filesystem::temp_directory_path() / ("mptune-" + purpose + "-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TestFolder() { std::filesystem::remove_all(folder_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

/// A file beside the running test program, such as a library that is opened at run time.
inline std::filesystem::path beside_program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

/// A file of the published data, in MPTUNE_DATA_DIR or beside the project; "" if it is absent, in which case tests are skipped.
inline std::string shared_data(const std::string& name) {
  const char* given = std::getenv("MPTUNE_DATA_DIR");
  const std::filesystem::path root =
      given == nullptr ? std::filesystem::path(MPTUNE_SOURCE_DIR) / "../shared/data" : std::filesystem::path(given);
  return std::filesystem::exists(root / name) ? (root / name).string() : std::string{};
}

}  // namespace mptune::testing
