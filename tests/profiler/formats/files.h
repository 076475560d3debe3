#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace mptune::testing {

/// A folder of the test's own that vanishes with it.
class Files : public ::testing::Test {
 protected:
  Files() : folder_(std::filesystem::temp_directory_path() / ("mptune-formats-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  [[nodiscard]] std::string put(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << content;
    return path(name);
  }

  [[nodiscard]] std::string put_gz(const std::string& name, const std::string& content) const {
    const gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path(name);
  }

  [[nodiscard]] static std::string bytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Names of the files in the folder.
  [[nodiscard]] int count_files() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++count;
    return count;
  }

 private:
  std::filesystem::path folder_;
};

/// The shared data file, "" where it is absent.
inline std::string shared_data(const std::string& name) {
  const char* given = std::getenv("MPTUNE_DATA_DIR");
  const std::filesystem::path root =
      given == nullptr ? std::filesystem::path(MPTUNE_SOURCE_DIR) / "../shared/data" : std::filesystem::path(given);
  return std::filesystem::exists(root / name) ? (root / name).string() : std::string{};
}

}  // namespace mptune::testing
