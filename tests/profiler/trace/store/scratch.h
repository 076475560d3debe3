#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "profiler/trace/store/store.h"
#include "tests/support/files.h"
#include "tests/support/hand_profile.h"
#include "tests/support/hand_trace.h"
#include "tests/support/nsight_rules.h"

namespace mptune::testing {

/// A temporary folder, deleted with the test.
class Scratch : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name = "t.sqlite") const { return folder_.path(name); }

  /// Writes a file to path() that must be valid for readers of the Nsight layout.
  void write(const profiler::Recording& recording) const {
    profiler::write_recording(recording, path(), true);
    const std::vector<std::string> broken = broken_rules(path());
    EXPECT_TRUE(broken.empty()) << broken.front();
  }

  /// A full recording, written to path().
  profiler::Recording write_hand_made() const {
    profiler::Recording recording{.trace = hand_trace(),
                                  .profile = hand_profile(),
                                  .plan_json = R"({"num_stages": 2})",
                                  .environment = R"({"cores": 2})",
                                  .step_off_s = 0.1,
                                  .step_on_s = 0.101};
    write(recording);
    return recording;
  }

 private:
  TestFolder folder_{"store"};
};

}  // namespace mptune::testing
