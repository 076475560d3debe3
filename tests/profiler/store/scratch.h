#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "mptune/profiler/store/store.h"
#include "mptune/tests/support/hand_profile.h"
#include "mptune/tests/support/hand_trace.h"
#include "mptune/tests/support/nsight_rules.h"

namespace mptune::testing {

/// A folder of the test's own that vanishes with it.
class Scratch : public ::testing::Test {
 protected:
  Scratch() : folder_(std::filesystem::temp_directory_path() / ("mptune-store-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Scratch() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name = "t.sqlite") const { return (folder_ / name).string(); }

  /// Writes to path() a file that has to mean what readers of the layout expect.
  void write(const Recording& recording) const {
    write_recording(recording, path(), true);
    const std::vector<std::string> broken = broken_rules(path());
    EXPECT_TRUE(broken.empty()) << broken.front();
  }

  /// A full recording, written to path().
  Recording write_hand_made() const {
    Recording recording{.trace = hand_trace(),
                        .profile = hand_profile(),
                        .plan_json = R"({"num_stages": 2})",
                        .environment = R"({"cores": 2})",
                        .step_off_s = 0.1,
                        .step_on_s = 0.101};
    write(recording);
    return recording;
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
